"""Everything that runs have in common before the first is measured: one preflight, one import, one look at the device.

Whatever can be refused is refused here, for all of them. Each plan then gets its own hour when its turn comes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from experiments.cli import discovery
from experiments.cli.aside import Aside
from experiments.cli.run_request import Asked
from experiments.evidence import validation
from experiments.evidence.subject import ProfileFacts
from experiments.evidence.vocabulary import RunMode
from experiments.harness import preparing, profile_check
from experiments.harness.experiment import DeviceFacts
from experiments.harness.preparing import Prepared, RunRequest
from tools.environments.errors import LabError
from tools.environments.model import Report
from tools.environments.preflight import report_text
from tools.environments.registry.registry import Registry


@dataclass(frozen=True, slots=True)
class Ready:
    """A run that only has to be measured."""

    request: RunRequest
    prepared: Prepared


def prepare_all(
    asked: Sequence[Asked],
    registry: Registry,
    note: Callable[[str], None],
    *,
    accepted: Sequence[str] = (),
    stop_if_blocked: bool = False,
) -> tuple[Ready, ...]:
    """Prepare every run. LabError for the first that may not begin; nothing was measured then.

    `stop_if_blocked`: the preflight is told in full, and a blocked one ends a run on a CPU too, as it does on a card.
    """
    validation.require()
    for one in asked:
        profile_check.refuse_unvalidated(one.profile, one.request.mode, one.request.workload.name)
    # what can be refused without a download is refused before the preflight, which takes seconds
    known = [None if one.hub_id else preparing.resolve(one.request) for one in asked]
    facts = _preflights(asked, registry, accepted, note)
    for report in {id(one): one.preflight for one in facts if stop_if_blocked}.values():
        if report is not None:
            _tell_and_stop(report, note)
    found = [subject or preparing.resolve(one.request) for one, subject in zip(asked, known, strict=True)]
    devices: dict[RunMode, DeviceFacts] = {}
    ready = []
    for one, profile, subject in zip(asked, facts, found, strict=True):
        request = one.request
        folder = folder_of(request.experiment.name)
        prepared = preparing.prepare(request, profile, subject, folder, note, devices.get(request.mode))
        devices[request.mode] = prepared.plan.device
        ready.append(Ready(request, prepared))
    return tuple(ready)


def _preflights(
    asked: Sequence[Asked], registry: Registry, accepted: Sequence[str], note: Callable[[str], None]
) -> list[ProfileFacts]:
    """The profile of each run with its report: one preflight for all runs of a profile, a mode and a download."""
    made: dict[tuple[str, RunMode, str | None], ProfileFacts] = {}
    out = []
    for one in asked:
        mode, key = one.request.mode, (one.profile.id, one.request.mode, one.hub_id)
        if key not in made:
            look = partial(profile_check.check, one.profile, registry, mode, accepted, one.hub_id)
            made[key] = look() if mode == "dry_run" else _look_and_import(look, one, asked, note)
            report = made[key].preflight
            if mode == "real_gpu" and report is not None:
                preparing.refuse_blocked(report)
        out.append(made[key])
    return out


def _look_and_import(
    look: Callable[[], ProfileFacts], one: Asked, asked: Sequence[Asked], note: Callable[[str], None]
) -> ProfileFacts:
    """The preflight, mostly spent in children that import: this process imports meanwhile what it needs itself."""
    note(f"preflight of {one.profile.id}")
    with Aside(look) as begun:
        for other in asked:
            with contextlib.suppress(LabError):  # the preflight's words come first; preparing says it again
                preparing.import_torch(other.request.experiment, note, other.profile.id)
        return begun.result()


def _tell_and_stop(report: Report, note: Callable[[str], None]) -> None:
    for line in report_text.to_text(report).splitlines():
        note(line)
    blocked = [check for check in report.checks if check.status == "blocked"]
    if blocked:
        first = blocked[0]
        raise LabError(
            wanted=f"{first.id}: {first.wanted}",
            found=first.found + (f" (and {len(blocked) - 1} more)" if len(blocked) > 1 else ""),
            next=first.repair or f"python tools/environment_preflight.py --profile {report.profile}",
            where=f"{report.profile}, before anything was measured",
        )


def folder_of(name: str) -> str:
    """The experiment's own folder, from the repository root: part of the sources a record names."""
    return discovery.packages()[name].replace(".", "/")

"""Everything that runs have in common before the first is measured: one preflight, one import, one look at the device.

Whatever can be refused is refused here, for all of them. Each plan then gets its own hour when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.cli import discovery
from experiments.cli.run_request import Asked
from experiments.evidence import validation
from experiments.evidence.subject import ProfileFacts
from experiments.evidence.vocabulary import RunMode
from experiments.harness import preparing, profile_check
from experiments.harness.experiment import DeviceFacts
from experiments.harness.preparing import Prepared, RunRequest
from tools.environments.registry.registry import Registry


@dataclass(frozen=True, slots=True)
class Ready:
    """A run that only has to be measured."""

    request: RunRequest
    prepared: Prepared


def prepare_all(
    asked: Sequence[Asked], registry: Registry, accepted: Sequence[str], note: Callable[[str], None]
) -> tuple[Ready, ...]:
    """Prepare every run. LabError for the first that may not begin; nothing was measured then."""
    validation.require()
    for one in asked:
        profile_check.refuse_unvalidated(one.profile, one.request.mode, one.request.workload.name)
    # what can be refused without a download is refused before the preflight, which takes seconds
    known = [None if one.hub_id else preparing.resolve(one.request) for one in asked]
    facts = [*_preflights(asked, registry, accepted, note)]
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
            if mode != "dry_run":
                note(f"preflight of {one.profile.id}")
            made[key] = profile_check.check(one.profile, registry, mode, accepted, one.hub_id)
            report = made[key].preflight
            if mode == "real_gpu" and report is not None:
                preparing.refuse_blocked(report)
        out.append(made[key])
    return out


def folder_of(name: str) -> str:
    """The experiment's own folder, from the repository root: part of the sources a record names."""
    return discovery.packages()[name].replace(".", "/")

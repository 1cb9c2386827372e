"""Everything a run needs before its first task: profile and preflight, subject, device, candidates, plan."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from experiments.evidence import source
from experiments.evidence.codec import from_json
from experiments.evidence.rules import CURRENT
from experiments.evidence.subject import ProfileFacts
from experiments.evidence.vocabulary import RunMode
from experiments.harness import plan as plans
from experiments.harness import profile_check
from experiments.harness.experiment import AnyExperiment, CandidateSpec, DeviceFacts, DeviceKind, Options
from experiments.harness.importing import uncollected
from experiments.harness.kind import SubjectRequest
from experiments.harness.launch import doors
from experiments.harness.launch.process import run_forked
from experiments.harness.measured_workload import MeasuredWorkload
from experiments.harness.plan import Plan
from tools.environments.errors import LabError
from tools.environments.model import Report

FACTS_LIMIT_S = 120.0
TWIN = " (again)"
HEAVY = ("torch", "transformers")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a user asked for, after the command line was understood."""

    experiment: AnyExperiment
    mode: RunMode
    workload: MeasuredWorkload
    registered_digest: str | None
    subject: SubjectRequest[Any]
    options: Options
    label: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and what does not fit into a journal: the subject itself, as its kind found it."""

    plan: Plan[Any]
    subject: Any


@dataclass(frozen=True, slots=True)
class FoundSubject:
    """A subject that was looked for. None is one too: some kinds have nothing to find."""

    subject: Any


def resolve(request: RunRequest) -> FoundSubject:
    """The subject, found and fitting the workload and the cap. Raises LabError. Downloads only from the hub."""
    kind = request.experiment.kind
    kind.refuse_unsound()
    kind.refuse_foreign(request.workload, request.experiment.name)
    subject = request.subject.resolve()
    kind.check(request.workload, subject, request.options)  # first: it names the option that asks for a wrong launch
    doors.refuse_unknown(kind.launch(request.workload))
    return FoundSubject(subject)


def prepare(
    request: RunRequest,
    profile: ProfileFacts,
    found: FoundSubject,
    folder: str,
    note: Callable[[str], None],
    device: DeviceFacts | None = None,
) -> Prepared:
    """Decide the run. `folder` is the experiment's own folder in the repository. Raises LabError.

    Imports torch, except for a dry run. The device is asked in a child, unless it was just asked for another run.
    """
    experiment, workload, subject = request.experiment, request.workload, found.subject
    where: DeviceKind = "cuda" if request.mode == "real_gpu" else "cpu"
    if request.mode == "dry_run":
        device = DeviceFacts(kind=where, torch=None, bf16_native=True, tf32=where == "cuda")  # what a plan may hope for
    else:
        import_torch(experiment, note, profile.id)
        device = device or ask_device(where, request.options.cap_gib)
    created_at = _now()
    specs = with_twin(experiment.candidates(workload, device, request.options))
    specs = experiment.kind.vary(specs, workload)
    plans.refuse_unwritable(specs, workload)
    plan = Plan(
        kind=experiment.kind.word,
        experiment=experiment.name,
        label=request.label,
        mode=request.mode,
        created_at=created_at,
        profile=profile,
        source=source.look(CURRENT.scope_of(folder)),
        workload=workload,
        registered_digest=request.registered_digest,
        subject=experiment.kind.keep(subject, workload),
        device=device,
        options=request.options,
        references=experiment.kind.references(workload),
        specs=specs,
        threads=experiment.kind.threads(subject),
        order_seed=plans.order_seed(request.label, created_at),
    )
    return Prepared(plan=plan, subject=subject)


def at_its_turn(prepared: Prepared) -> Prepared:
    """The same run, prepared with others and beginning only now: its hour, and what a card says of itself by now.

    Sources stay those of the preparation, when everything was imported. Raises LabError where the card is another one.
    """
    plan = prepared.plan
    device = plan.device
    if plan.mode != "dry_run" and device.kind == "cuda":  # who else is on the card, and its clocks, change
        device = ask_device(device.kind, plan.options.cap_gib)
        plans.refuse_changed(plan, plan.source, device)
    created_at = _now()
    seed = plans.order_seed(plan.label, created_at)
    return replace(prepared, plan=replace(plan, created_at=created_at, device=device, order_seed=seed))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def again(begun: Plan[Any], experiment: AnyExperiment, folder: str, note: Callable[[str], None]) -> Prepared:
    """Prepare an interrupted run from its plan. Raises LabError when something is not as it was."""
    subject = experiment.kind.again(begun)
    import_torch(experiment, note, begun.profile.id)
    device = ask_device(begun.device.kind, begun.options.cap_gib)
    plans.refuse_changed(begun, source.look(CURRENT.scope_of(folder)), device)
    return Prepared(plan=begun, subject=subject)


def with_twin(specs: tuple[CandidateSpec, ...]) -> tuple[CandidateSpec, ...]:
    """The candidates with the baseline's twin behind it: same settings, measured as if it were another."""
    out: list[CandidateSpec] = []
    for spec in specs:
        out.append(spec)
        if spec.role == "baseline":
            out.append(replace(spec, name=spec.name + TWIN, role="baseline_again", probes=()))
    return tuple(out)


def import_torch(experiment: AnyExperiment, note: Callable[[str], None], profile: str) -> None:
    """Import what every child will need, once. Runs no operation. Raises LabError where something does not import."""
    if "torch" not in sys.modules:
        note(f"importing {_heavy(profile)}")
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # whoever asks for a card on import asks NVML, not CUDA
    try:
        with uncollected():
            for module in ("experiments.harness.tasks", experiment.kind.child, experiment.worker):
                importlib.import_module(module)
    except ImportError as error:
        raise LabError(
            wanted=f"the environment of {profile}, with {_heavy(profile)}",
            found=str(error).splitlines()[0],
            next=f"use the profile's own: python tools/install_environment_profile.py --profile {profile}",
        ) from error


def _heavy(profile: str) -> str:
    """What takes seconds to import among the modules of a profile: `torch and transformers`."""
    modules = profile_check.load().get(profile).required_modules
    return " and ".join(name for name in HEAVY if name in modules)


def ask_device(kind: DeviceKind, cap_gib: float | None) -> DeviceFacts:
    """What a child found out about the device. Raises LabError when a card is wanted and none answers."""
    from experiments.harness.device import device_facts

    outcome = run_forked(lambda enter: device_facts.gather(kind, cap_gib), time_limit_s=FACTS_LIMIT_S)
    if outcome.result is None:
        found = outcome.died.message if outcome.died else "no answer"
        raise LabError(
            wanted="a CUDA card that answers" if kind == "cuda" else "a CPU that torch can use",
            found=found,
            next="check that `nvidia-smi` answers and that torch is the profile's build: "
            "python tools/environment_preflight.py; here use --run-mode cpu_mechanism",
            where="device",
        )
    return from_json(DeviceFacts, outcome.result, "device")


def refuse_blocked(report: Report) -> None:
    """A run on a card needs a preflight that is ok. Raises LabError with the first blocked check and its repair."""
    bad = [check for check in report.checks if check.status == "blocked"]
    bad += [c for c in report.checks if c.status == "warning" and c.id not in report.accepted]
    if not bad:
        return
    first = bad[0]
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    accept = f"; or accept it by name: --accept {first.id}" if first.status == "warning" else ""
    raise LabError(
        wanted=f"{first.id}: {first.wanted}",
        found=first.found + more,
        next=(first.repair or f"python tools/environment_preflight.py --profile {report.profile}") + accept,
        where=f"{report.profile}, run mode real_gpu",
    )

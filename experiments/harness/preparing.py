"""Everything a run needs before its first task: profile and preflight, model, device, candidates, plan."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from experiments.evidence import source
from experiments.evidence.codec import from_json
from experiments.evidence.rules import CURRENT
from experiments.evidence.subject import ProfileFacts
from experiments.evidence.vocabulary import RunMode
from experiments.harness import plan as plans
from experiments.harness import workload as workloads
from experiments.harness.experiment import CandidateSpec, DeviceFacts, DeviceKind, Experiment, Options
from experiments.harness.fork import run_forked
from experiments.harness.plan import Plan
from experiments.harness.workload import Workload
from experiments.models import registered_config
from experiments.models import source as model_source
from experiments.models.batches import training_rows
from experiments.models.registered_config import DecoderShape
from experiments.models.source_types import ModelAsset, ModelRequest
from tools.environments.errors import LabError
from tools.environments.machine.host_facts import cores
from tools.environments.model import Report

SMALL_MODEL = 10_000_000  # parameters; below this more than one thread costs more than it brings
FACTS_LIMIT_S = 120.0
TWIN = " (again)"
BYTES_PER_PARAMETER = {"sgd": 8, "adamw": 16}  # fp32 weights and gradients, and two moments
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a user asked for, after the command line was understood."""

    experiment: Experiment
    mode: RunMode
    workload: Workload
    registered_digest: str | None
    model: ModelRequest
    options: Options
    label: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and the parts of it that do not fit into a journal."""

    plan: Plan
    asset: ModelAsset
    shape: DecoderShape


def resolve(request: RunRequest) -> ModelAsset:
    """The model, found and fitting the workload and the cap. Raises LabError. Downloads only from the hub."""
    asset = model_source.resolve(request.model)
    workloads.check(request.workload, registered_config.shape(asset.config))
    refuse_small_cap(request, asset)
    return asset


def prepare(
    request: RunRequest,
    profile: ProfileFacts,
    asset: ModelAsset,
    folder: str,
    note: Callable[[str], None],
    device: DeviceFacts | None = None,
) -> Prepared:
    """Decide the run. `folder` is the experiment's own folder in the repository. Raises LabError.

    Imports torch, except for a dry run. The device is asked in a child, unless it was just asked for another run.
    """
    shape = registered_config.shape(asset.config)
    kind: DeviceKind = "cuda" if request.mode == "real_gpu" else "cpu"
    if request.mode == "dry_run":
        device = DeviceFacts(kind=kind, torch=None, bf16_native=True, tf32=kind == "cuda")  # what a plan may hope for
    else:
        import_torch(request.experiment.worker, note, profile.id)
        device = device or ask_device(kind, request.options.cap_gib)
    threads = 1 if shape.parameters < SMALL_MODEL else cores()
    created_at = _now()
    specs = with_twin(request.experiment.candidates(request.workload, device, request.options))
    specs = with_heads(specs, request.workload)
    plans.refuse_unwritable(specs, request.workload)
    plan = Plan(
        experiment=request.experiment.name,
        label=request.label,
        mode=request.mode,
        created_at=created_at,
        profile=profile,
        source=source.look(CURRENT.scope_of(folder)),
        workload=request.workload,
        registered_digest=request.registered_digest,
        model=asset.identity,
        model_source=request.model.source,
        model_path=None if request.model.path is None else str(request.model.path),
        local_files_only=request.model.local_files_only,
        manifest_digest=_manifest_digest(asset, request.workload),
        device=device,
        options=request.options,
        specs=specs,
        threads=threads,
        order_seed=plans.order_seed(request.label, created_at),
    )
    return Prepared(plan=plan, asset=asset, shape=shape)


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


def _manifest_digest(asset: ModelAsset, workload: Workload) -> str:
    return training_rows(asset, workload.batch, workload.sequence, workload.row_lengths).digest


def again(begun: Plan, experiment: Experiment, folder: str, note: Callable[[str], None]) -> Prepared:
    """Prepare an interrupted run from its plan. Raises LabError when something is not as it was."""
    request = ModelRequest(
        id=begun.model.id,
        source=begun.model_source,
        revision=begun.model.requested_revision,
        path=None if begun.model_path is None else Path(begun.model_path),
        local_files_only=begun.local_files_only,
    )
    asset = model_source.resolve(request)
    model_source.same_commit(begun.model, asset)
    import_torch(experiment.worker, note, begun.profile.id)
    device = ask_device(begun.device.kind, begun.options.cap_gib)
    plans.refuse_changed(begun, source.look(CURRENT.scope_of(folder)), device)
    return Prepared(plan=begun, asset=asset, shape=registered_config.shape(asset.config))


def with_twin(specs: tuple[CandidateSpec, ...]) -> tuple[CandidateSpec, ...]:
    """The candidates with the baseline's twin behind it: same settings, measured as if it were another."""
    out: list[CandidateSpec] = []
    for spec in specs:
        out.append(spec)
        if spec.role == "baseline":
            out.append(replace(spec, name=spec.name + TWIN, role="baseline_again", probes=()))
    return tuple(out)


def with_heads(specs: tuple[CandidateSpec, ...], workload: Workload) -> tuple[CandidateSpec, ...]:
    """Each candidate with the loss head the workload asks for; for `both`, once with each."""
    if workload.head != "both":
        return tuple(replace(spec, settings={**spec.settings, "head": workload.head}) for spec in specs)
    full = [replace(spec, settings={**spec.settings, "head": "full"}) for spec in specs]
    chunked = [
        replace(
            spec,
            name=f"{spec.name}, chunked head",
            role="candidate" if spec.role == "baseline" else spec.role,
            settings={**spec.settings, "head": "chunked"},
            probes=(),
        )
        for spec in specs
        if spec.role != "baseline_again"
    ]
    return (*full, *chunked)


def import_torch(worker: str, note: Callable[[str], None], profile: str) -> None:
    """Import what every child will need, once. Runs no operation. Raises LabError where torch does not import."""
    if "torch" not in sys.modules:
        note("importing torch and transformers")
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # whoever asks for a card on import asks NVML, not CUDA
    try:
        importlib.import_module("experiments.harness.tasks")
        importlib.import_module(worker)
    except ImportError as error:
        raise LabError(
            wanted="an environment with torch and transformers",
            found=str(error).splitlines()[0],
            next=f"use the profile's own: python tools/install_environment_profile.py --profile {profile}",
        ) from error


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


def refuse_small_cap(request: RunRequest, asset: ModelAsset) -> None:
    """Raises LabError when the cap does not even hold weights, gradients and optimizer state: nothing could run."""
    cap = request.options.cap_gib
    if cap is None:
        return
    state = asset.identity.parameter_count * BYTES_PER_PARAMETER[request.workload.optimizer] / GIB
    if cap <= state + 0.6:
        raise LabError(
            wanted=f"a cap above the model's state: {state:.2f} GiB and 0.6 GiB for the CUDA context",
            found=f"{cap:g} GiB",
            next="raise --memory-cap-gib, or choose a smaller --model",
            where="--memory-cap-gib",
        )


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

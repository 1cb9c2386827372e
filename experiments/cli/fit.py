"""`fit`: which workloads and candidates fit a card of a given memory, by the memory ledger, without a card."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.cli import discovery
from experiments.cli.fit_text import Fitted, as_json, as_lines
from experiments.cli.printing import emit, say
from experiments.harness.experiment import DeviceFacts, Options
from experiments.harness.measured_workload import changed
from experiments.kinds.training_step.heads import with_heads
from experiments.kinds.training_step.ledger.ledger import CONTEXT_BYTES
from experiments.kinds.training_step.ledger.ledger_fit import fit, floor_bytes
from experiments.kinds.training_step.ledger.step_bytes import GIB
from experiments.kinds.training_step.training_experiment import TrainingExperiment
from experiments.kinds.training_step.training_workload import TrainingWorkload, check
from experiments.models.registered_config import DecoderShape, config, names, shape
from tools.environments.errors import EXIT_BLOCKED, EXIT_OK, EXIT_USAGE, LabError, render
from tools.environments.model import Profile
from tools.environments.registry import registry

ANY_CARD = DeviceFacts(kind="cuda", torch=None, bf16_native=True, tf32=True)  # what a card may be able to do


def add_parser(subparsers: Any) -> None:
    """The command and its options."""
    parser = subparsers.add_parser("fit", help="what will fit a card of a given memory, without a card")
    parser.add_argument("--profile", metavar="ID", required=True, help="a CUDA profile: its experiments are looked at")
    parser.add_argument("--memory-gib", metavar="N", type=float, required=True, help="the card's memory")
    parser.add_argument("--model", metavar="ID", help="the default workloads with another registered model")
    for knob in ("batch", "sequence"):
        parser.add_argument(f"--{knob}", type=int, metavar="N", help=f"the default workloads with another {knob}")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print what fits; exit code 1 when nothing does, or when an experiment of the profile is broken."""
    memory = _memory(args.memory_gib)
    known = registry.load()
    profile = known.get(args.profile)
    _refuse_cpu(profile, known.profiles.values())
    present = discovery.packages()
    experiments, broken = discovery.each(name for name in profile.experiments if name in present)
    trained = [experiment for experiment in experiments if isinstance(experiment, TrainingExperiment)]
    others = {experiment.name: experiment.kind.word for experiment in experiments if experiment not in trained}
    fitted = _fitted(trained, args, memory)  # the ledger knows training steps alone
    if args.json:
        emit(as_json(profile, memory, fitted, others) | {"broken": [render(error) for error in broken.values()]})
    else:
        for line in as_lines(profile, memory, fitted, others):
            say(line)
        for error in broken.values():
            say()
            say(render(error))
    whole = not broken and (not fitted or any(item.some for item in fitted))
    return EXIT_OK if whole else EXIT_BLOCKED


def _memory(value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise LabError(
            wanted="a card's memory in GiB, above zero",
            found=str(value),
            next="give --memory-gib 8, say",
            where="--memory-gib",
            code=EXIT_USAGE,
        )
    return value


def _refuse_cpu(profile: Profile, profiles: Iterable[Profile]) -> None:
    if profile.gpu is None:
        likely = [other.id for other in profiles if other.gpu and set(other.experiments) & set(profile.experiments)]
        raise LabError(
            wanted="a profile that runs on a card",
            found=f"{profile.id}, which does not",
            next=f"give --profile {' or '.join(likely)}"
            if likely
            else "python tools/environment_preflight.py --list-profiles",
            where="--profile",
            code=EXIT_USAGE,
        )


def _fitted(experiments: Sequence[TrainingExperiment], args: argparse.Namespace, memory: float) -> tuple[Fitted, ...]:
    chosen = [(experiment, workload) for experiment in experiments for workload in _workloads(experiment, args)]
    shapes = {workload.model: shape(config(workload.model), workload.model) for _, workload in chosen}
    if shapes:
        _refuse_below_state(shapes, memory)
    found = []
    for experiment, workload in chosen:
        check(workload, shapes[workload.model])
        specs = with_heads(experiment.candidates(workload, ANY_CARD, Options()), workload)
        rows = fit(workload, specs, shapes[workload.model], memory * GIB)
        registered = workload in experiment.workloads.values()
        found.append(Fitted(experiment.name, workload, registered, rows))
    return tuple(found)


def _workloads(experiment: TrainingExperiment, args: argparse.Namespace) -> Sequence[TrainingWorkload]:
    """The registered ones; where the user changes a knob, the default one with that change."""
    every = experiment.workloads
    if args.model is None and args.batch is None and args.sequence is None:
        return tuple(every.values())
    base = every.get("default") or next(iter(every.values()))
    model = None if args.model is None else _full_name(args.model)
    return (changed(base, model=model, batch=args.batch, sequence=args.sequence),)


def _full_name(model: str) -> str:
    """A registered model by its id, or by the id's last part in any case: qwen2.5-0.5b."""
    short = {name.rsplit("/", 1)[-1].lower(): name for name in names()}
    return short.get(model.lower(), model)


def _refuse_below_state(shapes: Mapping[str, DecoderShape], memory: float) -> None:
    floors = {model: floor_bytes(sizes) / GIB for model, sizes in shapes.items()}
    smallest = min(floors, key=lambda model: floors[model])
    if memory < floors[smallest]:
        raise LabError(
            wanted=f"a card that holds the state of {smallest}: {floors[smallest]:.2f} GiB"
            f" (fp32 weights and gradients, {CONTEXT_BYTES / GIB:.1f} GiB CUDA context)",
            found=f"{memory:g} GiB",
            next="no sequence is short enough there: a larger card, or a smaller --model",
            where="--memory-gib",
        )

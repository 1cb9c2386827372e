"""The options of `run` that say what is trained: another workload than the registered one, and the model.

They belong to training steps alone; everything else of the command line is the same whatever is measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.harness.experiment import Experiment
from experiments.kinds.training_step.training_workload import Workload, changed
from experiments.models.source_types import ModelRequest, ModelSource
from tools.environments.errors import EXIT_USAGE, LabError

NUMBERS = ("batch", "sequence", "piece_of", "steps", "warmup", "rounds", "seed")
KNOBS = (*NUMBERS, "head", "precision", "model")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add them, as a group of their own."""
    what = parser.add_argument_group("another workload than the registered one")
    what.add_argument("--model", metavar="ID", help="a model id; for --model-source local: its folder")
    what.add_argument("--model-source", choices=("config", "hub", "local"), help="default: config (random weights)")
    what.add_argument("--revision", help="branch, tag or commit on the hub")
    what.add_argument("--local-files-only", action="store_true", default=None, help="take the model from the cache")
    what.add_argument("--head", choices=("full", "chunked", "both"))
    what.add_argument("--precision", choices=("auto", "fp32", "tf32", "bf16", "fp16"))
    for knob in NUMBERS:
        what.add_argument(f"--{knob.replace('_', '-')}", type=int, metavar="N")


def workload_of(experiment: Experiment, args: argparse.Namespace) -> tuple[Workload, Workload]:
    """The workload with the user's knobs, and the registered one it comes from."""
    name = args.workload or "smoke"
    if name not in experiment.workloads:
        raise LabError(
            wanted=f"a workload of {experiment.name}: {', '.join(experiment.workloads)}",
            found=ascii(name)[:80],
            next=f"give --workload {next(iter(experiment.workloads))}",
            where="--workload",
            code=EXIT_USAGE,
        )
    registered = experiment.workloads[name]
    knobs = {knob: getattr(args, knob) for knob in KNOBS}
    if args.model_source == "local":
        knobs["model"] = "local"  # its digests say which; the folder's name is the user's own affair
    return changed(registered, **knobs), registered


def model_of(args: argparse.Namespace, workload: Workload) -> ModelRequest:
    """Which model, from where. LabError (usage) for an option that its source does not know."""
    source: ModelSource = args.model_source or "config"
    if source == "local":
        path = Path(args.model) if args.model else None
        return ModelRequest(id=workload.model, source="local", path=path)
    if source == "config" and (args.revision or args.local_files_only):
        option = "--revision" if args.revision else "--local-files-only"
        raise LabError(
            wanted=f"a model from the hub for {option}",
            found="--model-source config, which has random weights and no revision",
            next=f"add --model-source hub, or leave {option} out",
            where=option,
            code=EXIT_USAGE,
        )
    return ModelRequest(
        id=workload.model, source=source, revision=args.revision, local_files_only=bool(args.local_files_only)
    )

"""`run NAME`: measure, and say what came of it: a table, the record, its level, a picture, and what to do next."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from experiments.cli import discovery
from experiments.cli.run_report import tell
from experiments.evidence import labels, validation
from experiments.evidence.vocabulary import RunMode
from experiments.harness import journal, preparing, profile_check, run_folder, session
from experiments.harness.events import Bar, JsonLines, Listener, PlainLines, Silence
from experiments.harness.experiment import Experiment, Options
from experiments.harness.plan import Plan
from experiments.harness.preparing import Prepared, RunRequest
from experiments.harness.session import Finished
from experiments.harness.workload import Workload, changed
from experiments.models.source_types import ModelRequest, ModelSource
from tools.environments.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, LabError
from tools.environments.model import Profile
from tools.environments.registry.registry import Registry

NUMBERS = ("batch", "sequence", "piece_of", "steps", "warmup", "rounds", "seed")
KNOBS = (*NUMBERS, "head", "precision", "model")
WITH_RESUME = {"name", "resume", "json", "json_events", "run", "command", "accept"}  # the rest is in the plan already


def add_parser(subparsers: Any) -> None:
    """The command and its options."""
    parser = subparsers.add_parser("run", help="measure: runs an experiment and writes its record")
    parser.add_argument("name", metavar="NAME", help="the experiment: see `list`")
    parser.add_argument("--workload", help="a registered workload (default: smoke)")
    parser.add_argument("--profile", metavar="ID", help="the profile to be held against")
    parser.add_argument("--run-mode", choices=("cpu_mechanism", "real_gpu", "dry_run"))
    parser.add_argument("--run-label", metavar="LABEL", help="a new label; without it: date and a letter")
    parser.add_argument("--resume", metavar="LABEL", help="go on with an interrupted run")
    parser.add_argument("--accept", metavar="CHECK", action="append", default=[], help="accept a preflight warning")
    what = parser.add_argument_group("another workload than the registered one")
    what.add_argument("--model", metavar="ID", help="a model id; for --model-source local: its folder")
    what.add_argument("--model-source", choices=("config", "hub", "local"), help="default: config (random weights)")
    what.add_argument("--revision", help="branch, tag or commit on the hub")
    what.add_argument("--local-files-only", action="store_true", default=None, help="take the model from the cache")
    what.add_argument("--head", choices=("full", "chunked", "both"))
    what.add_argument("--precision", choices=("auto", "fp32", "tf32", "bf16", "fp16"))
    for knob in NUMBERS:
        what.add_argument(f"--{knob.replace('_', '-')}", type=int, metavar="N")
    parser.add_argument("--memory-cap-gib", type=float, metavar="N", help="behave like a card of N GiB")
    parser.add_argument("--peer-path", metavar="P", help="somebody else's implementation, to compare with")
    out = parser.add_mutually_exclusive_group()
    out.add_argument("--json", action="store_true", help="print the record as JSON and nothing else")
    out.add_argument("--json-events", action="store_true", help="print one JSON line per event")


def run(args: argparse.Namespace) -> int:
    """Run it; returns the exit code."""
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    experiment: Experiment = discovery.load(args.name)
    listener = _listener(args)
    label = ""
    try:
        if args.resume is not None:
            label = args.resume
            finished = _resume(experiment, args, listener)
        else:
            label = run_folder.free_label(experiment.name) if args.run_label is None else args.run_label
            finished = _begin(experiment, args, label, listener)
    except KeyboardInterrupt:
        listener.close()
        return _interrupted(experiment.name, label, listener)
    finally:
        listener.close()
    if not args.json_events:
        tell(experiment, finished, as_json=args.json)
    return EXIT_OK


def _begin(experiment: Experiment, args: argparse.Namespace, label: str, listener: Listener) -> Finished:
    run_folder.refuse_used(experiment.name, label)
    validation.require()
    registry = profile_check.load()
    profile, mode = mode_of(experiment, args, registry)
    profile_check.refuse_unvalidated(profile, mode, args.workload or "smoke")
    workload, registered = workload_of(experiment, args)
    model = model_of(args, workload)
    hub_id = model.id if model.source == "hub" and not model.local_files_only else None
    request = RunRequest(
        experiment=experiment,
        mode=mode,
        workload=workload,
        registered_digest=registered.digest(),
        model=model,
        options=Options(cap_gib=cap_of(args.memory_cap_gib), peer_path=args.peer_path),
        label=label,
    )
    # what can be refused without a download is refused before the preflight, which takes seconds
    asset = None if hub_id else preparing.resolve(request)
    if mode != "dry_run":
        _note(listener, f"preflight of {profile.id}")
    facts = profile_check.check(profile, registry, mode, args.accept, hub_id)
    if mode == "real_gpu" and facts.preflight is not None:
        preparing.refuse_blocked(facts.preflight)
    asset = asset or preparing.resolve(request)
    prepared = preparing.prepare(request, facts, asset, _folder(experiment.name), lambda text: _note(listener, text))
    folder = run_folder.claim(experiment.name, label)
    if mode == "dry_run":
        return session.plan_only(experiment, prepared, folder)
    return session.begin(experiment, prepared, folder, listener)


def mode_of(experiment: Experiment, args: argparse.Namespace, registry: Registry) -> tuple[Profile, RunMode]:
    """The profile to be held against, and how to run. LabError (usage) for a card that the profile does not have."""
    profile = profile_check.choose(experiment, registry, args.profile, args.run_mode)
    mode = args.run_mode or profile_check.default_mode(profile)
    if mode == "real_gpu" and profile.gpu is None:
        raise LabError(
            wanted="a CUDA profile for run mode real_gpu",
            found=profile.id,
            next=f"{_on_a_card(experiment, registry)}--run-mode cpu_mechanism",
            where="--run-mode",
            code=EXIT_USAGE,
        )
    return profile, mode


def _on_a_card(experiment: Experiment, registry: Registry) -> str:
    cards = [profile.id for profile in registry.having(experiment.name) if profile.gpu is not None]
    return f"give --profile {cards[0]}, or " if cards else ""


def _resume(experiment: Experiment, args: argparse.Namespace, listener: Listener) -> Finished:
    folder = folder_to_resume(experiment, args)

    def again(begun: Plan) -> Prepared:
        profile_check.refuse_unvalidated(profile_check.load().get(begun.profile.id), begun.mode, begun.workload.name)
        return preparing.again(begun, experiment, _folder(experiment.name), lambda text: _note(listener, text))

    return session.resume(experiment, folder, again, listener)


def folder_to_resume(experiment: Experiment, args: argparse.Namespace) -> Path:
    """The folder of the run that --resume names. LabError (usage) for an option beside it that the plan holds."""
    given = [name for name, value in vars(args).items() if name not in WITH_RESUME and value not in (None, [], False)]
    if given:
        raise LabError(
            wanted="--resume LABEL alone: everything else is as the run began",
            found=f"--{given[0].replace('_', '-')} beside it",
            next=run_folder.resume_command(experiment.name, args.resume),
            where="--resume",
            code=EXIT_USAGE,
        )
    return run_folder.to_resume(experiment.name, args.resume)


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


def cap_of(value: float | None) -> float | None:
    """The memory cap itself. LabError (usage) for one that is no amount of memory."""
    if value is not None and not 0 < value < float("inf"):
        raise LabError(
            wanted="a cap in GiB above zero",
            found=str(value),
            next="give --memory-cap-gib 8, or leave it out",
            where="--memory-cap-gib",
            code=EXIT_USAGE,
        )
    return value


def _folder(name: str) -> str:
    """The experiment's own folder, from the repository root: part of the sources a record names."""
    return discovery.packages()[name].replace(".", "/")


def _listener(args: argparse.Namespace) -> Listener:
    if args.json_events:
        return JsonLines(sys.stdout)
    if args.json:
        return Silence()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        try:
            return Bar()
        except ImportError:  # an environment without rich still measures
            return PlainLines(sys.stderr)
    return PlainLines(sys.stderr)


def _note(listener: Listener, text: str) -> None:
    listener.hear({"event": "note", "text": text})


def _interrupted(experiment: str, label: str, listener: Listener) -> int:
    path = labels.run_folder(experiment, label) / journal.NAME
    if not path.is_file():
        sys.stderr.write("interrupted before the first task; nothing was begun\n")
        return EXIT_INTERRUPTED
    story = journal.read(path)
    done = len(story.finished)
    command = run_folder.resume_command(experiment, label)
    listener.hear({"event": "interrupted", "label": label, "done": done, "resume": command})
    sys.stderr.write(f"interrupted. {done} finished tasks are kept.\nresume   {command}\n")
    return EXIT_INTERRUPTED


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

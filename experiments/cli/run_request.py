"""What a command line of `run` asks for: one request for each experiment it names, or why none of them may begin.

Judged without torch and without a preflight: a session asks before it installs gigabytes, and of several experiments
none is measured where one would be refused.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.cli import discovery, run_options
from experiments.evidence.vocabulary import RunMode
from experiments.harness import profile_check, run_folder
from experiments.harness.experiment import AnyExperiment, Options
from experiments.harness.preparing import RunRequest
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.model import Profile
from tools.environments.registry.registry import Registry

WITH_RESUME = {"names", "resume", "json", "json_events", "run", "command", "accept"}  # the rest is in the plan already


@dataclass(frozen=True, slots=True)
class Asked:
    """One experiment's run as it was asked for, and the profile it is held to."""

    request: RunRequest
    profile: Profile

    @property
    def hub_id(self) -> str | None:
        """The model that the run would download; None where nothing is."""
        return self.request.subject.downloads


def requests(args: argparse.Namespace, registry: Registry) -> tuple[Asked, ...]:
    """A request for each experiment named, in that order. LabError for the first that could not begin."""
    return tuple(_asked(experiment, args, registry) for experiment in experiments_of(args.names))


def experiments_of(names: Sequence[str]) -> tuple[AnyExperiment, ...]:
    """The experiments of these names. LabError (usage) for one that is unknown, or named twice."""
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise LabError(
            wanted="each experiment once",
            found=f"{ascii(twice)[:80]} twice",
            next="name it once; for another run of it, start another command",
            where="NAME",
            code=EXIT_USAGE,
        )
    return tuple(discovery.load(name) for name in names)


def _asked(experiment: AnyExperiment, args: argparse.Namespace, registry: Registry) -> Asked:
    if args.run_label is not None:
        run_folder.refuse_used(experiment.name, args.run_label)
    _refuse_peer(experiment, args.peer_path)
    profile, mode = _mode_of(experiment, args, registry)
    workload, registered = run_options.workload_of(experiment, args)
    request = RunRequest(
        experiment=experiment,
        mode=mode,
        workload=workload,
        registered_digest=registered.digest(),
        subject=experiment.kind.asked(args, workload),
        options=Options(cap_gib=_cap_of(args.memory_cap_gib), peer_path=args.peer_path),
        label=run_folder.free_label(experiment.name) if args.run_label is None else args.run_label,
    )
    return Asked(request, profile)


def _refuse_peer(experiment: AnyExperiment, path: str | None) -> None:
    """LabError (usage) for somebody else's implementation where there is nothing to compare it with."""
    if path is not None and not experiment.takes_peer:
        raise LabError(
            wanted=f"options of {experiment.name}",
            found="--peer-path, which it has no use for",
            next=f"leave it out, or run {experiment.name} by itself",
            where="--peer-path",
            code=EXIT_USAGE,
        )


def _mode_of(experiment: AnyExperiment, args: argparse.Namespace, registry: Registry) -> tuple[Profile, RunMode]:
    """The profile the run is held to, and how to run. LabError (usage) for a card that the profile does not have."""
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


def _on_a_card(experiment: AnyExperiment, registry: Registry) -> str:
    cards = [profile for profile in registry.having(experiment.name) if profile.gpu is not None]
    return f"{profile_check.offer(cards)}, or " if cards else ""


def _cap_of(value: float | None) -> float | None:
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


def to_resume(args: argparse.Namespace) -> tuple[AnyExperiment, Path]:
    """The experiment and the folder of the run that --resume names.

    LabError (usage) for more than one experiment, and for an option beside it that the plan holds.
    """
    if len(args.names) > 1:
        raise LabError(
            wanted="--resume LABEL with the one experiment whose run it goes on with",
            found=f"{len(args.names)} experiments",
            next=f"one after the other: {run_folder.resume_command(args.names[0], args.resume)}",
            where="--resume",
            code=EXIT_USAGE,
        )
    (experiment,) = experiments_of(args.names)
    given = [name for name, value in vars(args).items() if name not in WITH_RESUME and value not in (None, [], False)]
    if given:
        raise LabError(
            wanted="--resume LABEL alone: everything else is as the run began",
            found=f"--{given[0].replace('_', '-')} beside it",
            next=run_folder.resume_command(experiment.name, args.resume),
            where="--resume",
            code=EXIT_USAGE,
        )
    return experiment, run_folder.to_resume(experiment.name, args.resume)

"""The options of `run` that change what is measured: those of every kind, and of the kinds of what is named.

`run NAME --help` shows the options of NAME's kind; without a name, those of every kind, each in a group of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from experiments import kinds
from experiments.cli import discovery
from experiments.harness.experiment import AnyExperiment
from experiments.harness.kind import AnyKind
from experiments.harness.measured_workload import REPETITION, MeasuredWorkload, changed
from tools.environments.errors import EXIT_USAGE, LabError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of every kind."""
    what = parser.add_argument_group("another workload than the registered one")
    for knob in REPETITION:
        what.add_argument(f"--{knob}", type=int, metavar="N")


def add_options_of_kinds(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Those of the kinds of the experiments that a command line names; of every kind where it names none."""
    added: set[str] = set()
    some = _kinds_of(argv)
    for kind in some:
        group = parser.add_argument_group(f"options of {kind.word}")
        for option in kind.options:
            if option.flag in added:
                continue  # of another kind too, which reads it for itself
            added.add(option.flag)
            if option.type is None:
                group.add_argument(option.flag, action="store_true", default=None, help=option.help)
            else:
                choices = option.choices if len(some) == 1 else None  # each kind then judges it by its own
                group.add_argument(
                    option.flag, type=option.type, metavar=option.metavar, choices=choices, help=option.help
                )


def _kinds_of(argv: Sequence[str]) -> list[AnyKind]:
    named = discovery.each([name for name in discovery.packages() if name in argv])[0]
    found = {experiment.kind.word: experiment.kind for experiment in named}
    return list(found.values()) or list(kinds.measured())


def workload_of(experiment: AnyExperiment, args: argparse.Namespace) -> tuple[MeasuredWorkload, MeasuredWorkload]:
    """The workload with the user's knobs, and the registered one it comes from. LabError (usage)."""
    name = args.workload or "smoke"
    if name not in experiment.workloads:
        raise LabError(
            wanted=f"a workload of {experiment.name}: {', '.join(experiment.workloads)}",
            found=ascii(name)[:80],
            next=f"give --workload {next(iter(experiment.workloads))}",
            where="--workload",
            code=EXIT_USAGE,
        )
    _refuse_foreign_options(experiment.kind, args, experiment.name)
    registered = experiment.workloads[name]
    experiment.kind.refuse_foreign(registered, experiment.name)
    knobs: Mapping[str, object] = {knob: getattr(args, knob) for knob in REPETITION}
    return changed(registered, **knobs, **experiment.kind.knobs_of(args)), registered


def _refuse_foreign_options(kind: AnyKind, args: argparse.Namespace, name: str) -> None:
    """LabError (usage) for an option that is another kind's, or has a value that is: each experiment judges all."""
    own = {option.word: option for option in kind.options}
    for word in {option.word for other in kinds.measured() for option in other.options}:
        value = getattr(args, word, None)
        choices = own[word].choices if word in own else None
        if value is None or (word in own and (choices is None or value in choices)):
            continue
        flag = f"--{word.replace('_', '-')}"
        raise LabError(
            wanted=f"options of {kind.word}, the kind of {name}" if choices is None else f"one of {', '.join(choices)}",
            found=f"{flag}, which it does not have" if choices is None else f"{flag} {ascii(value)[:60]}",
            next=f"leave it out, or run {name} by itself",
            where=flag,
            code=EXIT_USAGE,
        )

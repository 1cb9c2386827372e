"""Is a run well asked for? Judged from its command line alone, so that a session can ask before it installs gigabytes.

Options and their values, the workload, the model's source, and the label, new or to be resumed. Imports no torch. What
only the environment can tell (preflight, the model's files, the card) is still judged when the run begins.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import NoReturn

from experiments.cli import run, run_request
from experiments.harness import profile_check
from tools.environments.errors import EXIT_USAGE, LabError

RUN = ["-m", "experiments", "run"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Usage errors as every other error here, instead of leaving the process."""
        raise LabError("options of an experiment's run", message, "python -m experiments run --help", code=EXIT_USAGE)


def check_all(commands: Iterable[Sequence[str]]) -> None:
    """Check each command of a session that is the run of an experiment; the others have their own command lines."""
    for command in commands:
        if list(command[:3]) == RUN:
            check(command[2:])


def check(arguments: Sequence[str]) -> None:
    """LabError for runs that could not begin, or not go on: `arguments` follow `python -m experiments`."""
    parser = _Parser(prog="python -m experiments", allow_abbrev=False)
    subparsers = parser.add_subparsers()
    run.add_parser(subparsers)
    run.add_named_options(subparsers.choices["run"], arguments)
    args = parser.parse_args(list(arguments))
    if args.resume is not None:
        run_request.to_resume(args)
    else:
        run_request.requests(args, profile_check.load())

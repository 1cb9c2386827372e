"""`run NAME ...`: measure, and say what came of it: a table, the record, its level, a picture, and what to do next.

Several experiments share one preflight and one import of torch; each keeps a record, a journal and an end of its own.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any

from experiments.cli import run_each, run_options, run_prepare, run_request
from experiments.cli.run_each import How
from experiments.harness import preparing, profile_check, session
from experiments.harness.events import Listener
from experiments.harness.plan import Plan
from experiments.harness.preparing import Prepared
from experiments.harness.session import Finished
from tools.environments.errors import EXIT_INTERRUPTED

SEVERAL = """\
With several names, whatever can be refused is refused for all of them before one is measured. After that a failure of
one is its own: the others are measured, and the exit code is the worst. Ctrl-C ends the one that is running, which can
be resumed, and says which were not begun. --json prints one array then, in the order of the names: a record, or an
object with `status` (blocked, failed, interrupted, not_begun) and `experiment`. Every event has its `experiment`.
"""


def add_parser(subparsers: Any) -> None:
    """The command and its options."""
    about = "measure: runs experiments and writes a record of each"
    parser = subparsers.add_parser("run", help=about, description=about, epilog=SEVERAL)
    parser.add_argument("names", metavar="NAME", nargs="+", help="an experiment, or several: see `list`")
    parser.add_argument("--workload", help="a registered workload (default: smoke)")
    parser.add_argument("--profile", metavar="ID", help="the profile to be checked against")
    parser.add_argument("--run-mode", choices=("cpu_mechanism", "real_gpu", "dry_run"))
    parser.add_argument("--run-label", metavar="LABEL", help="a new label; without it: date and a letter")
    parser.add_argument("--resume", metavar="LABEL", help="go on with an interrupted run of one experiment")
    parser.add_argument("--accept", metavar="CHECK", action="append", default=[], help="accept a preflight warning")
    parser.add_argument(
        "--stop-if-blocked", action="store_true", help="print the preflight, and measure nothing where it is blocked"
    )
    run_options.add_options(parser)
    parser.add_argument("--memory-cap-gib", type=float, metavar="N", help="behave like a card of N GiB")
    parser.add_argument("--peer-path", metavar="P", help="somebody else's implementation, to compare with")
    out = parser.add_mutually_exclusive_group()
    out.add_argument("--json", action="store_true", help="print the record as JSON and nothing else; several: an array")
    out.add_argument("--json-events", action="store_true", help="print one JSON line per event")


def add_named_options(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """The options that follow from the experiments a command line names: their kinds'."""
    run_options.add_options_of_kinds(parser, argv)


def run(args: argparse.Namespace) -> int:
    """Run them; returns the exit code."""
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    how: How = "events" if args.json_events else "json" if args.json else "text"
    if args.resume is not None:
        return _resume(args, how)
    registry = profile_check.load()
    listener = run_each.listener_of(how)
    try:
        asked = run_request.requests(args, registry)
        ready = run_prepare.prepare_all(
            asked,
            registry,
            lambda text: _note(listener, text),
            accepted=args.accept,
            stop_if_blocked=args.stop_if_blocked,
        )
    except KeyboardInterrupt:
        listener.close()
        sys.stderr.write("interrupted before the first task; nothing was begun\n")
        return EXIT_INTERRUPTED
    finally:
        listener.close()
    if len(ready) > 1:
        return run_each.every(ready, how)
    (only,) = ready
    return run_each.alone(only.request.experiment, only.request.label, partial(run_each.measure, only), how)


def _resume(args: argparse.Namespace, how: How) -> int:
    experiment, folder = run_request.to_resume(args)

    def go_on(listener: Listener) -> Finished:
        def again(begun: Plan[Any]) -> Prepared:
            profile = profile_check.load().get(begun.profile.id)
            profile_check.refuse_unvalidated(profile, begun.mode, begun.workload.name)
            own = run_prepare.folder_of(experiment.name)
            return preparing.again(begun, experiment, own, lambda text: _note(listener, text))

        return session.resume(experiment, folder, again, listener)

    return run_each.alone(experiment, args.resume, go_on, how)


def _note(listener: Listener, text: str) -> None:
    listener.hear({"event": "note", "text": text})


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

"""`list`: the experiments, read from their folders."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.cli import discovery
from experiments.cli.printing import emit, say, table
from tools.environments.registry import registry


def add_parser(subparsers: Any) -> None:
    """The command and its options."""
    parser = subparsers.add_parser("list", help="the experiments, their pages, profiles and workloads")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print them; returns the exit code."""
    found = discovery.load_all()
    known = registry.load()
    profiles = {one.name: [profile.id for profile in known.having(one.name)] for one in found}
    if args.json:
        keys = ("name", "page", "title")
        emit(
            [
                {key: getattr(experiment, key) for key in keys}
                | {"profiles": profiles[experiment.name], "workloads": list(experiment.workloads)}
                for experiment in found
            ]
        )
        return 0
    if not found:
        say("no experiment under experiments/<topic>/<name>/experiment.py")
        return 0
    rows = [(e.name, e.page, ", ".join(e.workloads), ", ".join(profiles[e.name])) for e in found]
    for line in table(("experiment", "page", "workloads", "profiles"), rows, indent=""):
        say(line)
    say()
    say("→ python -m experiments run NAME --workload smoke")
    return 0

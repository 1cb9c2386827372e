"""`list`: the experiments, read from their folders. Exit code 1 where one of them is broken: the list is not whole."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.cli import discovery
from experiments.cli.printing import emit, say, status, table
from tools.environments.errors import EXIT_BLOCKED, EXIT_OK, LabError
from tools.environments.registry import registry


def add_parser(subparsers: Any) -> None:
    """The command and its options."""
    parser = subparsers.add_parser("list", help="the experiments, their pages, profiles and workloads")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print them; returns the exit code."""
    found, broken = discovery.each()
    known = registry.load()
    code = EXIT_BLOCKED if broken else EXIT_OK
    profiles = {name: [profile.id for profile in known.having(name)] for name in [*broken, *(e.name for e in found)]}
    if args.json:
        told = [_as_json(one, profiles[one.name]) for one in found]
        emit(told + [_broken(name, error, profiles[name]) for name, error in broken.items()])
        return code
    if not found and not broken:
        say("no experiment under experiments/<topic>/<name>/experiment.py")
        return code
    rows = [(e.name, e.page, ", ".join(e.workloads), ", ".join(profiles[e.name])) for e in found]
    for line in table(("experiment", "page", "workloads", "profiles"), rows, indent=""):
        say(line)
    for name, error in broken.items():
        say(f"{status('broken')} {name}: {error.where}: {error.found}")
    if found:
        say()
        say("→ python -m experiments run NAME --workload smoke")
    return code


def _as_json(experiment: Any, profiles: list[str]) -> dict[str, Any]:
    about = {key: getattr(experiment, key) for key in ("name", "page", "title")}
    return about | {"profiles": profiles, "workloads": list(experiment.workloads), "error": None}


def _broken(name: str, error: LabError, profiles: list[str]) -> dict[str, Any]:
    told = {"error": error.found, "where": error.where, "next": error.next}
    return {"name": name, "page": None, "title": None, "profiles": profiles, "workloads": [], **told}

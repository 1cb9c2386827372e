"""Which command was asked for, and what becomes of its errors: the one place where a LabError turns into text.

A command is a module of this package with `add_parser(subparsers)` and `run(args) -> int`; one whose options follow
from what is named has `add_named_options(parser, argv)` besides. Only the one that is asked
for is imported, so that `list` starts in milliseconds; a command whose module is not there is not listed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from tools.environments.errors import EXIT_INTERRUPTED, LabError, render

COMMANDS: Mapping[str, str] = {
    "list": "the experiments, their pages, profiles and workloads",
    "run": "measure: runs an experiment and writes its record",
    "show": "a record as a table: what it says, what it does not, how to reproduce it",
    "compare": "two records of the same thing, side by side",
    "report": "every profile's rows: what was measured, reproduced, or not yet",
    "fit": "what will fit a card of a given memory, without a card",
    "results": "runs and committed records: list, show, verify, promote, clear",
    "new": "a new experiment that runs, with its test, from the template of its kind",
}


def main(argv: Sequence[str]) -> int:
    """Run one command; returns the exit code. Never raises for what a user can cause."""
    as_json = "--json" in argv
    try:
        args = _parser(argv).parse_args(argv)
        code: int = args.run(args)
        return code
    except LabError as error:
        return _tell(error, as_json)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return EXIT_INTERRUPTED


def available() -> dict[str, str]:
    """The commands whose modules are there, with their one-line help."""
    folder = Path(__file__).parent
    return {name: text for name, text in COMMANDS.items() if _file(folder, name).exists()}


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Measure mechanisms of LLM training, and read what was measured.",
        epilog="Each command has --help. Exit codes: 0 done, 1 blocked, 2 wrong usage, 130 interrupted.",
        allow_abbrev=False,
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    chosen = next((word for word in argv if not word.startswith("-")), None)
    for name, text in available().items():
        if name == chosen:
            module = _module(name)
            module.add_parser(subparsers)
            if hasattr(module, "add_named_options"):
                module.add_named_options(subparsers.choices[name], argv)
            subparsers.choices[name].set_defaults(run=module.run)
        else:
            subparsers.add_parser(name, help=text)
    return parser


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"experiments.cli.{_stem(name)}")


def _file(folder: Path, name: str) -> Path:
    return folder / f"{_stem(name)}.py"


def _stem(name: str) -> str:
    return "listing" if name == "list" else name  # `list` is a builtin: a module of that name would shadow it


def _tell(error: LabError, as_json: bool) -> int:
    if as_json:
        from experiments.cli.printing import blocked, emit

        emit(blocked(error))
    else:
        sys.stdout.flush()
        sys.stderr.write(render(error) + "\n")
    return error.code

"""What stands at a page's doors in tests: a preflight that finds what it is told, and a terminal that runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.evidence import store
from experiments.evidence.record import Record
from experiments.notebooks.command_child import Ended, Hear
from experiments.notebooks.notebook_page import NotebookPage, prepare
from experiments.training_mechanism.activation_checkpointing.experiment import EXPERIMENT as CHECKPOINTING
from tools.environments.model import Check, Report


def answer(*checks: Check) -> Callable[..., Report]:
    """A preflight that finds just that."""
    return lambda profile, known, *, accept=(), **rest: Report(
        profile.id, known.digest, checks, tuple(c.id for c in checks if c.status == "warning" and c.id in accept)
    )


class Terminal:
    """Stands where the child process is; keeps what it was asked, and leaves a record as a run would."""

    def __init__(self, runs: Path, record: Record | None = None, code: int = 0, errors: str = "") -> None:
        self.runs, self.record, self.code, self.errors = runs, record, code, errors
        self.asked: list[list[str]] = []

    def __call__(self, arguments: Sequence[str], hear: Hear) -> Ended:
        words = list(arguments)
        self.asked.append(words)
        hear({"event": "note", "text": "on the way"})
        if self.record is not None:
            option = "--run-label" if "--run-label" in words else "--resume"
            label = words[words.index(option) + 1]
            path = self.runs / words[1] / label / "record.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            store.write(replace(self.record, identity=replace(self.record.identity, run_label=label)), path)
        return Ended(self.code, self.errors)

    def option(self, name: str) -> str:
        """What was given with an option of the last command."""
        return self.asked[-1][self.asked[-1].index(name) + 1]


def page_with(terminal: Terminal, check: Callable[..., Report] | None = None, **first_cell: Any) -> NotebookPage:
    return prepare(CHECKPOINTING, check=check or answer(), command=terminal, **first_cell)

"""The lanes of a run: which one a test belongs to, how long each took, and which went over its budget.

The table is `.ci/lanes.toml`. A lane over its budget is a line at the end of the run and never a failure: a machine may
be slow for a day, and what got slow for good is over on every day.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

TABLE = Path(__file__).resolve().parents[1] / ".ci" / "lanes.toml"


@dataclass(frozen=True)
class Lane:
    """One line of the table; budgets in seconds of all workers together, by stage."""

    name: str
    markers: Sequence[str]
    paths: Sequence[str]
    budget: dict[str, float]

    def holds(self, path: str, markers: Iterable[str]) -> bool:
        """Whether a test of this path (below tests/) with these markers belongs here."""
        return bool({*markers} & {*self.markers}) or any(fnmatch(path, pattern) for pattern in self.paths)


def load(table: Path = TABLE) -> tuple[Lane, ...]:
    """The lanes in the order of the table."""
    listed = tomllib.loads(table.read_text(encoding="utf-8"))["lane"]
    return tuple(
        Lane(
            entry["name"],
            entry.get("markers", ()),
            entry.get("paths", ()),
            {stage: entry[stage] for stage in ("gate", "full")},
        )
        for entry in listed
    )


def path_of(nodeid: str) -> str:
    """The path of a test's file below tests/."""
    return nodeid.partition("::")[0].removeprefix("tests/")


def place(lanes: Sequence[Lane], path: str, markers: Iterable[str]) -> int:
    """The number of the first lane that holds a test."""
    marked = {*markers}
    return next(number for number, lane in enumerate(lanes) if lane.holds(path, marked))


def lines(lanes: Sequence[Lane], stage: str, took: dict[str, float]) -> list[str]:
    """One line with all lanes that ran, and one for each that went over."""
    ran = [lane for lane in lanes if took.get(lane.name)]
    if not ran:
        return []
    told = [f"{lane.name} {took[lane.name]:.0f} of {lane.budget[stage]:.0f}" for lane in ran]
    over = [
        f"lane {lane.name} went over its budget: {took[lane.name]:.0f} s of {lane.budget[stage]:.0f} s (.ci/lanes.toml)"
        for lane in ran
        if took[lane.name] > lane.budget[stage]
    ]
    return [f"lanes, seconds of all workers: {' · '.join(told)}", *over]


class Stopwatch:
    """Adds up what the tests of each lane took, on whichever worker they ran."""

    def __init__(self, lanes: Sequence[Lane], stage: str) -> None:
        self._lanes, self._stage = lanes, stage
        self._took: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Setup, call and teardown each report once; a shared fixture counts for the test that met it first."""
        lane = self._lanes[place(self._lanes, path_of(report.nodeid), report.keywords)]
        self._took[lane.name] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say it above the closing line."""
        for line in lines(self._lanes, self._stage, dict(self._took)):
            terminalreporter.write_line(line)

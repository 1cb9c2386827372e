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
from typing import Any

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
    """The lanes in the order of the table. pytest.UsageError names what is wrong with it, before any test runs."""
    try:
        listed = tomllib.loads(table.read_text(encoding="utf-8"))["lane"]
    except (OSError, ValueError, KeyError) as error:
        raise pytest.UsageError(f"{table}: wanted a TOML file with [[lane]] tables; found {error!r}") from None
    lanes = tuple(_lane(entry, f"{table}: lane {number}") for number, entry in enumerate(listed, 1))
    if not lanes or "*" not in lanes[-1].paths:
        raise pytest.UsageError(f'{table}: wanted a last lane with paths = ["*"], for every test that no other holds')
    return lanes


def _lane(entry: dict[str, Any], where: str) -> Lane:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise pytest.UsageError(f"{where}: wanted a name; found {name!r}")
    named = {key: entry.get(key, []) for key in ("markers", "paths")}
    for key, value in named.items():
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise pytest.UsageError(f"{where} ({name}): wanted a list of words as {key}; found {value!r}")
    budget = {stage: entry.get(stage) for stage in ("gate", "full")}
    for stage, seconds in budget.items():
        if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds <= 0:
            raise pytest.UsageError(f"{where} ({name}): wanted whole seconds as {stage}; found {seconds!r}")
    return Lane(name, named["markers"], named["paths"], budget)


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

"""The gate and the full stage: nothing of the baseline is lost between them, and a run says which lane went over."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import lanes
import pytest
import stage_map
import stages
from hypothesis import settings
from running_order import by_lane, shuffled

MAP = stage_map.load()
LANES = lanes.load()
REWRITE = "python tests/stage_map.py writes it anew; a renamed test goes into its `renamed`"


# The map


def test_every_test_of_the_baseline_runs_in_the_gate_or_in_the_full_stage(collected: stage_map.Counts) -> None:
    names = stage_map.mapped(MAP)
    assert len(names) == 1557
    gone = [name for name in names if stage_map.successor(MAP, name) not in collected]
    assert not gone, f"no test of these names is left: {gone}; {REWRITE}"


def test_the_map_says_where_each_of_them_runs_today(collected: stage_map.Counts) -> None:
    moved = {
        name: stage_map.stage_of(collected[today])
        for name, stage in stage_map.mapped(MAP).items()
        if (today := stage_map.successor(MAP, name)) in collected and stage_map.stage_of(collected[today]) != stage
    }
    assert not moved, f"another stage than the map's: {moved}; {REWRITE}"


def test_a_renamed_test_of_the_map_is_one_of_the_baseline() -> None:
    assert {*MAP["renamed"]} <= {*stage_map.mapped(MAP)}


@pytest.mark.parametrize(("counts", "stage"), [([4, 0], "gate"), ([4, 1], "part"), ([4, 4], "full")])
def test_a_function_s_stage_follows_from_its_cases(counts: list[int], stage: str) -> None:
    assert stage_map.stage_of(counts) == stage


def test_the_map_is_written_with_what_was_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_map, "MAP", tmp_path / "map.json")
    document: dict[str, Any] = {
        "renamed": {"test_a.py::test_old": "test_b.py::test_new"},
        "files": {"test_a.py": {"gate": ["test_gone", "test_old", "test_stays"]}},
    }
    found = {
        "test_a.py::test_stays": [3, 1],
        "test_b.py::test_new": [1, 1],
        "test_b.py::test_not_of_the_baseline": [1, 0],
    }
    stage_map.write(document, found)
    assert stage_map.load()["files"] == {
        "test_a.py": {"gate": ["test_gone"], "full": ["test_old"], "part": ["test_stays"]}
    }


# What is tried, and in which order


def test_the_gate_tries_a_twentieth_and_the_full_stage_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages.CURRENT, "name", "gate")
    assert [stages.count(full) for full in (2000, 100, 20, 3)] == [100, 5, 1, 1]
    monkeypatch.setattr(stages.CURRENT, "name", "full")
    assert [stages.count(full) for full in (2000, 3)] == [2000, 3]


def test_of_some_cases_the_gate_runs_the_first_and_the_full_stage_the_rest_too() -> None:
    first, *rest = stages.few(1, [("a", 1), ("b", 2), ("c", 3)])
    assert first == ("a", 1)
    assert [case.values for case in rest] == [("b", 2), ("c", 3)]
    assert all([mark.name for mark in case.marks] == ["full"] for case in rest)
    assert stages.few(0, "x")[0].values == ("x",)
    assert stages.few(0, [("a", 1)], alone=True)[0].values == (("a", 1),)


def test_hypothesis_draws_the_same_in_every_gate_and_keeps_nothing() -> None:
    profile = settings.get_profile(stages.CURRENT.name)
    assert settings.default is not None
    assert (settings.default.max_examples, profile.max_examples) == (stages.count(100),) * 2
    assert profile.derandomize is not stages.CURRENT.is_full
    assert profile.database is None


class Item:
    """As much of a collected test as an order asks for."""

    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid, self.marks = nodeid, [pytest.Mark(mark, (), {}, _ispytest=True) for mark in marks]

    def iter_markers(self) -> list[pytest.Mark]:
        return self.marks


def order(seed: int) -> list[str]:
    items = [Item(f"tests/test_{file}.py::test_{number}") for file in "abcde" for number in range(5)]
    return [item.nodeid for item in shuffled(items, seed)]  # type: ignore[arg-type, list-item]


def test_a_shuffle_loses_nothing_keeps_files_together_and_follows_its_seed() -> None:
    found = order(1)
    assert len({*found}) == 25
    files = [name.partition("::")[0] for name in found]
    assert sum(first != second for first, second in pairwise(files)) == 4
    assert found == order(1) != order(2)
    assert found != sorted(found)


def test_the_long_lanes_come_first_and_files_stay_together() -> None:
    names = ["tests/test_a.py::test_1", "tests/cli/test_run_kill.py::test_2", "tests/test_a.py::test_3"]
    items: list[Any] = [*map(Item, names), Item("tests/test_z.py::test_4", "docker")]
    found = [item.nodeid for item in by_lane(items, LANES)]
    assert found == ["tests/test_z.py::test_4", names[1], names[0], names[2]]


@pytest.mark.race
def test_a_race_s_repetitions_have_a_number(repetition: int, request: pytest.FixtureRequest) -> None:
    assert 0 <= repetition < request.config.getoption("--repeat")


# The lanes


def test_every_lane_has_a_name_and_a_budget_in_both_stages() -> None:
    names = [lane.name for lane in LANES]
    assert len({*names}) == len(names)
    assert all(0 < lane.budget["gate"] <= lane.budget["full"] for lane in LANES)
    assert LANES[-1].paths == ["*"]


@pytest.mark.parametrize(
    ("path", "markers", "lane"),
    [
        ("test_containers_image.py", {"docker"}, "image"),
        ("containers/test_containers_image.py", {"docker"}, "image"),
        ("containers/test_containers_context.py", set(), "unit"),
        ("environments/install/test_install_kill.py", {"race"}, "installs"),
        ("test_install_kill.py", {"race"}, "installs"),
        ("test_a_test_of_tomorrow.py", set(), "unit"),
    ],
)
def test_a_test_s_lane_is_that_of_its_marker_or_its_file_in_whatever_folder(
    path: str, markers: Sequence[str], lane: str
) -> None:
    assert LANES[lanes.place(LANES, path, markers)].name == lane


def test_a_lane_over_its_budget_is_named_and_the_others_are_not() -> None:
    first, second = LANES[0], LANES[1]
    took = {first.name: first.budget["gate"] + 30, second.name: second.budget["gate"] - 1}
    told, *over = lanes.lines(LANES, "gate", took)
    assert told.startswith("lanes, seconds of all workers: ")
    assert all(f"{lane.name} {took[lane.name]:.0f} of {lane.budget['gate']:.0f}" in told for lane in (first, second))
    assert LANES[2].name not in told
    (line,) = over
    assert line.startswith(f"lane {first.name} went over its budget: {took[first.name]:.0f} s")
    assert lanes.lines(LANES, "full", took)[1:] == []
    assert lanes.lines(LANES, "gate", {}) == []


def test_a_stopwatch_adds_up_setup_call_and_teardown() -> None:
    watch = lanes.Stopwatch(LANES, "gate")
    for name, seconds in (
        ("tests/test_x.py::test_a", 1.0),
        ("tests/test_x.py::test_a", 2.0),
        ("tests/y/test_install.py::t", 4.0),
    ):
        report = pytest.TestReport(name, (name, 1, name), {}, "passed", None, "call", duration=seconds)  # type: ignore[arg-type]
        watch.pytest_runtest_logreport(report)
    said: list[str] = []
    terminal: Any = type("Terminal", (), {"write_line": staticmethod(said.append)})
    watch.pytest_terminal_summary(terminal)
    assert "unit 3 of" in said[0]
    assert "installs 4 of" in said[0]


def test_the_shuffle_is_not_python_s_own_state() -> None:
    random.seed(5)
    before = random.random()
    random.seed(5)
    order(3)
    assert random.random() == before


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (None, "No such file"),
        ("[[lane", "TOMLDecodeError"),
        ("[stage]\ngate = 1\n", "KeyError"),
        ('[[lane]]\ngate = 1\nfull = 1\npaths = ["*"]\n', "lane 1: wanted a name"),
        (
            '[[lane]]\nname = "unit"\ngate = "140"\nfull = 1\npaths = ["*"]\n',
            "lane 1 (unit): wanted whole seconds as gate",
        ),
        ('[[lane]]\nname = "unit"\ngate = 1\nfull = 0.5\npaths = ["*"]\n', "as full; found 0.5"),
        ('[[lane]]\nname = "unit"\ngate = 1\nfull = 1\npaths = "*"\n', "a list of words as paths"),
        ('[[lane]]\nname = "unit"\ngate = 1\nfull = 1\npaths = ["a*"]\n', "a last lane"),
    ],
)
def test_a_table_of_lanes_that_is_wrong_is_named_before_any_test(tmp_path: Path, text: str | None, named: str) -> None:
    table = tmp_path / "lanes.toml"
    if text is not None:
        table.write_text(text)
    with pytest.raises(pytest.UsageError, match=re.escape(named)):
        lanes.load(table)

"""How a run of these tests is set up: its stage, its order, how often a race is run, and the watch on its lanes."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Iterator
from pathlib import Path

import lanes
import pytest
import running_order
import stage_map
import stages
from zygote import Zygote

COLLECTED = pytest.StashKey[stage_map.Counts]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stages", "stages of the checks")
    group.addoption("--stage", choices=("gate", "full"), default="gate", help="how much is tried")
    group.addoption("--seed", type=int, default=0, metavar="N", help="moves every draw of the full stage")
    group.addoption("--shuffle", action="store_true", help="files in random order, tests within them too, by --seed")
    group.addoption("--collected", metavar="FILE", help="write how many tests each function has")
    group.addoption("--repeat", type=int, default=1, metavar="N", help="run each test marked race N times")


def pytest_configure(config: pytest.Config) -> None:
    stages.begin(config.getoption("--stage"), config.getoption("--seed"))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in a script's background: children would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # of several processes the one that hears of all tests
        config.pluginmanager.register(lanes.Stopwatch(lanes.load(), config.getoption("--stage")))


@pytest.fixture
def repetition() -> int:
    """Which of the --repeat runs of a test marked race this is, from 0; names what a run leaves behind."""
    return 0


@pytest.fixture(scope="session")
def collected(request: pytest.FixtureRequest) -> stage_map.Counts:
    """Everything that tests/ holds, by function; collected apart where this run was asked for less."""
    found = request.config.stash[COLLECTED]
    narrowed = any("::" in argument for argument in request.config.args)
    return found if stage_map.is_whole(found) and not narrowed else stage_map.collect()


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """The process that has imported torch and forks a command line of experiments per request."""
    with Zygote(tmp_path_factory.mktemp("outputs")) as started:
        yield started


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    race = metafunc.definition.get_closest_marker("race")
    if race is None:
        return
    times = math.ceil(metafunc.config.getoption("--repeat") / race.kwargs.get("moments", 1))
    if times > 1:
        if "repetition" not in metafunc.fixturenames:
            metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(times), ids=lambda number: f"again{number}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what hypothesis draws, keep what there is before any of it is left out, and put it in order."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("fuzz")
    config.stash[COLLECTED] = stage_map.count(items)
    if target := config.getoption("--collected"):
        Path(target).write_text(json.dumps(config.stash[COLLECTED]), encoding="utf-8")
    shuffle, seed = config.getoption("--shuffle"), config.getoption("--seed")
    items[:] = running_order.shuffled(items, seed) if shuffle else running_order.by_lane(items, lanes.load())

"""kill -9 at random moments of a real run, in a loop: the next call finishes, and no finished task is lost."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from stages import CURRENT
from zygote import Forks, Zygote

from experiments.evidence import store
from experiments.evidence.record import Record

NAME = "mixed_precision_backward"
SMALL = ("--batch", "1", "--sequence", "16", "--steps", "1", "--rounds", "1", "--warmup", "0", "--precision", "fp16")
LOOPS = 24
IN_GATE = (3, 10, 17)  # of the loop: a kill in each third of a run, the first two of them twice
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def zygote(forks: Zygote, runs: Path) -> Forks:
    return forks.at(runs)


def essence(record: Record) -> dict[str, Any]:
    """A record without what differs from run to run: times, label, order, how often it was resumed."""
    value = record.to_json()
    for key in ("identity", "runtime", "source", "noise_floors", "comparisons"):
        del value[key]
    value["procedure"] = {k: v for k, v in value["procedure"].items() if k in ("rounds", "steps_per_round")}
    for candidate in value["candidates"]:
        del candidate["summary"]
        kept = ("loss", "loss_scale")  # what a sample has that is no time
        samples = [
            (s["round"], s["step"], s["skipped"], *(s["values"].get(word) for word in kept))
            for s in candidate["samples"]
        ]
        candidate["samples"] = sorted(samples)
    value["profile"] = value["profile"]["id"]
    return value


def finished_lines(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal that tell of finished tasks."""
    lines = (folder / "journal.jsonl").read_bytes().split(b"\n")[:-1]
    return [line for line in map(json.loads, lines) if "task" in line]


@pytest.fixture(scope="module")
def whole(zygote: Forks, runs: Path) -> tuple[dict[str, Any], float]:
    """What an undisturbed run says, and how long one takes once everything is imported."""
    for label in ("whole", "timed"):
        began = time.monotonic()
        done = zygote.run("run", NAME, *SMALL, "--run-label", label)
        length = time.monotonic() - began
        assert done.code == 0, done.stderr
    return essence(store.read(runs / NAME / "whole" / "record.json")), length


@pytest.mark.race(moments=LOOPS)
@pytest.mark.parametrize(
    "number",
    [number if number in IN_GATE else pytest.param(number, marks=pytest.mark.full) for number in range(LOOPS)],
)
def test_a_run_killed_at_any_moment_is_finished_by_the_next_call(
    zygote: Forks, runs: Path, whole: tuple[dict[str, Any], float], number: int, repetition: int
) -> None:
    wanted, length = whole
    draw = random.Random(f"{CURRENT.seed} {repetition} {number}")
    label = f"killed-{repetition}-{number}"
    folder = runs / NAME / label
    run = zygote.start("run", NAME, *SMALL, "--run-label", label)
    time.sleep(length * (number + draw.random()) / LOOPS)  # at random, and every part of the run has its turn
    run.kill()
    run.wait()
    if not (folder / "journal.jsonl").exists():  # killed before it began: the label is still free
        again = zygote.run("run", NAME, *SMALL, "--run-label", label)
        assert again.code == 0, again.stderr
    elif (folder / "record.json").exists():
        again = zygote.run("run", NAME, "--resume", label)
        assert again.code == 1
        assert "finished" in again.stderr
    else:
        kept = finished_lines(folder)
        again = zygote.run("run", NAME, *SMALL, "--run-label", label)
        assert again.code == 1
        assert f"interrupted after {len(kept)} finished tasks" in again.stderr
        assert f"python -m experiments run {NAME} --resume {label}" in again.stderr
        if number % 2:  # kill the resumed run too
            second = zygote.start("run", NAME, "--resume", label)
            time.sleep(draw.uniform(0, length / 2))
            second.kill()
            second.wait()
        if not (folder / "record.json").exists():
            resumed = zygote.run("run", NAME, "--resume", label)
            assert resumed.code == 0, resumed.stderr
        assert finished_lines(folder)[: len(kept)] == kept
    assert essence(store.read(folder / "record.json")) == wanted
    zygote.run("run", NAME, "--resume", label)  # sweeps what a kill behind the record may have left
    assert not list(folder.glob("scratch"))


def test_a_torn_last_line_is_cut_off_and_its_task_done_again(
    zygote: Forks, runs: Path, whole: tuple[dict[str, Any], float]
) -> None:
    done = zygote.run("run", NAME, *SMALL, "--run-label", "torn")
    assert done.code == 0, done.stderr
    folder = runs / NAME / "torn"
    journal = folder / "journal.jsonl"
    content = journal.read_bytes()
    (folder / "record.json").unlink()
    cut = content.rstrip(b"\n").rfind(b"\n") - 40  # inside the last finished task
    journal.write_bytes(content[:cut])
    kept = finished_lines(folder)
    resumed = zygote.run("run", NAME, "--resume", "torn")
    assert resumed.code == 0, resumed.stderr
    assert finished_lines(folder)[: len(kept)] == kept
    record = store.read(folder / "record.json")
    assert essence(record) == whole[0]
    assert record.procedure is not None
    assert record.procedure.resumed == 1


@pytest.mark.race
def test_a_lost_reference_is_made_again_and_its_gates_with_it(
    zygote: Forks, runs: Path, whole: tuple[dict[str, Any], float], repetition: int
) -> None:
    """Killed among the gates and its scratch folder cleaned: what the later gates need is written once more."""
    label = f"lost-{repetition}"
    folder = runs / NAME / label
    run = zygote.start("run", NAME, *SMALL, "--run-label", label)
    while not (folder / "journal.jsonl").exists() or len(finished_lines(folder)) < 2:
        time.sleep(0.005)
    run.kill()
    run.wait()
    for path in sorted((folder / "scratch").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert zygote.run("run", NAME, "--resume", label).code == 0
    assert essence(store.read(folder / "record.json")) == whole[0]

"""Several experiments in one start: what they share, and that a refusal, a failure or a Ctrl-C of one stays its own."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from zygote import Forks, Zygote

from experiments.evidence import store

FIRST, SECOND = "gradient_accumulation", "activation_offload"
SMALL = ("--batch", "1", "--sequence", "16", "--steps", "1", "--rounds", "1", "--warmup", "0")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def zygote(forks: Zygote, runs: Path) -> Forks:
    return forks.at(runs)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_two_experiments_share_a_preflight_and_each_has_its_record(zygote: Forks, runs: Path) -> None:
    done = zygote.run("run", FIRST, SECOND, *SMALL, "--json-events", "--run-label", "two")
    assert done.code == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    notes = [event["text"] for event in events if event["event"] == "note"]
    assert notes.count("preflight of TRAIN-CPU") == 1
    finished = [event["experiment"] for event in events if event["event"] == "finished"]
    assert finished == [FIRST, SECOND]
    assert all("experiment" in event for event in events if event["event"] != "note")
    records = [store.read(runs / name / "two" / "record.json") for name in (FIRST, SECOND)]
    assert [record.identity.experiment for record in records] == [FIRST, SECOND]
    assert records[0].profile.preflight is not None
    assert records[0].profile == records[1].profile
    assert records[0].identity.created_at <= records[1].identity.created_at
    assert records[0].procedure is not None
    assert records[1].procedure is not None
    verified = zygote.run("results", "verify", *(str(runs / name / "two") for name in (FIRST, SECOND)))
    assert verified.code == 0, verified.stdout


def test_a_person_sees_each_and_what_all_came_to(zygote: Forks) -> None:
    done = zygote.run("run", FIRST, SECOND, "--run-mode", "dry_run", "--run-label", "seen")
    assert done.code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if " of 2" in line] == [f"{FIRST} · 1 of 2", f"{SECOND} · 2 of 2"]
    assert [line.split() for line in lines[-2:]] == [[FIRST, "seen", "plan"], [SECOND, "seen", "plan"]]


@pytest.mark.parametrize(
    ("names", "given", "code", "words"),
    [
        ((SECOND, FIRST), ("--workload", "large-4x4096"), 2, f"a workload of {FIRST}"),
        ((FIRST, SECOND), ("--run-label", "taken"), 2, f"a run label that {SECOND} has not used"),
        ((FIRST, "nobody-has-this"), (), 2, "the name of an experiment"),
        ((FIRST, SECOND, FIRST), (), 2, f"'{FIRST}' twice"),
        ((FIRST, SECOND), ("--resume", "L"), 2, "2 experiments"),
        ((FIRST, SECOND), ("--sequence", "513"), 2, "--sequence"),
        ((FIRST, SECOND), ("--accept", "no.such.check"), 2, "no.such.check"),
    ],
)
def test_what_one_is_refused_for_is_refused_for_all_before_anything_is_measured(
    zygote: Forks, runs: Path, names: tuple[str, ...], given: tuple[str, ...], code: int, words: str
) -> None:
    taken = runs / SECOND / "taken" / "record.json"
    taken.parent.mkdir(parents=True, exist_ok=True)
    taken.touch()
    before = files(runs)
    done = zygote.run("run", *names, *given)
    assert done.code == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert files(runs) == before


def test_one_that_fails_does_not_cost_the_other(forks: Zygote, tmp_path: Path) -> None:
    zygote = forks.at(tmp_path)
    (tmp_path / FIRST).write_text("a file where its folder should be")
    done = zygote.run("run", FIRST, SECOND, *SMALL, "--run-label", "L")
    assert done.code == 1
    assert f"blocked runs/{FIRST}" in done.stderr
    assert [line.split()[:3] for line in done.stdout.splitlines()[-2:]] == [
        [FIRST, "L", "blocked"],
        [SECOND, "L", "cpu_mechanism"],
    ]
    assert store.read(tmp_path / SECOND / "L" / "record.json").evidence_level == "cpu_mechanism"

    told = zygote.run("run", FIRST, SECOND, *SMALL, "--run-label", "M", "--json")
    assert told.code == 1
    blocked, record = json.loads(told.stdout)
    assert (blocked["status"], blocked["experiment"], blocked["run_label"]) == ("blocked", FIRST, "M")
    assert record == store.read(tmp_path / SECOND / "M" / "record.json").to_json()


@pytest.mark.parametrize("how", ["", "--json", "--json-events"])
def test_ctrl_c_leaves_the_running_one_to_be_resumed_and_names_the_rest(zygote: Forks, runs: Path, how: str) -> None:
    label = f"stopped{how}"
    run = zygote.start("run", FIRST, SECOND, *SMALL, "--rounds", "3", "--run-label", label, *filter(None, [how]))
    journal = runs / FIRST / label / "journal.jsonl"
    until(lambda: journal.exists() and journal.read_bytes().count(b'"task"') >= 2)
    run.kill(signal.SIGINT)
    done = run.wait()
    assert done.code == 130
    assert f"resume   python -m experiments run {FIRST} --resume {label}" in done.stderr
    assert f"not begun: {SECOND}" in done.stderr
    assert not (runs / SECOND / label).exists()
    if how == "--json":
        stopped, rest = json.loads(done.stdout)
        assert (stopped["status"], stopped["experiment"]) == ("interrupted", FIRST)
        assert rest == {"status": "not_begun", "experiment": SECOND}
        resumed = zygote.run("run", FIRST, "--resume", label)
        assert resumed.code == 0, resumed.stderr
    elif how:
        *_, stopped, rest = map(json.loads, done.stdout.splitlines())
        assert (stopped["event"], stopped["experiment"]) == ("interrupted", FIRST)
        assert (rest["event"], rest["experiment"]) == ("not_begun", SECOND)
    else:
        assert [line.split()[0] for line in done.stdout.splitlines()[-2:]] == [FIRST, SECOND]


def until(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.005)

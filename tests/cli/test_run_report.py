"""The end of a run on the screen: the record stands whatever its picture does; a failed gate says what to look at."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from sample_records import GATES, candidate, cpu_record

from experiments.cli.run_report import tell
from experiments.evidence.candidate import Failure
from experiments.evidence.record import Record
from experiments.harness.experiment import Experiment, Table
from experiments.harness.session import Finished
from experiments.training_mechanism.mixed_precision_backward.experiment import EXPERIMENT
from tools.environments.errors import LabError


def shown(record: Record) -> Experiment:
    return replace(EXPERIMENT, table=lambda _: Table(columns=("candidate",), rows=(("fp32",),), notes=("a note",)))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError("no", name="matplotlib"), "not drawn: matplotlib is not installed here"),
        (LabError("room", "the disk is full", "free some space"), "not drawn: the disk is full → free some space"),
        (ValueError("columns must be\n positive"), "not drawn: ValueError: columns must be positive\n"),
        (MemoryError(), "not drawn: MemoryError\n"),
    ],
)
def test_a_picture_that_cannot_be_drawn_is_a_line_and_not_a_failure(
    error: Exception, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def draw(record: Record, folder: Path) -> NoReturn:
        raise error

    record = cpu_record()
    tell(replace(shown(record), picture=draw), Finished(record, tmp_path), as_json=False)
    out = capsys.readouterr().out
    assert words in out
    assert "cpu_mechanism" in out
    assert "a note" in out


def test_a_drawing_that_breaks_leaves_the_json_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def draw(record: Record, folder: Path) -> NoReturn:
        raise ValueError("columns must be positive")

    record = cpu_record()
    tell(replace(shown(record), picture=draw), Finished(record, tmp_path), as_json=True)
    assert json.loads(capsys.readouterr().out) == record.to_json()


def test_a_baseline_alone_has_no_picture_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = cpu_record(candidates=cpu_record().candidates[:1])
    tell(EXPERIMENT, Finished(record, tmp_path), as_json=False)
    out = capsys.readouterr().out
    assert "picture  not drawn: no candidate was checked against the baseline → compare formats" in out
    assert "next     python -m experiments show" in out
    assert list(tmp_path.iterdir()) == []


def test_as_json_nothing_but_the_record_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = cpu_record()
    tell(replace(shown(record), picture=None), Finished(record, tmp_path), as_json=True)
    assert json.loads(capsys.readouterr().out) == record.to_json()


def test_an_out_of_memory_proposes_the_next_step_of_the_ladder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    down = "--batch 1 --sequence 512 under a new --run-label"
    failure = Failure(phase="backward", kind="OutOfMemoryError", message="no room", proposal=down)
    oom = replace(candidate("fp32", "baseline", 1.0, 1), status="oom", failure=failure)
    record = replace(cpu_record(), candidates=(oom,))
    tell(replace(shown(record), picture=None), Finished(record, tmp_path), as_json=False)
    assert f"try      fp32 ran out of memory: {down}" in capsys.readouterr().out


def test_a_failed_gate_says_what_to_look_at_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "gradient" in GATES.gates
    wrong = replace(GATES, gates={**GATES.gates, "gradient": replace(GATES.gates["gradient"], passed=False, error=0.5)})
    record = replace(cpu_record(), candidates=(candidate("bf16", "candidate", 1.0, 1, checks=wrong),))
    tell(replace(shown(record), picture=None), Finished(record, tmp_path), as_json=False)
    assert "look at  random state, in-place changes, saved tensors" in capsys.readouterr().out


def test_a_dry_run_lists_what_it_would_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned = Failure(phase="other", kind="NotExecuted", message="planned, not executed")
    record = cpu_record()
    later = replace(candidate("bf16", "candidate", 1.0, 1), status="skipped", failure=planned, samples=(), summary=None)
    plan = replace(record, identity=replace(record.identity, run_mode="dry_run"), candidates=(later,))
    tell(replace(shown(record), table=lambda _: Table(("candidate",), ())), Finished(plan, tmp_path), as_json=False)
    out = capsys.readouterr().out
    assert "plan     mixed_precision_backward · " in out
    assert "  bf16: planned, not executed" in out

"""What a page shows: the ladder, the prediction, the record and what to do about it, the mechanism's own code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_doors import Terminal, page_with
from sample_records import GATE, cpu_record, gpu_record, measured_record

from experiments.evidence.candidate import Checks
from experiments.notebooks import ladder, markdown, record_view
from experiments.notebooks.mechanism_source import mechanism
from experiments.training_mechanism.activation_checkpointing.experiment import EXPERIMENT as CHECKPOINTING
from experiments.training_mechanism.activation_offload.experiment import EXPERIMENT as OFFLOAD
from experiments.training_mechanism.gradient_accumulation.experiment import EXPERIMENT as ACCUMULATION
from experiments.training_mechanism.mixed_precision_backward.experiment import EXPERIMENT as PRECISION

EVERY = (PRECISION, ACCUMULATION, CHECKPOINTING, OFFLOAD)
CPU = "TRAIN-CPU"


@pytest.fixture(autouse=True)
def fixture_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMLAB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


# ---- the ladder and the prediction


@pytest.mark.parametrize("experiment", EVERY, ids=lambda experiment: str(experiment.name))
def test_the_ladder_goes_down_to_where_everything_fits_8_gib(experiment: Any) -> None:
    rungs = list(ladder.rungs(experiment, 8.0))
    assert [rung.workload.name for rung in rungs[:2]] == ["default", "fit-8gib"]
    assert rungs[0].short  # else the page would need no ladder
    assert not rungs[1].short
    sizes = [rung.workload.batch * rung.workload.sequence for rung in rungs if not rung.registered]
    assert sizes == sorted(sizes, reverse=True)
    assert not rungs[-1].short
    told = ladder.as_table(rungs, 8.0)
    assert "| fit-8gib |" in told
    assert {"fits"} == {row.verdict for row in ladder.rows_of(experiment, experiment.workloads["default"], 12.0)} - {
        "not predicted"
    }


def test_a_shorter_sequence_comes_before_a_smaller_batch() -> None:
    found = [rung.workload for rung in ladder.rungs(CHECKPOINTING, 5.0)][2:]
    assert [(step.sequence, step.batch) for step in found[:2]] == [(256, 4), (256, 2)]
    assert '{"workload": "default", "sequence": 256, "batch": 4}' in list(ladder.rungs(CHECKPOINTING, 5.0))[2].choice


def test_the_prediction_is_the_ledgers_and_says_that_nothing_ran(tmp_path: Path) -> None:
    told = page_with(Terminal(tmp_path), profile=CPU, workload="large").prediction().text
    assert "predicted for a CUDA card, not executed" in told
    row = next(line for line in told.splitlines() if line.startswith("| every layer |"))
    assert "1.249 x" in row  # +24.9 % operations at sequence 1024
    assert "TRL OffloadActivations | not predicted" in ladder.prediction(OFFLOAD, OFFLOAD.workloads["default"])
    assert "blocked · the first cell" in page_with(Terminal(tmp_path), workload="huge").prediction().text


# ---- the record


def test_a_failed_gate_says_what_to_look_at_first() -> None:
    failed = replace(GATE, passed=False, error=0.7)
    base = gpu_record()
    broken = replace(base.candidates[2], checks=Checks(finite=True, gates={"gradient": failed, "update": GATE}))
    record = gpu_record(candidates=(*base.candidates[:2], broken, *base.candidates[3:]))
    told = record_view.result(CHECKPOINTING, record).text
    assert "**gate failed** every layer: gradient gate 0.7 over 0.001" in told
    assert "Look first at: random state, in-place changes, saved tensors, and which gradients were compared" in told
    assert "do not use these numbers" in record_view.next_step(CHECKPOINTING, record).text
    assert "gate failed" not in record_view.result(CHECKPOINTING, base).text


def test_out_of_memory_leads_to_the_ladder() -> None:
    told = record_view.result(CHECKPOINTING, gpu_record()).text
    assert "out of memory: everything kept → --workload fit-8gib" in told
    assert "section 5.1" in record_view.next_step(CHECKPOINTING, gpu_record()).text


def test_a_record_says_what_it_does_not_say_and_what_would_raise_it() -> None:
    told = record_view.says(gpu_record()).text
    assert "**says** a step of every layer takes 1.220 x that of none: slower" in told
    assert "anything about loss quality" in told
    assert "**decision** adopt_if_memory_bound" in told
    assert "results promote 2026-12-01-a" in record_view.next_step(CHECKPOINTING, gpu_record()).text
    cpu = record_view.next_step(PRECISION, cpu_record()).text
    assert "TRAIN-CUDA-MECHANISM or TRAIN-CUDA130-MECHANISM" in cpu


def test_pictures_are_drawn_beside_the_record_each_with_a_caption_in_both_languages(tmp_path: Path) -> None:
    record = measured_record()
    folder = tmp_path / "runs" / "activation_checkpointing" / "2026-12-01-a"
    folder.mkdir(parents=True)
    shown = record_view.pictures(record)
    assert isinstance(shown, record_view.Pictures)
    assert {path.parent for path in shown.files} == {folder}
    page = shown._repr_html_()
    assert page.count("<figure>") == len(shown.files) >= 4
    assert page.count("data:image/svg+xml;base64,") == len(shown.files)
    names = {plot.name for plot in record_view.plots.plots()}
    assert set(record_view.CAPTIONS) == names


def test_a_folder_that_cannot_be_drawn_into_is_a_finding(tmp_path: Path) -> None:
    shown = page_with(Terminal(tmp_path), profile=CPU).pictures(measured_record())
    assert isinstance(shown, markdown.Markdown)
    assert shown.text.startswith("blocked · ")


def test_without_a_record_every_cell_says_so(tmp_path: Path) -> None:
    page = page_with(Terminal(tmp_path), profile=CPU)
    for show in (page.table, page.pictures, page.says, page.next_step):
        assert repr(show(None)).startswith("No record")  # type: ignore[operator]


def test_a_table_keeps_a_bar_inside_its_cell() -> None:
    assert markdown.table(("a",), [("x | y\nz",)]).splitlines()[-1] == "| x \\| y z |"


def test_a_mechanism_is_shown_as_it_runs() -> None:
    from experiments.mechanisms import accumulation

    told = mechanism("accumulation", "accumulate").text
    assert told.startswith("`experiments/mechanisms/accumulation.py` · accumulate")
    assert 'raise ValueError(f"no target token' not in told
    assert accumulation.accumulate.__doc__ is not None
    assert accumulation.accumulate.__doc__.splitlines()[0] in told
    with pytest.raises(AttributeError):
        mechanism("accumulation", "accumulated")
    assert json.dumps(told)  # nothing a notebook could not hold

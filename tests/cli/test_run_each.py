"""One run after the other behind their preparation: a defect of one is shown whole, and the next one is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sample_plans
from sample_records import cpu_record

from experiments.cli import run_each
from experiments.cli.run_prepare import Ready
from experiments.evidence import labels
from experiments.harness import plan as plans
from experiments.harness import preparing
from experiments.harness.events import Listener
from experiments.harness.experiment import AnyExperiment, DeviceFacts, Options, Table
from experiments.harness.preparing import Prepared, RunRequest
from experiments.harness.session import Finished
from experiments.kinds.training_step.model_subject import WantedModel
from experiments.models.source_types import ModelRequest
from experiments.training_mechanism.gradient_accumulation.experiment import EXPERIMENT
from tools.environments.errors import LabError

Measure = Callable[..., Finished]
CARD = DeviceFacts(kind="cuda", torch="2.11.0+cu128", driver="570.1", bf16_native=True, tf32=True)


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(labels.RUNS_VARIABLE, str(tmp_path))
    return tmp_path


def ready(name: str) -> Ready:
    """A prepared run of an experiment that draws no picture."""
    shown = Table(columns=("candidate",), rows=(("plain",),))
    experiment: AnyExperiment = replace(EXPERIMENT, name=name, picture=None, table=lambda _: shown)
    plan = sample_plans.plan_of(EXPERIMENT)
    request = RunRequest(
        experiment=experiment,
        mode="cpu_mechanism",
        workload=plan.workload,
        registered_digest=None,
        subject=WantedModel(ModelRequest(id="tiny-qwen2", source="config")),
        options=Options(),
        label="L",
    )
    return Ready(request, Prepared(plan=plan, subject=sample_plans.subject_of("tiny-qwen2")))


def measuring(faults: dict[str, BaseException], folder: Path) -> Measure:
    def measure(one: Ready, listener: Listener, *, first: bool) -> Finished:
        assert first == (one.request.experiment.name == "one")
        if one.request.experiment.name in faults:
            raise faults[one.request.experiment.name]
        return Finished(cpu_record(), folder)

    return measure


def test_a_defect_of_one_keeps_its_traceback_and_costs_the_others_nothing(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_each, "measure", measuring({"two": ZeroDivisionError("a defect")}, runs))
    assert run_each.every([ready("one"), ready("two"), ready("three")], "text") == 1
    out, err = capsys.readouterr()
    assert "ZeroDivisionError: a defect" in err
    assert [line.split()[-1] for line in out.splitlines()[-3:]] == ["cpu_mechanism", "failed", "cpu_mechanism"]


def test_the_worst_exit_code_is_the_whole_one_s(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    faults: dict[str, BaseException] = {"one": LabError("w", "f", "n", code=2), "two": LabError("w", "f", "n", code=1)}
    monkeypatch.setattr(run_each, "measure", measuring(faults, runs))
    assert run_each.every([ready("one"), ready("two"), ready("three")], "json") == 2
    told = json.loads(capsys.readouterr().out)
    assert [one.get("status") for one in told[:2]] == ["blocked", "blocked"]
    assert told[2] == cpu_record().to_json()


def test_a_ctrl_c_while_a_result_is_shown_ends_the_rest_and_keeps_the_record(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(experiment: AnyExperiment, finished: Finished) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_each, "measure", measuring({}, runs))
    monkeypatch.setattr(run_each, "picture", stopped)
    assert run_each.every([ready("one"), ready("two")], "json") == 130
    out, err = capsys.readouterr()
    assert [one["status"] for one in json.loads(out)] == ["interrupted", "not_begun"]
    assert "The record is written" in err
    assert "not begun: two" in err


def test_a_later_run_has_its_own_hour_and_order_and_asks_a_card_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = ready("one").prepared
    on_card = replace(begun, plan=replace(begun.plan, mode="real_gpu", device=CARD))
    busy = replace(CARD, context_bytes=1)
    monkeypatch.setattr(preparing, "ask_device", lambda kind, cap: busy)
    now = preparing.at_its_turn(on_card).plan
    assert now.device == busy
    assert now.created_at != begun.plan.created_at
    assert now.order_seed == plans.order_seed(now.label, now.created_at)
    assert replace(now, device=CARD, created_at="", order_seed=0) == replace(on_card.plan, created_at="", order_seed=0)
    monkeypatch.setattr(preparing, "ask_device", lambda kind, cap: replace(CARD, driver="580.1"))
    with pytest.raises(LabError, match=r"the driver this run began with: 570\.1"):
        preparing.at_its_turn(on_card)


def test_a_cpu_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "ask_device", lambda kind, cap: pytest.fail("asked"))
    begun = ready("one").prepared
    assert preparing.at_its_turn(begun).plan.device == begun.plan.device

"""The engine with a kind that is no training step: ranks, a record in its own words, refusals before anything runs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import toy_kind
from sample_collectives import record_of
from sample_records import cpu_record
from toy_kind import EXPERIMENT, KIND, AddingKind

from experiments import kinds
from experiments.cli import kind_check, run_options
from experiments.evidence import labels, store
from experiments.evidence.record import Launch, Quantity, Record
from experiments.evidence.vocabulary import Role
from experiments.harness import plan as plans
from experiments.harness import preparing, session
from experiments.harness.events import Silence
from experiments.harness.experiment import Options
from experiments.harness.measured_workload import check_bounds
from experiments.kinds.training_step.kind import KIND as TRAINING_STEP
from experiments.parallelism.all_reduce_cost.experiment import EXPERIMENT as ALL_REDUCE
from experiments.quantization.int8_weight_product.experiment import EXPERIMENT as INT8
from experiments.training_mechanism.gradient_accumulation.experiment import EXPERIMENT as ACCUMULATION
from tools.environments.errors import LabError


def said(refused: pytest.ExceptionInfo[LabError]) -> tuple[str, str, str]:
    """Wanted and found, and that there is something to do next."""
    error = refused.value
    assert error.next
    return error.wanted, error.found, error.where


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_kind.folder_of(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def record(folder: Path) -> Record:
    return session.begin(EXPERIMENT, toy_kind.prepared(), folder, Silence()).record


def test_a_run_over_two_ranks_is_a_graded_record_of_its_own_words(record: Record, folder: Path) -> None:
    assert store.read(folder / labels.RECORD_NAME) == record
    assert (record.identity.kind, record.identity.launch) == ("adding", Launch(type="ranks", ranks=2))
    assert (record.evidence_level, record.model, record.workload.batch) == ("cpu_mechanism", None, None)
    baseline, twin, _ = record.candidates
    assert (baseline.status, twin.status) == ("ok", "ok")
    assert baseline.checks.gates["sum"].passed, "the exact sum on both ranks"
    assert baseline.checks.gates["sum"].tensors == 2
    assert len(baseline.samples) == 6
    assert baseline.median("call_ms") is not None
    assert [floor.quantity for floor in record.noise_floors] == ["call_ms"]


def test_a_rank_that_dies_is_that_candidates_failure_and_nobody_elses(record: Record) -> None:
    dead = record.candidates[2]
    assert (dead.status, dead.samples) == ("failed", ())
    assert dead.failure is not None
    assert (dead.failure.phase, dead.failure.kind, dead.failure.round) == ("add", "Killed", 0)
    assert dead.failure.message.startswith("measure: rank 1: ended by SIGKILL")


def test_a_plan_is_read_back_by_its_kind_and_by_no_other() -> None:
    plan = toy_kind.prepared().plan
    assert plans.read(plan.to_json(), KIND) == plan
    with pytest.raises(LabError) as refused:
        plans.read(plan.to_json(), TRAINING_STEP)
    assert said(refused)[:2] == ("a run whose plan is whole", "plan.kind: adding")


def test_a_workload_of_another_kind_is_refused() -> None:
    with pytest.raises(LabError) as refused:
        preparing.resolve(toy_kind.request(ACCUMULATION.workloads["smoke"]))
    wanted, found, _ = said(refused)
    assert (wanted, found) == ("a workload of kind adding: AddingWorkload", "TrainingWorkload")
    with pytest.raises(LabError) as refused:
        KIND.workload_from("smoke", ACCUMULATION.workloads["smoke"].knobs())
    wanted, found, where = said(refused)
    assert wanted.startswith("a workload of kind adding: ")
    assert ("unknown field" in found, where) == (True, "workload")


def test_a_quantity_declared_twice_is_refused() -> None:
    twice = toy_kind.without(KIND, quantities=(*KIND.words.quantities, Quantity(word="call_ms", unit="count")))
    with pytest.raises(LabError) as refused:
        preparing.resolve(toy_kind.request(experiment=replace(EXPERIMENT, kind=twice)))
    assert said(refused) == ("each quantity once", "call_ms twice", "experiments/kinds/adding")


@pytest.mark.parametrize(
    "words",
    [{"gates": ("sum", "sum")}, {"phases": ("add", "load")}, {"marks": {"not_executed": ""}}, {"claims": ("a", "a")}],
)
def test_any_other_word_declared_twice_is_refused(words: dict[str, Any]) -> None:
    with pytest.raises(LabError) as refused:
        toy_kind.without(KIND, **words).refuse_unsound()
    assert said(refused)[1].endswith(" twice")


def test_a_gate_that_nobody_computes_is_refused() -> None:
    class Demanding(AddingKind):
        def wanted(self, role: Role) -> tuple[str, ...]:
            return ("finite", "sum", "gradient") if role == "candidate" else ("sum",)

    with pytest.raises(LabError) as refused:
        preparing.resolve(toy_kind.request(experiment=replace(EXPERIMENT, kind=Demanding(KIND.words))))
    wanted, found, _ = said(refused)
    assert (wanted, found) == ("a gate of adding: finite, sum", "gradient, wanted of a candidate: nobody computes it")


@pytest.mark.parametrize("launch", [Launch(type="server"), Launch(type="ranks", ranks=1)])
def test_a_launch_that_cannot_be_done_is_refused_before_anything_runs(launch: Launch) -> None:
    class Elsewhere(AddingKind):
        def launch(self, workload: object) -> Launch:
            return launch

    with pytest.raises(LabError) as refused:
        preparing.resolve(toy_kind.request(experiment=replace(EXPERIMENT, kind=Elsewhere(KIND.words))))
    assert said(refused)[2] == "launch"


def test_a_workload_that_is_wrong_in_itself_is_refused_before_its_launch() -> None:
    class Bounded(AddingKind):
        def check(self, workload: toy_kind.AddingWorkload, subject: None, options: Options) -> None:
            check_bounds(("--ranks", workload.ranks, 2, 8))

    bounded = replace(EXPERIMENT, kind=Bounded(KIND.words))
    with pytest.raises(LabError) as refused:
        preparing.resolve(toy_kind.request(replace(toy_kind.SMOKE, ranks=1), bounded))
    assert said(refused) == ("a whole number of at least 2", "1", "--ranks")


@pytest.mark.parametrize(("profile", "named"), [("BASE-CPU", "torch"), ("TRAIN-CPU", "torch and transformers")])
def test_a_missing_module_is_of_an_environment_that_has_what_its_profile_has(profile: str, named: str) -> None:
    lost = replace(EXPERIMENT, worker="a_module_that_is_not_there")
    with pytest.raises(LabError) as refused:
        preparing.import_torch(lost, lambda text: None, profile)
    wanted, found, _ = said(refused)
    assert wanted == f"the environment of {profile}, with {named}"
    assert found == "No module named 'a_module_that_is_not_there'"


# Records


def test_every_kind_of_this_checkout_is_sound_and_found_by_its_word() -> None:
    assert "training_step" in kinds.words()
    for word in kinds.words():
        assert kinds.find(word).word == word


def test_a_record_of_a_kind_this_checkout_lacks_is_said_to_be_unchecked(record: Record) -> None:
    with pytest.raises(LabError) as refused:
        kinds.find(record.identity.kind)
    assert said(refused)[1:] == ("'adding'", "identity.kind")
    found = kind_check.check(record)
    assert (found.status, found.found) == ("warning", "not checked: 'adding'")
    assert found.repair == "update this checkout: git pull"


def test_a_record_in_its_kinds_words_is_ok_and_one_with_a_foreign_word_is_not() -> None:
    record = cpu_record()
    assert kind_check.check(record).status == "ok"
    first, *rest = record.candidates
    for candidate, word in (
        (replace(first, marks=("out_of_tune",)), "mark out_of_tune"),
        (replace(first, checks=replace(first.checks, wanted=(*first.checks.wanted, "sum"))), "gate sum"),
    ):
        edited = replace(record, candidates=(candidate, *rest))
        found = kind_check.check(edited)
        assert (found.status, found.found) == ("blocked", f"not its own: {word}")
        with pytest.raises(LabError) as refused:
            TRAINING_STEP.words.refuse_foreign(edited)
        assert said(refused)[1] == word
    other = replace(record, quantities=record.quantities[1:])
    assert kind_check.check(other).found.startswith("not its own: quantity step_ms of training_step is missing")


def test_a_record_that_wants_fewer_gates_than_its_kind_is_not_ok() -> None:
    record = record_of(lambda name, size: 0.4 + 1e-5 * size)
    assert kind_check.check(record).status == "ok"
    eased = tuple(
        replace(one, checks=replace(one.checks, wanted=("finite",), gates={})) if one.role == "baseline_again" else one
        for one in record.candidates
    )
    found = kind_check.check(replace(record, candidates=eased))
    assert (found.status, found.found) == (
        "blocked",
        "not its own: gate sums is not wanted of all_reduce (again) (and 1 more)",
    )


def test_a_record_says_the_launch_that_its_workload_takes() -> None:
    record = record_of(lambda name, size: 0.4 + 1e-5 * size)
    wider = replace(record, identity=replace(record.identity, launch=Launch(type="ranks", ranks=64)))
    found = kind_check.check(wider)
    assert (found.status, found.found) == ("blocked", "not its own: launch ranks of 64, where small takes ranks of 2")


def test_a_record_of_another_kind_than_its_experiment_is_not_ok() -> None:
    record = record_of(lambda name, size: 0.4 + 1e-5 * size)
    posed = replace(record, identity=replace(record.identity, experiment="int8_weight_product"))
    found = kind_check.check(posed)
    assert (found.status, found.found) == ("blocked", "int8_weight_product is an experiment of operator")
    other = kind_check.check(replace(record, identity=replace(record.identity, kind="serving")))
    assert (other.status, other.found) == ("blocked", "all_reduce_cost is an experiment of collective")


# The command line


@pytest.mark.parametrize("more", [(), ("--ranks", "3")])
def test_a_workload_of_another_kind_is_refused_before_its_options_are_read(more: tuple[str, ...]) -> None:
    experiment = replace(ALL_REDUCE, workloads={"op": INT8.workloads["smoke"]})
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload")
    run_options.add_options(parser)
    run_options.add_options_of_kinds(parser, ("all_reduce_cost",))
    with pytest.raises(LabError) as refused:
        run_options.workload_of(experiment, parser.parse_args(["--workload", "op", *more]))
    assert said(refused) == (
        "a workload of kind collective: CollectiveWorkload",
        "OperatorWorkload",
        "all_reduce_cost, workload smoke",
    )


def options(*argv: str, several: bool = False, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """`argv` parsed with the options of the toy kind, and with several also of training_step."""
    known = (TRAINING_STEP, KIND) if several else (KIND,)
    monkeypatch.setattr(kinds, "measured", lambda: (TRAINING_STEP, KIND))
    monkeypatch.setattr(run_options, "_kinds_of", lambda argv: list(known))
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload")
    run_options.add_options(parser)
    run_options.add_options_of_kinds(parser, argv)
    return parser.parse_args(list(argv))


def test_an_option_of_a_kind_changes_its_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    args = options("--numbers", "9", "--rounds", "1", monkeypatch=monkeypatch)
    workload, registered = run_options.workload_of(EXPERIMENT, args)
    assert registered == toy_kind.SMOKE
    assert workload == replace(registered, numbers=9, rounds=1)


def test_an_option_of_another_kind_is_refused_of_the_experiment_that_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    args = options("--numbers", "9", several=True, monkeypatch=monkeypatch)
    assert run_options.workload_of(EXPERIMENT, args)[0].numbers == 9
    with pytest.raises(LabError) as refused:
        run_options.workload_of(ACCUMULATION, args)
    wanted, found, where = said(refused)
    assert wanted == "options of training_step, the kind of gradient_accumulation"
    assert (found, where) == ("--numbers, which it does not have", "--numbers")


def test_an_option_that_two_kinds_share_is_judged_by_each(monkeypatch: pytest.MonkeyPatch) -> None:
    args = options("--precision", "bf16", several=True, monkeypatch=monkeypatch)
    assert run_options.workload_of(ACCUMULATION, args)[0].precision == "bf16"
    with pytest.raises(LabError) as refused:
        run_options.workload_of(EXPERIMENT, args)
    assert said(refused)[:2] == ("one of int32, int64", "--precision 'bf16'")

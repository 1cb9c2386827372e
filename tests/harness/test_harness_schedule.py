"""The order of a run: everything is in it once, the baseline twice, and the order is random but written down."""

from __future__ import annotations

from experiments.harness.experiment import CandidateSpec
from experiments.harness.preparing import with_twin
from experiments.harness.schedule import Task, tasks
from experiments.kinds.training_step.heads import with_heads
from experiments.kinds.training_step.kind import ORACLE_SPEC
from experiments.kinds.training_step.training_workload import TrainingWorkload

SPECS = with_twin(
    (
        CandidateSpec(name="bf16", role="candidate", settings={}),
        CandidateSpec(name="fp32", role="baseline", settings={}),
        CandidateSpec(name="fp16", role="candidate", settings={}, probes=("injected_inf",)),
        CandidateSpec(name="tf32", role="candidate", settings={}, unavailable="no such card"),
    )
)


def order(seed: int, rounds: int = 6) -> list[tuple[str, ...]]:
    found = tasks(SPECS, (ORACLE_SPEC,), rounds=rounds, seed=seed, calibrate=True)
    measured = [task for task in found if task.kind == "measure"]
    return [tuple(task.candidate for task in measured if task.round == number) for number in range(rounds)]


def test_every_round_has_every_candidate_once_and_the_baseline_twice() -> None:
    for names in order(seed=1):
        assert sorted(names) == ["bf16", "fp16", "fp32", "fp32 (again)"]


def test_rounds_are_shuffled_and_the_same_seed_gives_the_same_order() -> None:
    assert order(seed=1) == order(seed=1)
    assert order(seed=1) != order(seed=2)
    assert len(set(order(seed=1))) > 1


def test_gates_come_before_any_timing_and_the_baseline_before_the_others() -> None:
    found = tasks(SPECS, (ORACLE_SPEC,), rounds=2, seed=3, calibrate=True)
    kinds = [task.kind for task in found]
    assert kinds[0] == "reference"
    assert [task.candidate for task in found if task.kind == "gate"] == ["fp32", "fp32 (again)", "bf16", "fp16"]
    first_timing = kinds.index("measure")
    assert "gate" not in kinds[first_timing:]
    assert kinds.index("calibration") < first_timing
    assert Task(kind="probe", candidate="fp16", probe="injected_inf") in found


def test_ids_are_unique() -> None:
    ids = [task.id for task in tasks(SPECS, (ORACLE_SPEC,), rounds=3, seed=0, calibrate=True)]
    assert len(ids) == len(set(ids))


def test_what_cannot_run_here_is_not_scheduled() -> None:
    assert not any(task.candidate == "tf32" for task in tasks(SPECS, (), rounds=2, seed=0, calibrate=False))


def test_both_heads_double_the_candidates_but_not_the_baseline() -> None:
    workload = TrainingWorkload(
        name="w", model="tiny-qwen2", batch=1, sequence=8, steps=1, warmup=0, rounds=1, head="both"
    )
    specs = with_heads(SPECS, workload)
    assert [spec.name for spec in specs if spec.role == "baseline"] == ["fp32"]
    assert {spec.name for spec in specs if spec.settings["head"] == "chunked"} == {
        "fp32, chunked head",
        "bf16, chunked head",
        "fp16, chunked head",
        "tf32, chunked head",
    }
    assert [spec.role for spec in specs if spec.name == "fp32, chunked head"] == ["candidate"]

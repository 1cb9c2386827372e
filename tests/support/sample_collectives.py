"""Plans of the all-reduce experiment, its jobs for real ranks, and answers of ranks made from a few numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.evidence.codec import to_json
from experiments.evidence.record import Record
from experiments.evidence.rules import graded
from experiments.evidence.runtime_snapshot import collect
from experiments.evidence.subject import ProfileFacts, Source
from experiments.harness import recording
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Options
from experiments.harness.launch.outcome import Outcome
from experiments.harness.plan import Plan
from experiments.harness.preparing import with_twin
from experiments.harness.schedule import Task
from experiments.harness.tasks import Job
from experiments.kinds.collective.answers import CollectiveGateAnswer, CollectiveMeasureAnswer, SizeChecked
from experiments.kinds.collective.collective_workload import CollectiveWorkload
from experiments.parallelism.all_reduce_cost.experiment import EXPERIMENT
from tools.environments.model import Check, Report

DIGEST = "sha256:" + "0" * 64
CPU = DeviceFacts(kind="cpu", torch="2.13.0+cpu", bf16_native=True, tf32=False)
SMALL = CollectiveWorkload(
    name="small", sizes=(256, 1024, 4096, 16384), unseen=8192, steps=3, warmup=1, rounds=2, ranks=2
)
Ms = Callable[[str, int], float]  # candidate, size -> milliseconds


def plan_of(workload: CollectiveWorkload = SMALL, device: DeviceFacts = CPU) -> Plan[CollectiveWorkload]:
    """The plan of a run on a CPU, or on cards."""
    report = Report(profile="BASE-CPU", registry_digest=DIGEST, checks=(Check("host.python", "ok", "3.11", "3.11"),))
    return Plan(
        kind="collective",
        experiment=EXPERIMENT.name,
        label="sample",
        mode="cpu_mechanism" if device.kind == "cpu" else "real_gpu",
        created_at="2026-12-01T10:00:00Z",
        profile=ProfileFacts(id="BASE-CPU", registry_digest=DIGEST, requirement_digest=DIGEST, preflight=report),
        source=Source(digest=DIGEST, scope=("experiments",), files=1),
        workload=workload,
        registered_digest=None,
        subject={},
        device=device,
        options=Options(),
        references=(),
        specs=with_twin(EXPERIMENT.candidates(workload, device, Options())),
        threads=1,
        order_seed=7,
    )


def job_of(name: str, kind: str, workload: CollectiveWorkload = SMALL, worker: str = EXPERIMENT.worker) -> Job:
    """A gate or a measuring of one candidate, ready for ranks. An unknown name is a candidate of that worker's own."""
    plan = plan_of(workload)
    if name not in {spec.name for spec in plan.specs}:
        plan = replace(plan, specs=(CandidateSpec(name=name, role="candidate", settings={"form": name}),))
    task = Task(kind="gate", candidate=name) if kind == "gate" else Task(kind="measure", candidate=name, round=0)
    return Job(task=task, plan=plan, subject=None, scratch=Path(), child=EXPERIMENT.kind.child, worker=worker)


def checked(size: int, **changes: Any) -> SizeChecked:
    """A size at which everything holds, but for the changes."""
    right = SizeChecked(
        size=size, elements=size // 4, wrong=0, error=0.0, first_wrong=None, finite=True, miscounted=(), count_error=0.0
    )
    return replace(right, **changes)


def gate_answer(rank: int, workload: CollectiveWorkload = SMALL, **changes: Any) -> CollectiveGateAnswer:
    """A rank's gate at every size; the changes are at the largest."""
    last = workload.timed[-1]
    sizes = tuple(checked(size, **(changes if size == last else {})) for size in workload.timed)
    return CollectiveGateAnswer(rank=rank, process_group="gloo", sizes=sizes)


def measure_answer(
    rank: int, ms: Callable[[int], float], workload: CollectiveWorkload, **changes: Any
) -> CollectiveMeasureAnswer:
    """A rank's timed collectives, each repetition alike."""
    spans = {str(size): (ms(size),) * workload.steps for size in workload.timed}
    return replace(CollectiveMeasureAnswer(rank=rank, ms=spans, wrong={}, not_finite={}), **changes)


def outcomes(
    plan: Plan[CollectiveWorkload], ms: Ms, gates: Mapping[str, Mapping[int, CollectiveGateAnswer]]
) -> dict[str, Outcome]:
    """What every task came back with: gates hold but for those given by candidate and rank; no rank is slower."""
    found, workload = {}, plan.workload
    for task in plan.tasks():
        if task.kind == "calibration":
            continue
        if task.kind == "gate":
            given = gates.get(task.candidate, {})
            answers: list[Any] = [given.get(rank, gate_answer(rank, workload)) for rank in range(workload.ranks)]
        else:
            name = task.candidate
            answers = [
                measure_answer(rank, lambda size, name=name: ms(name, size), workload)  # type: ignore[misc]
                for rank in range(workload.ranks)
            ]
        first, *others = (to_json(answer) for answer in answers)
        found[task.id] = Outcome("ok", first, None, 0.1, tuple(others))
    return found


def wrong_controls(workload: CollectiveWorkload = SMALL) -> dict[str, dict[int, CollectiveGateAnswer]]:
    """What both controls come back with where they are caught."""
    off = gate_answer(0, workload, wrong=4, error=0.1, first_wrong=0, miscounted=(1,), count_error=0.1)
    names = [spec.name for spec in EXPERIMENT.candidates(workload, CPU, Options()) if spec.role == "control"]
    return {name: {0: off} for name in names}


def record_of(
    ms: Ms,
    workload: CollectiveWorkload = SMALL,
    device: DeviceFacts = CPU,
    gates: Mapping[str, Mapping[int, CollectiveGateAnswer]] | None = None,
) -> Record:
    """The graded record of a run whose collectives took `ms`."""
    plan = plan_of(workload, device)
    answers = outcomes(plan, ms, {**wrong_controls(workload), **(gates or {})})
    return graded(recording.record(EXPERIMENT, plan, None, answers, collect(), resumed=0, duration_s=1.0))

"""Which code a task runs in its child. Imports torch; the parent imports it once and calls nothing in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.evidence.vocabulary import JsonValue
from experiments.harness.device import calibration
from experiments.harness.experiment import CandidateSpec
from experiments.harness.plan import Plan
from experiments.harness.schedule import ORACLE, Task
from experiments.kinds.training_step import gating, measuring, worker
from experiments.kinds.training_step.program import EnterPhase
from experiments.kinds.training_step.worker import WorkerContext
from experiments.models.source_types import ModelAsset

ORACLE_SPEC = CandidateSpec(name=ORACLE, role="candidate", settings={}, dtype="float64")


@dataclass(frozen=True, slots=True)
class Job:
    """One task, ready to be run in a child."""

    task: Task
    plan: Plan
    asset: ModelAsset
    scratch: Path
    module: str

    def __call__(self, enter: EnterPhase) -> Mapping[str, JsonValue]:
        """Do it. Whatever goes wrong is raised: the fork turns it into an outcome."""
        task, plan = self.task, self.plan
        enter("load")
        own = task.kind in ("gate", "measure", "probe")
        context = WorkerContext(
            workload=plan.workload,
            spec=plan.spec(task.candidate) if own else ORACLE_SPEC,
            facts=plan.device,
            asset=self.asset,
            cap_gib=plan.options.cap_gib,
            threads=plan.threads,
            peer_path=None if plan.options.peer_path is None else Path(plan.options.peer_path),
        )
        context.prepare()
        if task.kind == "calibration":
            return calibration.calibrate(plan.device, context.allowed_bytes())
        if task.kind == "oracle":
            return gating.oracle(context, self.scratch, enter)
        if task.kind == "probe":
            return worker.probe(self.module, task.probe or "")(context)
        program = worker.builder(self.module)(context)
        if task.kind == "gate":
            return gating.gate(context, program, self.scratch, enter)
        return measuring.measure(plan.workload, context.device, program, enter)

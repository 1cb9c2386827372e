"""What a training step runs in forked children: the float64 twin, the gates, the timed steps. Imports torch."""

from __future__ import annotations

from experiments.harness.child_side import ChildSide
from experiments.harness.launch.outcome import EnterPhase
from experiments.harness.task_context import common
from experiments.harness.tasks import Job
from experiments.kinds.training_step import gating, measuring, worker
from experiments.kinds.training_step.answers import GateAnswer, MeasureAnswer, ReferenceAnswer
from experiments.kinds.training_step.worker import WorkerContext


class TrainingStepChild(ChildSide[WorkerContext, GateAnswer, MeasureAnswer]):
    """Each task builds its candidate by the experiment's own worker module."""

    def context(self, job: Job) -> WorkerContext:
        """The candidate with its model."""
        return WorkerContext(asset=job.subject.asset, **common(job))

    def reference(self, context: WorkerContext, job: Job, enter: EnterPhase) -> ReferenceAnswer:
        """The float64 twin's gradients."""
        return gating.oracle(context, job.scratch, enter)

    def gate(self, context: WorkerContext, job: Job, enter: EnterPhase) -> GateAnswer:
        """Gradients and update of the first step, against the references."""
        return gating.gate(context, worker.builder(job.worker)(context), job.scratch, enter)

    def measure(self, context: WorkerContext, job: Job, enter: EnterPhase) -> MeasureAnswer:
        """The timed steps."""
        return measuring.measure(context.workload, context.device, worker.builder(job.worker)(context), enter)


CHILD = TrainingStepChild()

"""What an operator runs in forked children: the float64 output, the gates, the timed calls. Imports torch."""

from __future__ import annotations

from experiments.harness.child_side import ChildSide
from experiments.harness.launch.outcome import EnterPhase
from experiments.harness.task_context import common
from experiments.harness.tasks import Job
from experiments.kinds.operator import call_timing, output_gates
from experiments.kinds.operator.answers import ExactAnswer, OperatorGateAnswer, OperatorMeasureAnswer
from experiments.kinds.operator.operation import OperatorContext, builder, exact_of


class OperatorChild(ChildSide[OperatorContext, OperatorGateAnswer, OperatorMeasureAnswer]):
    """Each task builds its candidate by the experiment's own worker module."""

    def context(self, job: Job) -> OperatorContext:
        """The candidate with its shapes."""
        return OperatorContext(**common(job))

    def reference(self, context: OperatorContext, job: Job, enter: EnterPhase) -> ExactAnswer:
        """The float64 output."""
        enter("call")
        found = exact_of(job.worker)(context)
        enter("other")
        return output_gates.exact(found, context, job.scratch)

    def gate(self, context: OperatorContext, job: Job, enter: EnterPhase) -> OperatorGateAnswer:
        """The output of one call, against the references, and the work it took."""
        return output_gates.gate(context, builder(job.worker)(context), job.scratch, enter)

    def measure(self, context: OperatorContext, job: Job, enter: EnterPhase) -> OperatorMeasureAnswer:
        """The timed calls."""
        return call_timing.measure(context.workload, context.device, builder(job.worker)(context), enter)


CHILD = OperatorChild()

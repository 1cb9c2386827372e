"""What a collective runs in each rank: the gates at every size, then the timed collectives. Imports torch."""

from __future__ import annotations

import torch.distributed as dist

from experiments.harness.child_side import ChildSide
from experiments.harness.launch.outcome import EnterPhase
from experiments.harness.task_context import common
from experiments.harness.tasks import Job
from experiments.kinds.collective import measuring
from experiments.kinds.collective.answers import CollectiveGateAnswer, CollectiveMeasureAnswer
from experiments.kinds.collective.exchange import CollectiveContext, Exchange, builder


class CollectiveChild(ChildSide[CollectiveContext, CollectiveGateAnswer, CollectiveMeasureAnswer]):
    """Each task builds its candidate by the experiment's own worker module; the launch has joined the ranks."""

    def context(self, job: Job) -> CollectiveContext:
        """This rank's place, workload and candidate."""
        return CollectiveContext(**common(job))

    def gate(self, context: CollectiveContext, job: Job, enter: EnterPhase) -> CollectiveGateAnswer:
        """Sums and counts at each size, once."""
        exchange = Exchange(context, builder(job.worker)(context))
        enter("exchange")
        checked = tuple(exchange.checked(size) for size in context.workload.timed)
        return CollectiveGateAnswer(rank=context.rank, process_group=_backend(exchange.device.type), sizes=checked)

    def measure(self, context: CollectiveContext, job: Job, enter: EnterPhase) -> CollectiveMeasureAnswer:
        """The timed collectives."""
        exchange = Exchange(context, builder(job.worker)(context))
        return measuring.measure(context, exchange, job.task.round or 0, enter)


def _backend(device: str) -> str:
    """Which library carries tensors of a device: gloo, nccl. The default group may have one for each device."""
    pairs = dict(part.split(":") for part in dist.get_backend_config().split(","))
    return pairs[device]


CHILD = CollectiveChild()

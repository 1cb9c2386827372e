"""The timed collectives of one rank: every size in each repetition, in an order that is drawn anew. Imports torch.

All ranks draw the same order. A barrier comes before each collective, so that nobody times another's lateness; what a
rank still waits inside counts, for a collective is over when the last rank has it: the parent takes the slowest. The
tensor is filled before the barrier and compared after the clock, in every repetition.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import torch
import torch.distributed as dist

from experiments.harness.launch.outcome import EnterPhase
from experiments.kinds.collective.answers import CollectiveMeasureAnswer
from experiments.kinds.collective.collective_workload import CollectiveWorkload
from experiments.kinds.collective.exchange import CollectiveContext, Exchange


def measure(context: CollectiveContext, exchange: Exchange, round: int, enter: EnterPhase) -> CollectiveMeasureAnswer:
    """Warm up, then the workload's repetitions."""
    workload = context.workload
    ms: dict[int, list[float]] = {size: [] for size in workload.timed}
    wrong: Counter[int] = Counter()
    not_finite: Counter[int] = Counter()
    enter("warm_up")
    for number, order in enumerate(orders(workload, round)):
        if number == workload.warmup:
            enter("exchange")
        for size in order:
            spent, result = _timed(context, exchange, size)
            wrong[size] += not exchange.is_exact(result)
            not_finite[size] += not bool(torch.isfinite(result).all())
            if number >= workload.warmup:
                ms[size].append(spent)
    enter("other")
    return CollectiveMeasureAnswer(
        rank=context.rank,
        ms={str(size): tuple(spans) for size, spans in ms.items()},
        wrong={str(size): count for size, count in wrong.items() if count},
        not_finite={str(size): count for size, count in not_finite.items() if count},
    )


def orders(workload: CollectiveWorkload, round: int) -> Iterator[list[int]]:
    """The sizes of each repetition in their order, warm-up first: the same on every rank, another in each round."""
    draw = random.Random(f"{workload.seed}/{round}")
    for _ in range(workload.warmup + workload.steps):
        yield draw.sample(workload.timed, len(workload.timed))


def _timed(context: CollectiveContext, exchange: Exchange, size: int) -> tuple[float, torch.Tensor]:
    """Milliseconds of one collective on this rank, and what it left."""
    device = context.device
    tensor = exchange.filled(size)
    device.synchronise()
    dist.barrier()
    watch = device.stopwatch()
    watch.mark()
    exchange.collective(tensor)
    watch.mark()
    device.synchronise()
    (spent,) = watch.spans_ms()
    return spent, tensor

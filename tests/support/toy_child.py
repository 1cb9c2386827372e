"""What the toy kind runs in its ranks."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
import torch.distributed as dist
from toy_kind import AddingWorkload, Sum, Timed

from experiments.harness.child_side import ChildSide
from experiments.harness.launch.outcome import EnterPhase
from experiments.harness.task_context import TaskContext, common
from experiments.harness.tasks import Job

PROBES: dict[str, Any] = {}


class AddingChild(ChildSide[TaskContext[AddingWorkload], Sum, Timed]):
    """Integers times ten to the rank, summed over the ranks."""

    def context(self, job: Job) -> TaskContext[AddingWorkload]:
        """What every kind has."""
        return TaskContext(**common(job))

    def gate(self, context: TaskContext[AddingWorkload], job: Job, enter: EnterPhase) -> Sum:
        """One sum."""
        enter("add")
        return Sum(rank=context.rank, found=tuple(self._add(context).tolist()))

    def measure(self, context: TaskContext[AddingWorkload], job: Job, enter: EnterPhase) -> Timed:
        """Timed sums; the candidate that dies does so here."""
        enter("add")
        if context.rank == 1 and context.spec.settings.get("rank 1") == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        spans = []
        for _ in range(context.workload.warmup + context.workload.steps):
            began = time.perf_counter()
            self._add(context)
            spans.append((time.perf_counter() - began) * 1e3)
        return Timed(tuple(spans[context.workload.warmup :]))

    def _add(self, context: TaskContext[AddingWorkload]) -> torch.Tensor:
        values = torch.arange(context.workload.numbers, dtype=torch.int64) * 10**context.rank
        dist.all_reduce(values)
        return values


CHILD = AddingChild()

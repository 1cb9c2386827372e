"""All-reduces that go wrong on rank 1, by the candidate's `form`: a worker module for tests of what becomes of it."""

from __future__ import annotations

import os
import signal
import time

import torch.distributed as dist
from torch import Tensor

from experiments.kinds.collective.exchange import Collective, CollectiveContext

PROBES: dict[str, object] = {}


def build(context: CollectiveContext) -> Collective:
    """The library's all-reduce on every rank but 1."""
    form = context.spec.settings["form"]

    def collective(tensor: Tensor) -> None:
        if context.rank == 1:
            if form == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if form == "hangs":
                time.sleep(600)
            if form == "raises":
                raise ValueError("rank one's own fault")
        if form == "left out":
            tensor.copy_(_without_one(tensor, context.rank))
        elif form == "infinite":
            tensor.fill_(float("inf"))
        else:
            dist.all_reduce(tensor)

    return collective


def _without_one(tensor: Tensor, rank: int) -> Tensor:
    """The sum of the other ranks alone."""
    mine = tensor if rank != 1 else tensor * 0
    dist.all_reduce(mine)
    return mine

"""Builds the all-reduce of a candidate on one rank, in the process that measures it."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor

from experiments.kinds.collective.exchange import Collective, CollectiveContext


# Change: what a candidate does. The ranks have met already; the tensor is to become the sum over them, in place.
def build(context: CollectiveContext) -> Collective:
    """The candidate's all-reduce, on the default group."""
    settings = context.spec.settings
    pieces, left_out = int(str(settings["pieces"])), int(str(settings["left_out"]))

    def in_pieces(tensor: Tensor) -> None:
        for piece in tensor.chunk(pieces)[: pieces - left_out]:
            dist.all_reduce(piece)

    return in_pieces

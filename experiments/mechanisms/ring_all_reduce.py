"""All-reduce in a ring, by hand: each rank talks to its two neighbours alone, and every link carries the same.

The tensor is cut into as many chunks as there are ranks, and goes round twice, n - 1 steps each time:

    reduce-scatter   each rank sends a chunk to its right and adds what comes from its left; after n - 1 steps it holds
                     the whole sum of one chunk
    all-gather       the whole sums go round the same way, and replace what was there

Each rank sends 2 (n - 1) / n of the tensor, which is the least that any all-reduce can do. Source: P. Patarasuk and
X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, J. Parallel Distrib. Comput. 69 (2009).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

Add = Callable[[Tensor, Tensor, int], None]  # (own chunk, what came from the left, step): adds in place


def added(own: Tensor, received: Tensor, step: int) -> None:
    """The addition of a reduce step."""
    own.add_(received)


def ring_all_reduce(tensor: Tensor, add: Add = added) -> None:
    """Replace `tensor` by the sum over all ranks of the default group, in place.

    It is contiguous, of the same shape and dtype on every rank, with at least one element per rank. Another `add` is
    for showing what happens when a step goes wrong.
    """
    ranks, rank = dist.get_world_size(), dist.get_rank()
    chunks = tensor.view(-1).tensor_split(ranks)
    buffer = torch.empty_like(chunks[0])  # the first chunk is the largest
    for step in range(ranks - 1):
        give, take = (rank - step) % ranks, (rank - step - 1) % ranks
        received = buffer[: chunks[take].numel()]
        _exchange(chunks[give], received, rank, ranks)
        add(chunks[take], received, step)
    for step in range(ranks - 1):
        give, take = (rank - step + 1) % ranks, (rank - step) % ranks
        _exchange(chunks[give], chunks[take], rank, ranks)


def _exchange(give: Tensor, take: Tensor, rank: int, ranks: int) -> None:
    """Send to the right while receiving from the left: one after the other, a ring would wait for itself."""
    moves = [dist.P2POp(dist.isend, give, (rank + 1) % ranks), dist.P2POp(dist.irecv, take, (rank - 1) % ranks)]
    for work in dist.batch_isend_irecv(moves):
        work.wait()

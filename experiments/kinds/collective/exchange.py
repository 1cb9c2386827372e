"""One collective on one rank, ready to be repeated at any size, and the comparison of what it leaves. Imports torch.

What a rank contributes to an element depends on the element's place alone, so smaller sizes are the beginnings of one
tensor of the largest: contribution, result and exact sum are held once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor

from experiments.harness.finiteness import finite_or_none
from experiments.harness.task_context import TaskContext
from experiments.kinds.collective import rank_integers
from experiments.kinds.collective.answers import SizeChecked
from experiments.kinds.collective.collective_workload import CollectiveWorkload

Collective = Callable[[Tensor], None]  # replaces a tensor by its sum over the ranks of the default group, in place


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveContext(TaskContext[CollectiveWorkload]):
    """One candidate on one rank: nothing besides what every child has."""


def builder(module: str) -> Callable[[CollectiveContext], Collective]:
    """The `build` of an experiment's worker module."""
    build: Callable[[CollectiveContext], Collective] = import_module(module).build
    return build


class Exchange:
    """A rank's part in a collective, and what has to come of it. Every rank makes its own from the same workload."""

    def __init__(self, context: CollectiveContext, collective: Collective) -> None:
        workload, self.rank, self.ranks = context.workload, context.rank, context.ranks
        self.collective = collective
        self.device = context.device.torch_device
        self.dtype: torch.dtype = getattr(torch, workload.dtype)
        self._item_bytes = workload.item_bytes
        largest = self.elements(workload.timed[-1])
        self._mine = rank_integers.values(self.rank, self.ranks, largest, self.dtype, self.device)
        self._exact = rank_integers.sums(self.ranks, largest, self.dtype, self.device)
        self._buffer = torch.empty_like(self._mine)

    def elements(self, size: int) -> int:
        """How many elements are `size` bytes."""
        return size // self._item_bytes

    def filled(self, size: int) -> Tensor:
        """(elements,) what this rank contributes, in the tensor that the collective will work on."""
        elements = self.elements(size)
        return self._buffer[:elements].copy_(self._mine[:elements])

    def is_exact(self, result: Tensor) -> bool:
        """Whether every element is the exact sum. NaN is not."""
        return torch.equal(result, self._exact[: result.numel()])

    def checked(self, size: int) -> SizeChecked:
        """The collective at one size, twice: once with values that make a wrong sum show, once with tallies."""
        result = self.filled(size)
        self.collective(result)
        exact = self._exact[: result.numel()]
        off = (result != exact).nonzero()  # NaN differs from everything
        finite = bool(torch.isfinite(result).all())
        error = _relative(result, exact) if finite else None
        miscounted, count_error = self._counted(result.numel())
        return SizeChecked(
            size=size,
            elements=result.numel(),
            wrong=off.numel(),
            error=error,
            first_wrong=int(off[0]) if off.numel() else None,
            finite=finite,
            miscounted=miscounted,
            count_error=count_error,
        )

    def _counted(self, elements: int) -> tuple[tuple[int, ...], float | None]:
        """Ranks that were not added exactly once in each of their elements, and the relative error of the counts."""
        counts = rank_integers.tallies(self.rank, self.ranks, elements, self.dtype, self.device)
        self.collective(counts)
        wrong = (counts != 1).nonzero().view(-1) % self.ranks
        return tuple(sorted(set(wrong.tolist()))), _relative(counts, torch.ones_like(counts))


def _relative(found: Tensor, exact: Tensor) -> float | None:
    """||found - exact|| / ||exact||, summed in float64; None where it is not finite."""
    apart = torch.linalg.vector_norm(found.double() - exact.double())
    return finite_or_none(float(apart / torch.linalg.vector_norm(exact.double())))

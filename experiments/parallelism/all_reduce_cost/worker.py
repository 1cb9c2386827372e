"""Builds an all-reduce in the candidate's way: the library's, or the ring by hand, whole or with a fault in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch.distributed as dist
from torch import Tensor

from experiments.evidence.vocabulary import JsonValue
from experiments.kinds.collective.exchange import Collective, CollectiveContext
from experiments.mechanisms.ring_all_reduce import added, ring_all_reduce

PROBES: dict[str, Callable[[CollectiveContext], Mapping[str, JsonValue]]] = {}
FAULTY_RANK = 0  # one rank that goes wrong spoils one chunk, on all of them


def build(context: CollectiveContext) -> Collective:
    """The all-reduce of a candidate, on the default group."""
    settings = context.spec.settings
    if settings["form"] == "library":
        return _library
    last = context.ranks - 2  # the step that makes a chunk whole
    faults = {"none": added, "chunk_forgotten": _forgetful(last), "rank_twice": _twice(last)}
    add = faults[str(settings["fault"])] if context.rank == FAULTY_RANK else added
    return lambda tensor: ring_all_reduce(tensor, add)


def _library(tensor: Tensor) -> None:
    dist.all_reduce(tensor)


def _forgetful(last: int) -> Callable[[Tensor, Tensor, int], None]:
    """At its last step it takes a chunk and does not add it: this chunk lacks every other rank."""

    def add(own: Tensor, received: Tensor, step: int) -> None:
        if step != last:
            added(own, received, step)

    return add


def _twice(last: int) -> Callable[[Tensor, Tensor, int], None]:
    """At its last step it adds a chunk twice: the other ranks count double in it."""

    def add(own: Tensor, received: Tensor, step: int) -> None:
        for _ in range(2 if step == last else 1):
            added(own, received, step)

    return add

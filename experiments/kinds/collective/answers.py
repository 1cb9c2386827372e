"""What the ranks of a collective answer with, as values that both sides of the fork know. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeChecked:
    """One collective at one size, on one rank, compared in every element with what it has to be."""

    size: int  # bytes
    elements: int
    wrong: int  # elements whose sum is not exact
    error: float | None  # relative L2 error of the sums; None where one is not finite
    first_wrong: int | None  # index of the first of them
    finite: bool
    miscounted: tuple[int, ...]  # ranks that were not counted exactly once in each of their elements
    count_error: float | None  # relative L2 error of the counts, which are all one


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveGateAnswer:
    """Every size once, on one rank."""

    rank: int
    process_group: str  # gloo, nccl
    sizes: tuple[SizeChecked, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveMeasureAnswer:
    """The timed collectives of one rank. Sizes are keys, as text: JSON has no others."""

    rank: int
    ms: Mapping[str, tuple[float, ...]]  # by size, one for each repetition
    wrong: Mapping[str, int]  # by size: repetitions that did not end in the exact sum; empty where all did
    not_finite: Mapping[str, int]  # by size: those with a sum that is no finite number

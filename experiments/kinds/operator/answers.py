"""What the children of an operator answer with, as values that both sides of the fork know. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDistance:
    """How far one output is from a reference: relative L2 over all entries; None where it could not be formed."""

    error: float | None
    worst_channel: int  # the output channel with the largest error


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactAnswer:
    """The float64 output was written to the disk."""

    cancelled: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorGateAnswer:
    """One call, compared and counted. A comparison that was not made is None."""

    finite: bool
    value: OutputDistance | None  # from the float64 output
    dense: OutputDistance | None  # from the baseline's output
    cancelled: float | None  # size of the terms over size of the float64 output: far above 1 where they cancelled out
    work: Mapping[str, int]  # counted while it ran


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorMeasureAnswer:
    """The timed calls of one process, in their order, and its memory in bytes. What was not read is None."""

    call_ms: tuple[float, ...]
    wall_ms: tuple[float, ...]
    busy_ms: float | None  # of one more call under the profiler
    peak_allocated: int | None
    peak_reserved: int | None
    process: int | None
    finite: bool  # the output of one more call, which is counted
    work: Mapping[str, int]

"""The device door: memory, clocks of time, synchronising, and the cap, the same words for a card and for the CPU.

Used in forked children only. On the CPU nothing is known of allocated memory, so those answers are None, never 0.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from experiments.harness.device import nvml
from experiments.harness.experiment import DeviceKind

GIB = 2**30
CONTEXT_GIB = 0.6  # what a CUDA context takes where it could not be measured


class Stopwatch(Protocol):
    """Marks points in a stream of work; the spans are read once, when everything has run."""

    def mark(self) -> None:
        """A point in time, in the order in which the device reaches it."""

    def spans_ms(self) -> list[float]:
        """Milliseconds between neighbouring marks. Waits for the device."""


@dataclass(slots=True)
class HostStopwatch:
    """A monotonic clock: on the CPU an operation has run when its call returns."""

    marks: list[float] = field(default_factory=list)

    def mark(self) -> None:
        """Read the clock."""
        self.marks.append(time.perf_counter())

    def spans_ms(self) -> list[float]:
        """Milliseconds between neighbouring marks."""
        return [(after - before) * 1e3 for before, after in zip(self.marks, self.marks[1:], strict=False)]


class EventStopwatch:
    """CUDA events on the current stream: time as the card saw it, without stopping it."""

    def __init__(self) -> None:
        self._events: list[torch.cuda.Event] = []

    def mark(self) -> None:
        """Record an event."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._events.append(event)

    def spans_ms(self) -> list[float]:
        """Milliseconds between neighbouring events. Waits for the last one."""
        if self._events:
            self._events[-1].synchronize()
        pairs: Sequence[tuple[torch.cuda.Event, torch.cuda.Event]] = list(
            zip(self._events, self._events[1:], strict=False)
        )
        return [before.elapsed_time(after) for before, after in pairs]


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Bytes since the last reset; None where the device does not tell."""

    peak_allocated: int | None = None
    peak_reserved: int | None = None
    allocated: int | None = None
    process: int | None = None


@dataclass(frozen=True, slots=True)
class ComputeDevice:
    """One device as a child uses it."""

    kind: DeviceKind

    @property
    def torch_device(self) -> torch.device:
        """The device to put tensors on. One card is used, the first visible one."""
        return torch.device("cuda", 0) if self.kind == "cuda" else torch.device("cpu")

    def stopwatch(self) -> Stopwatch:
        """A new stopwatch of the right kind."""
        return EventStopwatch() if self.kind == "cuda" else HostStopwatch()

    def synchronise(self) -> None:
        """Wait until all work has run."""
        if self.kind == "cuda":
            torch.cuda.synchronize()

    def reset_peaks(self) -> None:
        """Begin a new peak: after warm-up, and at the border of a phase."""
        if self.kind == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def memory(self, *, process: bool = False) -> MemoryReading:
        """Allocated and reserved as the allocator counts them, in host order; the process as NVML sees it if asked."""
        if self.kind == "cpu":
            return MemoryReading()
        return MemoryReading(
            peak_allocated=torch.cuda.max_memory_allocated(),
            peak_reserved=torch.cuda.max_memory_reserved(),
            allocated=torch.cuda.memory_allocated(),
            process=nvml.process_bytes() if process else None,
        )

    def limit_memory(self, cap_gib: float | None, context_bytes: int | None) -> None:
        """Make the card behave like one of `cap_gib`, the CUDA context counted in. Raises ValueError below it."""
        if self.kind == "cpu" or cap_gib is None:
            return
        context = CONTEXT_GIB * GIB if context_bytes is None else context_bytes
        total = torch.cuda.get_device_properties(0).total_memory
        allowed = cap_gib * GIB - context
        if allowed <= 0:
            raise ValueError(f"a cap of {cap_gib:g} GiB leaves nothing beside a context of {context / GIB:.2f} GiB")
        torch.cuda.set_per_process_memory_fraction(min(1.0, allowed / total))

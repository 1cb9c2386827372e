"""How long a card was busy: the union of the spans in which a kernel or a copy ran, by the profiler."""

from __future__ import annotations

from collections.abc import Callable

from experiments.harness.device.device import ComputeDevice


def busy_ms(device: ComputeDevice, work: Callable[[], object]) -> float | None:
    """Milliseconds of one more run of `work`; None on CPU, and where the profiler saw nothing.

    Annotations (an optimizer's name over all its kernels) are spans of the device too, gaps and all: left out.
    """
    if device.kind == "cpu":
        return None
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        work()
        device.synchronise()
    events = [event for event in trace.events() or () if str(event.device_type).endswith("CUDA")]
    spans = sorted((e.time_range.start, e.time_range.end) for e in events if not e.is_user_annotation)
    return union_length(spans) / 1e3 if spans else None


def union_length(spans: list[tuple[float, float]]) -> float:
    """Total length covered by spans that may overlap; they must be sorted by their beginning."""
    covered, reached = 0.0, float("-inf")
    for begin, end in spans:
        covered += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return covered

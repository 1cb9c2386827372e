"""The measure task, inside a child: warm up, time the calls, read the peaks, then look closer in calls of their own.

Peaks are reset after the warm-up, so that a first-use workspace is not taken for the operation's own memory.
"""

from __future__ import annotations

import time

import torch

from experiments.harness.device.busy_time import busy_ms
from experiments.harness.device.device import ComputeDevice
from experiments.harness.launch.outcome import EnterPhase
from experiments.kinds.operator.answers import OperatorMeasureAnswer
from experiments.kinds.operator.operation import Operation
from experiments.kinds.operator.operator_workload import OperatorWorkload
from experiments.kinds.operator.work_counter import count


@torch.no_grad()
def measure(
    workload: OperatorWorkload, device: ComputeDevice, operation: Operation, enter: EnterPhase
) -> OperatorMeasureAnswer:
    """Timed calls and memory of one candidate in one fresh process."""
    enter("warm_up")
    for _ in range(workload.warmup):
        operation()
    device.synchronise()
    device.reset_peaks()
    enter("call")
    call_ms: list[float] = []
    wall_ms: list[float] = []
    for _ in range(workload.steps):
        watch, began = device.stopwatch(), time.perf_counter()
        watch.mark()
        operation()  # what it returns is gone before the next call, and is no part of that one's peak
        watch.mark()
        device.synchronise()
        wall_ms.append((time.perf_counter() - began) * 1e3)
        call_ms.extend(watch.spans_ms())
    enter("other")
    memory = device.memory(process=True)
    busy = busy_ms(device, operation)
    out, work = count(operation)
    return OperatorMeasureAnswer(
        call_ms=tuple(call_ms),
        wall_ms=tuple(wall_ms),
        busy_ms=busy,
        peak_allocated=memory.peak_allocated,
        peak_reserved=memory.peak_reserved,
        process=memory.process,
        finite=bool(torch.isfinite(out).all()),
        work=work,
    )

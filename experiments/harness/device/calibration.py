"""The two ceilings of a card, measured in the same run: matrix product rate by format, and pinned copies each way.

Floors are computed from these and not from a data sheet. Used in a forked child on a card only.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import torch

from experiments.evidence.record import Calibration
from experiments.harness.experiment import DeviceFacts

REPEATS = 10
SIDE = 8192  # large enough to fill any card; halved until three matrices take an eighth of the memory
COPY_BYTES = 256 * 2**20


def calibrate(facts: DeviceFacts, allowed_bytes: int | None) -> Calibration:
    """Rates: `matmul_tflops` by dtype (1e12 operations a second), `host_to_device_gb_s`, `device_to_host_gb_s`."""
    side = SIDE
    while allowed_bytes is not None and side > 1024 and 3 * 4 * side * side > allowed_bytes / 8:
        side //= 2
    rates: dict[str, float] = {"float32": _matmul_rate(torch.float32, side, "highest")}
    if facts.tf32:
        rates["tf32"] = _matmul_rate(torch.float32, side, "high")
    rates["float16"] = _matmul_rate(torch.float16, side, "highest")
    if facts.bf16_native:
        rates["bfloat16"] = _matmul_rate(torch.bfloat16, side, "highest")
    host = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    card = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    return Calibration(
        matmul_tflops=rates,
        host_to_device_gb_s=_copy_rate(card, host),
        device_to_host_gb_s=_copy_rate(host, card),
    )


def _matmul_rate(dtype: torch.dtype, side: int, precision: str) -> float:
    torch.set_float32_matmul_precision(precision)
    generator = torch.Generator(device="cuda").manual_seed(0)
    # random values: on zeros a card computes faster than it ever will on data
    left, right = (torch.randn(side, side, device="cuda", generator=generator).to(dtype) for _ in range(2))
    out = torch.empty(side, side, device="cuda", dtype=dtype)
    for _ in range(3):
        torch.mm(left, right, out=out)
    spans = _timed(lambda: torch.mm(left, right, out=out))
    torch.set_float32_matmul_precision("highest")
    return 2 * side**3 / (median(spans) * 1e-3) / 1e12


def _copy_rate(target: torch.Tensor, source: torch.Tensor) -> float:
    target.copy_(source, non_blocking=True)
    spans = _timed(lambda: target.copy_(source, non_blocking=True))
    return COPY_BYTES / (median(spans) * 1e-3) / 1e9


def _timed(work: Callable[[], object]) -> list[float]:
    spans = []
    for _ in range(REPEATS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        spans.append(begin.elapsed_time(end))
    return spans

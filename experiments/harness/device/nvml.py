"""Asking NVML about the first visible card. NVML is a courtesy: wherever it does not answer, the answer is None."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def ask(question: Callable[[Any, Any], T]) -> T | None:
    """`question(pynvml, handle)` between init and shutdown. Makes no CUDA context.

    The card is the one torch calls cuda:0: the first of CUDA_VISIBLE_DEVICES, by number or by UUID.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() or "0"
            by_number = first.isdigit()
            find = pynvml.nvmlDeviceGetHandleByIndex if by_number else pynvml.nvmlDeviceGetHandleByUUID
            return question(pynvml, find(int(first) if by_number else first))
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # its many ways to be absent (no library, no driver, no permission) must not end a run
        return None


def used_bytes() -> int | None:
    """Bytes in use on the card, by everybody."""
    return ask(lambda nvml, card: int(nvml.nvmlDeviceGetMemoryInfo(card).used))


def other_processes() -> int | None:
    """How many processes other than this one compute on the card."""
    return ask(lambda nvml, card: sum(e.pid != os.getpid() for e in nvml.nvmlDeviceGetComputeRunningProcesses(card)))


def process_bytes() -> int | None:
    """What this process holds on the card, context included.

    Where process ids are hidden (containers) and exactly one process is on the card, that one is this process.
    """

    def question(nvml: Any, card: Any) -> int | None:
        running = nvml.nvmlDeviceGetComputeRunningProcesses(card)
        mine = [entry for entry in running if entry.pid == os.getpid()] or (running if len(running) == 1 else [])
        return int(mine[0].usedGpuMemory) if mine and mine[0].usedGpuMemory else None

    return ask(question)

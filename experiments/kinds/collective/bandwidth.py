"""Algorithm and bus bandwidth of an all-reduce, as NCCL's tests count them.

    algbw = S / t        busbw = algbw * 2 (n - 1) / n

S is the size of the tensor on one rank, n the ranks. The bus bandwidth is what a link must carry at least, so it can be
compared with the hardware's, whatever n is. Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md, "Bandwidth".
"""

from __future__ import annotations


def algorithm_gb_per_s(size: int, ms: float) -> float:
    """1e9 bytes a second: `size` bytes in `ms` milliseconds."""
    return size / ms / 1e6


def bus_gb_per_s(size: int, ms: float, ranks: int) -> float:
    """The same times 2 (n - 1) / n."""
    return algorithm_gb_per_s(size, ms) * 2 * (ranks - 1) / ranks

"""The sizes that a collective is timed at, and the words under which a record has them. Powers of two, a closed set.

A record declares every quantity of its kind, so the words for times by size are known beforehand, whatever ladder a
workload takes: one for each power of two from 256 bytes to 1 GiB. What was not measured has no value.
"""

from __future__ import annotations

from experiments.evidence.record import Quantity

LEAST_POWER, MOST_POWER = 8, 30
SIZES = tuple(2**power for power in range(LEAST_POWER, MOST_POWER + 1))


def word_at(size: int) -> str:
    """The quantity of a size in bytes: `ms_at_65536`."""
    return f"ms_at_{size}"


QUANTITIES = (
    Quantity(word="collective_ms", unit="ms", better="lower", main=True),  # at the largest size
    Quantity(word="algorithm_gb_per_s", unit="gb_per_s", better="higher"),
    Quantity(word="bus_gb_per_s", unit="gb_per_s", better="higher"),
    *(Quantity(word=word_at(size), unit="ms", better="lower") for size in SIZES),
)

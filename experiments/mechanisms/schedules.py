"""Learning-rate schedules as plain functions: update number, from 0, to the factor on the base rate.

    warm-up      s / warmup                                     for s < warmup
    linear       1 - u,  cosine  (1 + cos pi u) / 2             u = (s - warmup) / (total - warmup), how far it has come
    wsd          1 for `stable` updates, then a decay over `decay` updates down to `floor`, and `floor` for ever

The update number counts optimizer updates: a micro-batch does not advance it, nor does a step the scaler skipped.
Sources: Loshchilov and Hutter 2017 (arXiv:1608.03983) for cosine; Hu et al. 2024 (arXiv:2404.06395) for
warm-up, stable, decay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

Shape = Literal["linear", "cosine", "1-sqrt"]

FALLS: dict[Shape, Callable[[float], float]] = {
    "linear": lambda u: 1.0 - u,
    "cosine": lambda u: 0.5 * (1.0 + math.cos(math.pi * u)),
    "1-sqrt": lambda u: 1.0 - math.sqrt(u),
}
"""From 1 at u = 0 to 0 at u = 1."""


def linear(update: int, warmup: int, total: int) -> float:
    """Up over `warmup` updates, then straight down to 0 at `total`, and 0 after it."""
    if update < warmup:
        return update / warmup
    return max(0.0, (total - update) / max(1, total - warmup))


def cosine(update: int, warmup: int, total: int, floor: float = 0.0) -> float:
    """Up over `warmup` updates, then down half a cosine to `floor` at `total`.

    After `total` the cosine comes back up, in the frameworks as here: train for as long as was planned.
    """
    if update < warmup:
        return update / warmup
    progress = (update - warmup) / max(1, total - warmup)
    return max(0.0, floor + (1.0 - floor) * FALLS["cosine"](progress))


def wsd(
    update: int,
    warmup: int,
    stable: int,
    decay: int,
    floor: float = 0.0,
    rise: Shape = "linear",
    fall: Shape = "cosine",
) -> float:
    """Warm-up from `floor`, a fall run backwards; `stable` updates at 1; `decay` updates down to `floor`; `floor`."""
    if update < warmup:
        return floor + (1.0 - floor) * FALLS[rise](1.0 - update / warmup)
    if update < warmup + stable:
        return 1.0
    if update < warmup + stable + decay:
        return floor + (1.0 - floor) * FALLS[fall]((update - warmup - stable) / decay)
    return floor

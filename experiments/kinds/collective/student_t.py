"""Quantiles of Student's t distribution for whole degrees of freedom, without SciPy.

The share within +-t has a closed form: M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions (1964),
26.7.3 for odd and 26.7.4 for even degrees of freedom. The quantile is found by bisection.
"""

from __future__ import annotations

import math
from functools import cache

HALVINGS = 100  # of the bracket: far below the last bit


def share_within(t: float, freedom: int) -> float:
    """P(|T| < t) for t >= 0 and `freedom` >= 1 degrees of freedom."""
    theta = math.atan(t / math.sqrt(freedom))
    sine, square = math.sin(theta), math.cos(theta) ** 2
    odd = freedom % 2 == 1
    term = math.cos(theta) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(3 if odd else 2, freedom - 1, 2):  # 2/3, 2*4/(3*5), ... or 1/2, 1*3/(2*4), ...
        term *= square * (k - 1) / k
        total += term
    return 2 / math.pi * (theta + sine * total) if odd else sine * total


@cache
def two_sided(share: float, freedom: int) -> float:
    """The t with P(|T| < t) = `share`, 0 < share < 1. Raises ValueError without a degree of freedom."""
    if freedom < 1 or not 0 < share < 1:
        raise ValueError(f"no t for {share} within and {freedom} degrees of freedom")
    low, high = 0.0, 1.0
    while share_within(high, freedom) < share:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if share_within(middle, freedom) < share else (low, middle)
    return (low + high) / 2

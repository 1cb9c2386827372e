"""What a collective costs at a size nobody measured: t = alpha + beta * bytes, fitted to a ladder of medians.

alpha is what it costs to begin at all, 1 / beta the bandwidth that large tensors come near to. Source of the model:
R. W. Hockney, The communication challenge for MPP: Intel Paragon and Meiko CS-2, Parallel Computing 20 (1994).

Times scatter in proportion to themselves: a 4 MiB median lies off by milliseconds where a 1 KiB median lies off by
tenths. So the least squares are weighted by 1 / t**2, the measured medians for t, and the interval of a prediction is
that of the weighted line, for one more median of the same kind:

    w_i = 1 / t_i**2        W = sum w_i        S = sum w_i (x_i - x)**2      x, t: weighted means
    beta = sum w_i (x_i - x) (t_i - t) / S     alpha = t - beta x
    s**2 = sum w_i (t_i - alpha - beta x_i)**2 / (n - 2)
    p +- t(n - 2) s sqrt(p**2 + 1 / W + (x_0 - x)**2 / S)                    p = alpha + beta x_0

Source: D. C. Montgomery, E. A. Peck and G. G. Vining, Introduction to Linear Regression Analysis (5th edition, 2012),
sections 2.5 (interval of a new observation) and 5.5.2 (weighted least squares).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.kinds.collective.student_t import two_sided

SHARE = 0.9  # of predictions that lie within their interval
WIDEST = 0.5  # of a predicted time: half an interval that is wider tests no line
LEAST_SIZES = 3  # a line through two points has no residual to judge it by


@dataclass(frozen=True, slots=True)
class Expected:
    """A predicted time and its interval, in milliseconds."""

    ms: float
    low: float
    high: float

    def holds(self, measured: float) -> bool:
        """Whether a measured time lies within the interval."""
        return self.low <= measured <= self.high

    @property
    def is_wide(self) -> bool:
        """Whether the interval is so wide that hardly any time would miss it: then it tests nothing."""
        return self.high - self.ms > WIDEST * self.ms


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """A fitted line. `alpha_ms` in milliseconds, `beta_ms` in milliseconds a byte."""

    alpha_ms: float
    beta_ms: float
    spread: float  # s: relative standard deviation of a median about the line
    freedom: int
    centre: float  # weighted mean of the sizes, bytes
    weight: float  # W, 1 / ms**2
    moment: float  # S, bytes**2 / ms**2

    @property
    def ns_per_byte(self) -> float:
        """beta in nanoseconds a byte; its inverse is a bandwidth in 1e9 bytes a second."""
        return self.beta_ms * 1e6

    def expected(self, size: int, share: float = SHARE) -> Expected:
        """The time at `size` bytes, and the interval that holds a median measured there `share` of the time."""
        middle = self.alpha_ms + self.beta_ms * size
        apart = (size - self.centre) ** 2 / self.moment
        half = two_sided(share, self.freedom) * self.spread * math.sqrt(middle**2 + 1 / self.weight + apart)
        return Expected(middle, max(0.0, middle - half), middle + half)  # no time lies below zero


def fit(sizes: Sequence[int], medians_ms: Sequence[float]) -> CostModel:
    """The line through medians (milliseconds, above zero) at sizes (bytes).

    Raises ValueError for fewer than three different sizes, and for times that are not above zero.
    """
    import numpy as np

    least = min(medians_ms, default=0.0)
    if len(set(sizes)) < LEAST_SIZES or least <= 0:
        raise ValueError(f"no line through {len(set(sizes))} sizes and times from {least} ms")
    x, t = np.array(sizes, dtype=np.float64), np.array(medians_ms, dtype=np.float64)
    w = 1 / t**2
    weight = float(w.sum())
    centre, mean = float((w * x).sum()) / weight, float((w * t).sum()) / weight
    moment = float((w * (x - centre) ** 2).sum())
    beta = float((w * (x - centre) * (t - mean)).sum()) / moment
    alpha = mean - beta * centre
    freedom = len(x) - 2
    spread = math.sqrt(float((w * (t - alpha - beta * x) ** 2).sum()) / freedom)
    return CostModel(
        alpha_ms=alpha,
        beta_ms=beta,
        spread=spread,
        freedom=freedom,
        centre=centre,
        weight=weight,
        moment=moment,
    )

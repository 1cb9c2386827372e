"""How far two implementations of one formula may differ: a bound from the dtype and the number of roundings.

One rounding in a format with unit roundoff u changes a value by a factor (1 + d), |d| <= u. A result that passes
through n roundings is off by at most gamma(n) = n u / (1 - n u), relative to the size of the terms that went into it
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). Two implementations each make that error, hence
the factor 2. Nothing here is fitted: a check states its n as a formula of the shape, and this module does the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}

ELEMENTARY = 2
"""Roundings charged for one exp, log, tanh, erf, sin, cos, sqrt: vector libraries promise 1 ulp, two roundings."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """`roundings` steps in `dtype`; `formula` says where the number comes from. `relative` is what a check may use.

    `ours` is the dtype the hand-written side computes in; None means the same dtype as the framework.
    """

    dtype: str
    roundings: int
    formula: str
    ours: str | None = None

    @property
    def relative(self) -> float:
        """Largest allowed difference as a fraction of the terms' magnitude: the two sides' bounds added."""
        return gamma(self.roundings, self.dtype) + gamma(self.roundings, self.ours or self.dtype)

    def describe(self) -> str:
        """The bound beside its formula, as a report prints it."""
        return f"{self.relative:.1e} ({self.dtype}, {self.roundings} roundings: {self.formula})"


def gamma(roundings: int, dtype: str) -> float:
    """n u / (1 - n u). Raises ValueError where n u >= 1/2: a bound that large would accept anything."""
    product = roundings * UNIT_ROUNDOFF[dtype]
    if product >= 0.5:
        raise ValueError(f"{roundings} roundings in {dtype} leave no digit: check a shorter sum or a wider dtype")
    return product / (1.0 - product)


def dot(length: int) -> int:
    """Roundings in an inner product of `length` terms, whatever the order of summation: one product, the sums."""
    return max(length, 1)


def exponential(argument_roundings: int, largest_argument: float) -> int:
    """Roundings of exp(x) where x itself went through some: exp turns x's absolute error into a relative one.

    x (1 + n u) gives exp(x) exp(|x| n u), so n counts |x| times, and exp adds its own.
    """
    return math.ceil(argument_roundings * max(largest_argument, 1.0)) + ELEMENTARY


def softmax(length: int, argument_roundings: int = 1, largest_argument: float = 1.0) -> int:
    """Roundings of exp(x - max) / sum: the shifted exponential twice (top and bottom), the sum, the division."""
    return 2 * exponential(argument_roundings + 1, 2.0 * largest_argument) + dot(length) + 1

"""Unit roundoffs by number format, and the answer of a gate whose tolerance follows from one. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping

from experiments.evidence.candidate import Gate

UNIT_ROUNDOFF: Mapping[str, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "tf32": 2.0**-11,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
SMALLEST_NORMAL: Mapping[str, float] = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126}


def gate(
    *, against: str, error: float | None, bound: float, repeated: float | None, tensors: int, worst: str, formula: str
) -> Gate:
    """The answer of one gate. The tolerance is the larger of the A/A error (`repeated`) and the bound from the dtype.

    An error that could not be formed (a NaN, a missing reference) never passes.
    """
    tolerance = max(bound, repeated or 0.0)
    return Gate(
        passed=error is not None and math.isfinite(error) and error <= tolerance,
        against=against,
        error=error,
        tolerance=tolerance,
        yardstick=f"max(A/A error {'unknown' if repeated is None else f'{repeated:.1e}'}, {formula} = {bound:.1e})",
        tensors=tensors,
        worst=worst,
    )

"""How large an error may be: the yardstick of the gradient and update gates. Pure arithmetic on sizes and dtypes.

Every rounding contributes a relative error of at most the unit roundoff u of its format, and their signs are as good
as random, so along a chain of n roundings the error grows like u * sqrt(n) (Higham and Mary 2019, SIAM J. Sci. Comput.
41(5), "A new approach to probabilistic rounding error analysis"). The chain from ids to a gradient passes every layer
twice. Inside a matrix product sums are kept in fp32, whose chain is as long as the longest sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from experiments.evidence.candidate import Gate
from experiments.models.registered_config import DecoderShape

UNIT_ROUNDOFF: Mapping[str, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "tf32": 2.0**-11,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
SMALLEST_NORMAL: Mapping[str, float] = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126}
ROUNDINGS_PER_LAYER = 10  # q k v, scores, mix, o, norm, gate-up product, down, residual
ROUNDINGS_OUTSIDE = 3  # embedding, last norm, head


def rounding_bound(dtype: str, shape: DecoderShape, tokens: int) -> float:
    """Relative L2 error a gradient may have from `dtype` alone, for `tokens` positions in the batch."""
    chain = 2 * (shape.layers * ROUNDINGS_PER_LAYER + ROUNDINGS_OUTSIDE)
    longest_sum = max(shape.intermediate, shape.hidden, tokens)
    return UNIT_ROUNDOFF[dtype] * math.sqrt(chain) + UNIT_ROUNDOFF["float32"] * math.sqrt(chain * longest_sum)


def update_bound(gradient_bound: float, optimizer: str, weight_norm: float, update_norm: float) -> float:
    """The same for the first update, relative to its norm.

    SGD moves by the gradient, so its relative error carries over. Adam's first update is the gradient's sign: an error
    of relative size r turns the sign of a share r / pi of normal entries, each off by 2, so the L2 error is
    2 sqrt(r / pi). The moved weight is itself rounded to fp32, which adds u * ||weights|| / ||update||.
    """
    carried = 2 * math.sqrt(gradient_bound / math.pi) if optimizer == "adamw" else gradient_bound
    rounded = UNIT_ROUNDOFF["float32"] * weight_norm / update_norm if update_norm > 0 else 0.0
    return carried + 2 * rounded


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

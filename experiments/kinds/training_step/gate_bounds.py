"""How large an error may be: the yardstick of the gradient and update gates. Pure arithmetic on sizes and dtypes.

Every rounding contributes a relative error of at most the unit roundoff u of its format, and their signs are as good
as random, so along a chain of n roundings the error grows like u * sqrt(n) (Higham and Mary 2019, SIAM J. Sci. Comput.
41(5), "A new approach to probabilistic rounding error analysis"). The chain from ids to a gradient passes every layer
twice. Inside a matrix product sums are kept in fp32, whose chain is as long as the longest sum.
"""

from __future__ import annotations

import math

from experiments.harness.rounding import UNIT_ROUNDOFF
from experiments.models.registered_config import DecoderShape

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

"""How large the error of an output may be. Pure arithmetic on sizes and dtypes.

Each rounding contributes a relative error of at most the unit roundoff u of its format, and over a sum of n products
their effect grows like u * sqrt(n) (Higham and Mary 2019, SIAM J. Sci. Comput. 41(5), "A new approach to probabilistic
rounding error analysis"). Sums are kept in float32. That bounds an error relative to the sum of absolute values; beside
the sum itself it holds where terms have random signs, as those of drawn inputs and weights do (Higham and Mary 2020,
SIAM J. Sci. Comput. 42(5), A3427).
"""

from __future__ import annotations

import math

from experiments.kinds.training_step.gate_bounds import UNIT_ROUNDOFF

ROUNDINGS = 3  # in the format itself: of a weight that is scaled, of the output, and of an output that is scaled


def product_bound(dtype: str, terms: int) -> float:
    """Relative L2 error that rounding alone may give an output, each entry of which is a sum of `terms` products."""
    return UNIT_ROUNDOFF[dtype] * math.sqrt(ROUNDINGS) + UNIT_ROUNDOFF["float32"] * math.sqrt(terms)

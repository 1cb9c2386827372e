"""How large the error of an output may be. Pure arithmetic on sizes and dtypes.

Each rounding contributes a relative error of at most the unit roundoff u of its format, and over a sum of n products
their effect grows like u * sqrt(n) (Higham and Mary 2019, SIAM J. Sci. Comput. 41(5), "A new approach to probabilistic
rounding error analysis"). Sums are kept in float32.

The sums on the way are as large as the root of the sum of squares of their terms where signs are random, and as large
as the sum itself where they are not. Where an output happens to be far below both, because its terms cancelled out, the
error is the same and the relative one grows: the bound is that many times larger (`cancelled`).
"""

from __future__ import annotations

import math

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
ROUNDINGS = 3  # in the format itself: of a weight that is scaled, of the output, and of an output that is scaled


def product_bound(dtype: str, terms: int, cancelled: float = 1.0) -> float:
    """Relative L2 error that rounding alone may give an output, each entry of which is a sum of `terms` products.

    `cancelled` is the root of the sum of squares of all terms over the L2 norm of the output.
    """
    plain = UNIT_ROUNDOFF[dtype] * math.sqrt(ROUNDINGS) + UNIT_ROUNDOFF["float32"] * math.sqrt(terms)
    return plain * max(1.0, cancelled)

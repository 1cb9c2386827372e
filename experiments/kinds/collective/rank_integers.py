"""What each rank contributes, so that a sum says who took part: integers that only it can have. Imports torch.

`values` tell a wrong sum: rank r of n contributes r + 1 + n k in element i, with k = i mod m. No two ranks have an
integer in common, so one left out, one counted twice, and one taken for another all change the sum, which is

    n (n + 1) / 2 + n**2 k

in every element. All partial sums are integers below 2**p, which a format with p bits of precision holds exactly: the
sum is exact in whatever order it is formed. m is odd, so that a chunk in the wrong place shows too.

`tallies` count: rank r contributes 1 where i mod n = r, else 0. The sum is the number of times it was added there.
"""

from __future__ import annotations

import torch
from torch import Tensor

PRECISION = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}  # bits, the hidden one too
LONGEST_PERIOD = 251


def period(ranks: int, dtype: torch.dtype) -> int:
    """m: as long as the sums stay exact, odd, at most 251. Raises ValueError where not even 1 is possible."""
    most: int = (2 ** PRECISION[dtype] - ranks * (ranks + 1) // 2) // ranks**2
    if most < 0:
        raise ValueError(f"{ranks} ranks have no exact sum in {dtype}")
    return min(LONGEST_PERIOD, most if most % 2 else most + 1)  # k goes up to m - 1


def values(rank: int, ranks: int, elements: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(elements,) what `rank` contributes."""
    return (_turn(ranks, elements, dtype, device) * ranks + rank + 1).to(dtype)


def sums(ranks: int, elements: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(elements,) the sum of all contributions, in closed form."""
    return (_turn(ranks, elements, dtype, device) * ranks**2 + ranks * (ranks + 1) // 2).to(dtype)


def tallies(rank: int, ranks: int, elements: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(elements,) one where this rank is counted, zero elsewhere."""
    return (_index(elements, device) % ranks == rank).to(dtype)


def _turn(ranks: int, elements: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return _index(elements, device) % period(ranks, dtype)


def _index(elements: int, device: torch.device) -> Tensor:
    return torch.arange(elements, dtype=torch.int64, device=device)

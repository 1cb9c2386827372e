"""Integers that only one rank can have: exact in every format, and a sum that changes whatever goes wrong."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from experiments.kinds.collective import rank_integers
from experiments.kinds.collective.collective_workload import MOST_RANKS

CPU = torch.device("cpu")
FORMATS = tuple(rank_integers.PRECISION)
ELEMENTS = 600


def contributions(ranks: int, dtype: torch.dtype) -> list[Tensor]:
    return [rank_integers.values(rank, ranks, ELEMENTS, dtype, CPU) for rank in range(ranks)]


@pytest.mark.parametrize(("ranks", "dtype"), [*product(range(2, MOST_RANKS + 1), FORMATS)])
def test_sums_are_exact_in_every_format_and_order(ranks: int, dtype: torch.dtype) -> None:
    parts = contributions(ranks, dtype)
    exact = rank_integers.sums(ranks, ELEMENTS, dtype, CPU)
    for order in (parts, parts[::-1]):
        total = torch.zeros(ELEMENTS, dtype=dtype)
        for part in order:
            total += part
        assert torch.equal(total, exact)
    assert torch.equal(sum(part.long() for part in parts), exact.long())
    assert int(exact.max()) <= 2 ** rank_integers.PRECISION[dtype]


@pytest.mark.parametrize(("ranks", "dtype"), [*product((2, 3, MOST_RANKS), FORMATS)])
def test_no_two_ranks_share_an_integer(ranks: int, dtype: torch.dtype) -> None:
    seen = [set(part.tolist()) for part in contributions(ranks, dtype)]
    assert len(set().union(*seen)) == sum(len(some) for some in seen)
    assert 0 not in set().union(*seen)  # a rank left out would not show where it has nothing to add


@pytest.mark.parametrize("dtype", FORMATS)
def test_left_out_and_twice_change_every_element(dtype: torch.dtype) -> None:
    parts = contributions(4, dtype)
    exact = rank_integers.sums(4, ELEMENTS, dtype, CPU).double()
    for part in parts:
        assert bool(((exact - part.double()) != exact).all())
    for twice, missing in product(range(4), range(4)):
        if twice != missing:
            assert bool((exact + parts[twice].double() - parts[missing].double() != exact).all())


def test_tallies_count_each_rank_in_elements_of_its_own() -> None:
    counts = [rank_integers.tallies(rank, 3, 10, torch.float32, CPU) for rank in range(3)]
    assert torch.equal(sum(counts), torch.ones(10))
    assert counts[1].tolist() == [0, 1, 0, 0, 1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize(("ranks", "dtype"), [*product(range(2, MOST_RANKS + 1), FORMATS)])
def test_the_period_is_odd(ranks: int, dtype: torch.dtype) -> None:
    """Chunks are powers of two long: one in another's place has other integers, where there is more than one."""
    assert rank_integers.period(ranks, dtype) % 2 == 1


def test_more_ranks_than_a_format_tells_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="no exact sum"):
        rank_integers.period(23, torch.bfloat16)

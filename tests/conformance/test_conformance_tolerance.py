"""The bound on roundings: its formula, what it refuses, and that real sums stay inside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.conformance import tolerance
from experiments.conformance.tolerance import Tolerance, dot, exponential, gamma, softmax

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", sorted(tolerance.UNIT_ROUNDOFF))
def test_unit_roundoff_is_half_the_spacing_at_one(dtype: str) -> None:
    assert tolerance.UNIT_ROUNDOFF[dtype] == torch.finfo(getattr(torch, dtype)).eps / 2


def test_gamma_is_the_textbook_bound() -> None:
    u = 2.0**-24
    assert gamma(10, "float32") == 10 * u / (1 - 10 * u)


def test_a_bound_that_would_accept_anything_is_refused() -> None:
    with pytest.raises(ValueError, match="leave no digit"):
        gamma(200, "bfloat16")


def test_both_sides_count_in_their_own_precision() -> None:
    same, mixed = Tolerance("float32", 8, ""), Tolerance("float32", 8, "", "float64")
    assert same.relative == 2 * gamma(8, "float32")
    assert mixed.relative == gamma(8, "float32") + gamma(8, "float64")
    assert "8 roundings: sums" in Tolerance("float32", 8, "sums").describe()


def test_an_exponential_counts_its_argument_s_error_once_for_each_unit_of_its_size() -> None:
    assert exponential(3, 5.0) == 15 + tolerance.ELEMENTARY
    assert exponential(3, 0.1) == 3 + tolerance.ELEMENTARY
    assert softmax(7) > dot(7)


@given(st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_inner_products_in_fp32_stay_inside_the_bound(length: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(length, generator=generator) for _ in range(2))
    exact = (x.double() * y.double()).sum()
    terms = (x.double() * y.double()).abs().sum()
    assert abs(float((x * y).sum()) - float(exact)) <= gamma(dot(length), "float32") * float(terms)

"""Int8 weights: the quantiser against arithmetic on fractions, the products against float64, what rounding loses."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from experiments.mechanisms.int8_weights import (
    CHANNELS_AT_A_TIME,
    LARGEST,
    Int8Weight,
    dequantise,
    product_dequantised,
    product_float64,
    product_scaled_after,
    quantise,
    rounding,
)


def drawn(out: int, features: int, seed: int = 0) -> Tensor:
    return torch.randn(out, features, generator=torch.Generator().manual_seed(seed))


def test_each_value_is_the_nearest_number_of_steps_by_exact_arithmetic() -> None:
    weight = drawn(16, 24)
    held = quantise(weight)
    for row, values, scale in zip(weight.tolist(), held.values.tolist(), held.scales.tolist(), strict=True):
        assert scale == pytest.approx(max(abs(value) for value in row) / LARGEST, rel=1e-7)
        for value, steps in zip(row, values, strict=True):
            exact = Fraction(value) / Fraction(scale)
            assert abs(exact - steps) <= Fraction(1, 2) + Fraction(1, 2**15)


def test_a_half_goes_to_the_even_neighbour_and_both_signs_reach_equally_far() -> None:
    held = quantise(torch.tensor([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, -127.0]]))
    assert held.scales.tolist() == [1.0]
    assert held.values.tolist() == [[127, 0, 2, 2, 0, -2, -2, -127]]


def test_the_largest_weight_of_a_channel_is_127_steps_and_none_is_128() -> None:
    values = quantise(drawn(64, 33, seed=1)).values.int()
    assert values.abs().amax(dim=1).tolist() == [LARGEST] * 64


def test_a_channel_of_zeros_stays_zero() -> None:
    weight = torch.tensor([[0.0, 0.0], [1.0, -2.0]])
    held = quantise(weight)
    assert held.scales[0] == 1
    assert dequantise(held)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("weight", [torch.ones(3), torch.tensor([[1.0, float("nan")]]), torch.tensor([[float("inf")]])])
def test_what_is_no_finite_matrix_is_refused(weight: Tensor) -> None:
    with pytest.raises(ValueError, match="a finite weight"):
        quantise(weight)


def test_the_weight_is_exact_in_float64() -> None:
    held = quantise(drawn(8, 8))
    for row, values, scale in zip(
        dequantise(held, torch.float64).tolist(), held.values.tolist(), held.scales.tolist(), strict=True
    ):
        assert [Fraction(value) for value in row] == [Fraction(scale) * steps for steps in values]


@pytest.mark.parametrize("product", [product_dequantised, product_scaled_after])
def test_both_products_are_the_float64_one_but_for_rounding(product: object) -> None:
    x, held = drawn(5, 48, seed=2), quantise(drawn(32, 48))
    exact = product_float64(x, held)
    out = product(x, held)  # type: ignore[operator]
    assert out.dtype == torch.float32
    assert float((out - exact).norm() / exact.norm()) < 1e-6


def test_the_float64_product_in_blocks_is_the_whole_one() -> None:
    x, held = drawn(2, 8, seed=3), quantise(drawn(CHANNELS_AT_A_TIME + 3, 8))
    whole = x.double() @ dequantise(held, torch.float64).T
    torch.testing.assert_close(product_float64(x, held), whole, rtol=1e-14, atol=0)


def test_what_rounding_loses_is_what_uniform_errors_predict() -> None:
    weight = drawn(256, 512)
    lost = rounding(weight, quantise(weight))
    assert lost.error == pytest.approx(lost.predicted, rel=0.01)
    assert 0.49 < lost.largest_step < 0.5 + 2**-15


def test_cutting_off_instead_of_rounding_is_seen() -> None:
    weight = drawn(256, 512)
    held = quantise(weight)
    cut = Int8Weight(torch.trunc(weight / held.scales[:, None]).to(torch.int8), held.scales)
    lost = rounding(weight, cut)
    assert lost.largest_step > 0.9
    assert lost.error > 1.9 * lost.predicted


def test_a_weight_of_zeros_has_no_relative_error() -> None:
    zeros = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="zeros alone"):
        rounding(zeros, quantise(zeros))

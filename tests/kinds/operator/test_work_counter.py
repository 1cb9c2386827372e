"""What the counter of work sees: which weights were read and in which form, whatever a candidate says of itself."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from experiments.kinds.operator.operation import Operation
from experiments.kinds.operator.work_counter import count
from experiments.mechanisms.int8_weights import dequantise, product_dequantised, product_scaled_after, quantise

ROWS, IN, OUT = 4, 6, 5
X = torch.randn(ROWS, IN, generator=torch.Generator().manual_seed(0))
HELD = quantise(torch.randn(OUT, IN, generator=torch.Generator().manual_seed(1)))
DENSE = dequantise(HELD)
FLOPS = 2 * ROWS * IN * OUT


def work(call: Callable[[Tensor], Tensor]) -> dict[str, int]:
    with torch.no_grad():
        return count(Operation(X, call))[1]


def of(**found: int) -> dict[str, int]:
    return {"flops": FLOPS, "int8_read": 0, "scaled_before": 0, "scaled_after": 0, "weight_bytes": 0, **found}


def test_a_dense_product_reads_floats_alone() -> None:
    assert work(lambda x: x @ DENSE.T) == of(weight_bytes=4 * IN * OUT)
    assert work(lambda x: torch.nn.functional.linear(x, DENSE)) == of(weight_bytes=4 * IN * OUT)


def test_weights_scaled_before_the_product_are_told_from_outputs_scaled_after_it() -> None:
    read = {"int8_read": IN * OUT, "weight_bytes": IN * OUT + 4 * OUT}
    assert work(lambda x: product_dequantised(x, HELD)) == of(**read, scaled_before=IN * OUT)
    assert work(lambda x: product_scaled_after(x, HELD)) == of(**read, scaled_after=ROWS * OUT)


def test_a_dense_weight_kept_beside_the_int8_one_is_counted() -> None:
    def quietly(x: Tensor) -> Tensor:
        HELD.values.to(x.dtype)  # read, and thrown away
        return x @ DENSE.T

    assert work(quietly) == of(int8_read=IN * OUT, weight_bytes=IN * OUT + 4 * IN * OUT)


def test_a_weight_is_counted_once_however_often_it_is_read_and_a_view_reads_nothing() -> None:
    def twice(x: Tensor) -> Tensor:
        HELD.values.view(-1)
        return x @ DENSE.T + x @ DENSE[:, :].T

    assert work(twice) == of(flops=2 * FLOPS, weight_bytes=4 * IN * OUT)


def test_what_the_call_makes_itself_is_no_weight() -> None:
    assert work(lambda x: x @ torch.zeros(IN, OUT)) == of()


def test_a_weight_changed_in_place_stays_one() -> None:
    weight = DENSE.clone()
    assert work(lambda x: x @ weight.mul_(1.0).T) == of(scaled_before=IN * OUT, weight_bytes=4 * IN * OUT)


def test_the_output_is_the_one_without_a_counter() -> None:
    with torch.no_grad():
        counted, _ = count(Operation(X, lambda x: product_dequantised(x, HELD)))
        assert torch.equal(counted, product_dequantised(X, HELD))

"""Builds the product of a candidate, its yardstick in float64, and the probe of what rounding to int8 lost."""

from __future__ import annotations

import torch
from torch import Tensor

from experiments.evidence.vocabulary import JsonValue
from experiments.kinds.operator.operation import Exact, Operation, OperatorContext
from experiments.mechanisms.int8_weights import (
    Int8Weight,
    dequantise,
    product_dequantised,
    product_float64,
    product_scaled_after,
    quantise,
    rounding,
)

PRODUCTS = {"dequantised": product_dequantised, "scaled_after": product_scaled_after}


def build(context: OperatorContext) -> Operation:
    """The candidate's product. Only the weights in its own form are on the device."""
    settings, where = context.spec.settings, context.device.torch_device
    weight, given = _drawn(context)
    held = quantise(weight)
    if settings["form"] == "dense":
        dense = dequantise(held).to(where)
        return Operation(given.to(where), lambda x: x @ dense.T)
    scales = held.scales.roll(1) if settings["scales"] == "neighbour" else held.scales
    placed = Int8Weight(held.values.to(where), scales.to(where))
    product = PRODUCTS[str(settings["form"])]
    return Operation(given.to(where), lambda x: product(x, placed))


def exact(context: OperatorContext) -> Exact:
    """The product with the same dequantised weights in float64, on the CPU."""
    weight, given = _drawn(context)
    held = quantise(weight)
    # all products x_ri W_oi, squared and summed: sum_i (sum_r x_ri^2) (sum_o W_oi^2)
    squares = given.double().square().sum(dim=0) @ dequantise(held).square_().sum(dim=0, dtype=torch.float64)
    return Exact(product_float64(given, held), float(squares) ** 0.5)


def rounding_error(context: OperatorContext) -> dict[str, JsonValue]:
    """How far the int8 weights are from the original ones, and their product from that of the original ones."""
    weight, given = _drawn(context)
    held = quantise(weight)
    lost = rounding(weight, held)
    original = given.double() @ weight.double().T
    apart = product_float64(given, held).sub_(original)
    return {
        "weight_error": lost.error,
        "predicted": lost.predicted,
        "largest_step": lost.largest_step,
        "output_error": float(torch.linalg.vector_norm(apart) / torch.linalg.vector_norm(original)),
    }


def _drawn(context: OperatorContext) -> tuple[Tensor, Tensor]:
    """Weight [out, in] and input [rows, in] from the workload's seed, on the CPU: the same whatever the device.

    Both are normal; the weight has the variance 1 / in, so that outputs are about as large as inputs.
    """
    workload = context.workload
    draw = torch.Generator().manual_seed(workload.seed)
    weight = torch.randn(workload.out_features, workload.in_features, generator=draw) / workload.in_features**0.5
    return weight, torch.randn(workload.rows, workload.in_features, generator=draw)


PROBES = {"rounding_error": rounding_error}

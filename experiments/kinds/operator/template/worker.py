"""Builds the product of a candidate, and its yardstick in float64, in the process that measures it."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from experiments.kinds.operator.operation import Exact, Operation, OperatorContext


# Change: what a candidate computes. Everything before `Operation` is not timed.
def build(context: OperatorContext) -> Operation:
    """The candidate's product, its weight in place on the device."""
    settings, where = context.spec.settings, context.device.torch_device
    weight, given = drawn(context)
    placed = weight.roll(int(str(settings["shift"])), dims=1).to(where)
    pieces = int(str(settings["pieces"]))
    return Operation(given.to(where), lambda x: in_pieces(x, placed, pieces))


def in_pieces(x: Tensor, weight: Tensor, pieces: int) -> Tensor:
    """x [rows, in] times weight [out, in]^T as the sum of so many products, each over a part of `in`."""
    pairs = zip(x.chunk(pieces, dim=1), weight.chunk(pieces, dim=1), strict=True)
    return reduce(torch.add, (part @ its_weight.T for part, its_weight in pairs))


# Change together with `build`: the yardstick knows the mathematics alone, and never a candidate.
def exact(context: OperatorContext) -> Exact:
    """The product in float64, and how large the terms are that were summed up for it."""
    weight, given = (tensor.double() for tensor in drawn(context))
    # all products x_ri W_oi, squared and summed: sum_i (sum_r x_ri^2) (sum_o W_oi^2)
    squares = given.square().sum(dim=0) @ weight.square().sum(dim=0)
    return Exact(given @ weight.T, float(squares) ** 0.5)


def drawn(context: OperatorContext) -> tuple[Tensor, Tensor]:
    """Weight [out, in] and input [rows, in], normal, from the workload's seed: the same in every process."""
    workload, draw = context.workload, torch.Generator().manual_seed(context.workload.seed)
    weight = torch.randn(workload.out_features, workload.in_features, generator=draw) / workload.in_features**0.5
    return weight, torch.randn(workload.rows, workload.in_features, generator=draw)

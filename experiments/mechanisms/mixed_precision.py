"""Mixed-precision backward by hand: a linear layer whose products run in low precision, and fp32 master weights.

The weights stay fp32. Each use casts them, and the input, to the low precision; the cast is part of the graph, so on
the way back every gradient is computed in low precision and cast to the dtype of what it belongs to:

    forward    y  = low(x) low(W)^T + low(b)              y in low precision
    backward   dx = low(dy) low(W)          -> dtype of x
               dW = low(dy)^T low(x)        -> fp32, so sums over steps and the update keep their digits
               db = sum over rows of dy     -> fp32

`MasterWeights` is the other arrangement: the model holds low-precision weights, an fp32 copy takes the updates, and an
update too small for the low precision is not lost but waits in the copy.

Source: Micikevicius et al. 2018 (arXiv:1710.03740), sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear


class LowPrecisionLinear(torch.autograd.Function):
    """y = x W^T + b with products in `dtype`. Call `apply(x, weight, bias, dtype)`; bias may be None."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
        low_x, low_weight = x.to(dtype), weight.to(dtype)
        ctx.save_for_backward(low_x, low_weight)
        ctx.dtypes = x.dtype, weight.dtype, None if bias is None else bias.dtype
        return linear(low_x, low_weight, None if bias is None else bias.to(dtype))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        low_x, low_weight = ctx.saved_tensors
        x_dtype, weight_dtype, bias_dtype = ctx.dtypes
        grad_x = (grad @ low_weight).to(x_dtype)
        rows = grad.flatten(0, -2)
        grad_weight = (rows.T @ low_x.flatten(0, -2)).to(weight_dtype)
        grad_bias = None if bias_dtype is None else rows.sum(dim=0).to(bias_dtype)
        return grad_x, grad_weight, grad_bias, None


def underflow(gradient: Tensor, dtype: torch.dtype) -> tuple[int, int]:
    """How many entries of `gradient` are nonzero, and how many of those become zero or subnormal in `dtype`.

    Subnormal numbers have lost digits already: below the smallest normal number the spacing no longer shrinks.
    """
    nonzero = gradient != 0
    lost = nonzero & (gradient.to(dtype).abs().to(gradient.dtype) < torch.finfo(dtype).tiny)
    return int(nonzero.sum()), int(lost.sum())


class MasterWeights:
    """fp32 copies of low-precision parameters. An optimizer steps on `copies`; `publish` casts them back."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)
        self.copies = [parameter.detach().float().clone().requires_grad_() for parameter in self._parameters]

    def take_gradients(self) -> None:
        """Moves each parameter's gradient to its copy, in fp32; a parameter without one leaves its copy without."""
        for parameter, copy in zip(self._parameters, self.copies, strict=True):
            copy.grad = None if parameter.grad is None else parameter.grad.float()
            parameter.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        """Writes the copies, rounded, into the parameters."""
        for parameter, copy in zip(self._parameters, self.copies, strict=True):
            parameter.copy_(copy)

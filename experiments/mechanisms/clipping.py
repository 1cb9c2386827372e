"""Gradient clipping by global norm and by value.

The norm is taken over all gradients together, as if they were one vector, so clipping keeps its direction:

    n = ||(g_1, ..., g_k)||        g_i <- g_i min(1, limit / (n + 1e-6))

The 1e-6 keeps the division defined at n = 0; it also makes a gradient of exactly the limit a little smaller. An
infinite norm would turn the factor into 0 and infinite entries into NaN: a skipped step belongs before the clipping.
Source: Pascanu et al. 2013 (arXiv:1211.5063).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

GUARD = 1e-6


def global_norm(gradients: Iterable[Tensor], order: float = 2.0) -> Tensor:
    """The p-norm over all entries of all gradients; 0 where there are none."""
    norms = [torch.linalg.vector_norm(gradient, order) for gradient in gradients]
    return torch.linalg.vector_norm(torch.stack(norms), order) if norms else torch.zeros(())


@torch.no_grad()
def clip_by_norm(parameters: Iterable[Tensor], limit: float, order: float = 2.0) -> Tensor:
    """Scales every `.grad` in place so that their norm is at most `limit`; returns the norm before.

    Raises ValueError for a norm that is not finite and cannot be clipped into one.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = global_norm(gradients, order)
    if not math.isfinite(norm):
        raise ValueError(f"the gradient norm is {float(norm)}: unscale, look for infinities and skip the step first")
    factor = min(1.0, limit / (float(norm) + GUARD))
    for gradient in gradients:
        gradient.mul_(factor)
    return norm


@torch.no_grad()
def clip_by_value(parameters: Iterable[Tensor], limit: float) -> None:
    """Cuts every entry of every `.grad` to [-limit, limit]: bounds entries, and turns the direction."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.clamp_(-limit, limit)

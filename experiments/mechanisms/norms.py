"""RMSNorm, forward and backward by hand.

Over the last dimension of width d, with weight w and a small e

    r = 1 / sqrt(mean(x^2) + e)        y = w x r

    dL/dx = r (g w) - x r^3 mean(g w x)          dL/dw = sum over rows of g x r

The second term of dL/dx is there because r depends on every x_j: the gradient has no component along x (up to e).
Low-precision inputs are normalised in fp32 and rounded before the weight is applied, which is what Qwen2 does.
Source: Zhang and Sennrich 2019 (arXiv:1910.07467).
"""

from __future__ import annotations

import torch
from torch import Tensor

LOW_PRECISION = (torch.float16, torch.bfloat16)


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """[..., d] normalised by its root mean square and scaled by weight [d]."""
    wide = x.float() if x.dtype in LOW_PRECISION else x
    normalised = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + epsilon)
    return weight * normalised.to(x.dtype)


def rms_norm_backward(grad: Tensor, x: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Gradients of x [..., d] and weight [d], in the dtype of x."""
    inverse = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + epsilon)
    scaled = grad * weight
    grad_x = inverse * scaled - x * inverse**3 * (scaled * x).mean(dim=-1, keepdim=True)
    grad_weight = (grad * x * inverse).flatten(0, -2).sum(dim=0)
    return grad_x, grad_weight

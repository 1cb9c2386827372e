"""Rotary position embedding, forward and backward by hand.

A head of width d is d / 2 pairs (x_i, x_{i + d/2}). At position p the pair i is turned by the angle p f_i with
f_i = theta^(-2i / d):

    y_i       = x_i cos - x_{i+d/2} sin
    y_{i+d/2} = x_{i+d/2} cos + x_i sin

A rotation keeps lengths, and turning q by p and k by p' leaves their product depending on p - p' alone. Its backward is
the rotation by the opposite angle. Source: Su et al. 2021 (arXiv:2104.09864); the halves are paired as in Qwen2 and
Llama, where the paper pairs neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor


def frequencies(width: int, theta: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """f_i for i = 0 .. width / 2 - 1, in radians per position. Raises ValueError for an odd width."""
    if width % 2:
        raise ValueError(f"a head of odd width {width} has no pairs to rotate")
    return theta ** (-torch.arange(0, width, 2, dtype=dtype) / width)


def angles(positions: Tensor, width: int, theta: float, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """cos and sin [..., positions, width / 2] of position times frequency."""
    turned = positions.to(dtype)[..., None] * frequencies(width, theta, dtype).to(positions.device)
    return turned.cos(), turned.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns the pairs of [..., positions, width]; cos and sin [..., positions, width / 2] broadcast over heads."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rotate_backward(grad: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The gradient of x: the inverse rotation."""
    return rotate(grad, cos, -sin)

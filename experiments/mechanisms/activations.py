"""Activation functions and losses, each with its backward written out.

A backward takes the gradient g of the output and gives the gradient of the input, g * f'(x). Where a naive formula
would overflow or cancel, the stable one stands here. With s(x) = 1 / (1 + e^-x) and Phi the normal cdf

    relu         max(x, 0)                      1 where x > 0
    silu         x s(x)                         s (1 + x (1 - s))
    gelu         x Phi(x)                       Phi(x) + x phi(x),  phi(x) = e^(-x^2 / 2) / sqrt(2 pi)
    gelu_tanh    x (1 + tanh u) / 2             (1 + t) / 2 + x (1 - t^2) u' / 2,  u = sqrt(2/pi) (x + 0.044715 x^3)
    softplus     log(1 + e^x)                   s(x)
    softmax      p = e^x / sum e^x              p (g - sum p g)
    log_softmax  x - log sum e^x                g - p sum g

Sources: Hendrycks and Gimpel 2016 (arXiv:1606.08415) for GELU; Shazeer 2020 (arXiv:2002.05202) for SwiGLU.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

SOFTPLUS_THRESHOLD = 20.0  # above it log(1 + e^x) is x to within e^-20, and the frameworks return x
GELU_CUBIC = 0.044715


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x), with e^-|x| so that nothing overflows."""
    small = torch.exp(-x.abs())
    return torch.where(x >= 0, 1.0 / (1.0 + small), small / (1.0 + small))


def sigmoid_backward(grad: Tensor, x: Tensor) -> Tensor:
    """g s (1 - s); 1 - s(x) is s(-x), which does not cancel."""
    return grad * sigmoid(x) * sigmoid(-x)


def tanh_backward(grad: Tensor, output: Tensor) -> Tensor:
    """g (1 - tanh(x)^2), from the output."""
    return grad * (1.0 - output * output)


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return torch.where(x > 0, x, torch.zeros_like(x))


def relu_backward(grad: Tensor, x: Tensor) -> Tensor:
    """g where x > 0; 0 at 0."""
    return torch.where(x > 0, grad, torch.zeros_like(grad))


def silu(x: Tensor) -> Tensor:
    """x s(x), also called swish."""
    return x * sigmoid(x)


def silu_backward(grad: Tensor, x: Tensor) -> Tensor:
    """g s(x) (1 + x s(-x))."""
    return grad * sigmoid(x) * (1.0 + x * sigmoid(-x))


def gelu(x: Tensor) -> Tensor:
    """x Phi(x) with the exact normal cdf."""
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def gelu_backward(grad: Tensor, x: Tensor) -> Tensor:
    """g (Phi(x) + x phi(x))."""
    cdf = 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
    density = torch.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return grad * (cdf + x * density)


def _gelu_tanh_inner(x: Tensor) -> Tensor:
    return torch.tanh(math.sqrt(2.0 / math.pi) * (x + GELU_CUBIC * x * x * x))


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU's tanh approximation."""
    return 0.5 * x * (1.0 + _gelu_tanh_inner(x))


def gelu_tanh_backward(grad: Tensor, x: Tensor) -> Tensor:
    """g ((1 + t) / 2 + x (1 - t^2) u' / 2) with u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2)."""
    t = _gelu_tanh_inner(x)
    slope = math.sqrt(2.0 / math.pi) * (1.0 + 3.0 * GELU_CUBIC * x * x)
    return grad * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope)


def softplus(x: Tensor) -> Tensor:
    """log(1 + e^x), and x itself above the threshold."""
    return torch.where(x > SOFTPLUS_THRESHOLD, x, torch.log1p(torch.exp(x.clamp(max=SOFTPLUS_THRESHOLD))))


def softplus_backward(grad: Tensor, x: Tensor) -> Tensor:
    """g s(x), and g above the threshold."""
    return torch.where(x > SOFTPLUS_THRESHOLD, grad, grad * sigmoid(x))


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up: the gated unit of Qwen2's and Llama's MLP."""
    return silu(gate) * up


def swiglu_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of gate and up."""
    return silu_backward(grad * up, gate), grad * silu(gate)


def softmax(x: Tensor) -> Tensor:
    """Over the last dimension; entries of -inf get probability 0."""
    shifted = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return shifted / shifted.sum(dim=-1, keepdim=True)


def softmax_backward(grad: Tensor, output: Tensor) -> Tensor:
    """p (g - sum p g), from the output: the Jacobian diag(p) - p p^T applied without building it."""
    return output * (grad - (output * grad).sum(dim=-1, keepdim=True))


def log_softmax(x: Tensor) -> Tensor:
    """x - log sum e^x over the last dimension, with the maximum taken out first."""
    shifted = x - x.amax(dim=-1, keepdim=True)
    return shifted - shifted.exp().sum(dim=-1, keepdim=True).log()


def log_softmax_backward(grad: Tensor, output: Tensor) -> Tensor:
    """g - p sum g, from the output."""
    return grad - output.exp() * grad.sum(dim=-1, keepdim=True)

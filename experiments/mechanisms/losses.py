"""Losses with their backward written out, each a mean over all entries.

mse           (x - y)^2                               2 (x - y) / n
huber         e^2 / 2 for |e| <= d, else d (|e| - d/2)    clip(e, -d, d) / n,  e = x - y
bce           -y log s(x) - (1 - y) log(1 - s(x))     (s(x) - y) / n
kl            y (log y - x), x being log-probabilities    -y / n
"""

from __future__ import annotations

import torch
from torch import Tensor


def mse(x: Tensor, y: Tensor) -> Tensor:
    """Mean squared error."""
    return ((x - y) ** 2).mean()


def mse_backward(grad: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Gradient of x."""
    return grad * 2.0 * (x - y) / x.numel()


def huber(x: Tensor, y: Tensor, delta: float = 1.0) -> Tensor:
    """Quadratic up to `delta`, linear beyond; both pieces and their slopes meet there."""
    error = x - y
    inside, outside = 0.5 * error * error, delta * (error.abs() - 0.5 * delta)
    return torch.where(error.abs() <= delta, inside, outside).mean()


def huber_backward(grad: Tensor, x: Tensor, y: Tensor, delta: float = 1.0) -> Tensor:
    """Gradient of x: the error, clipped."""
    return grad * (x - y).clamp(-delta, delta) / x.numel()


def bce_with_logits(x: Tensor, y: Tensor) -> Tensor:
    """Binary cross-entropy of logits x and targets y in [0, 1], as max(x, 0) - x y + log(1 + e^-|x|): no overflow."""
    return (x.clamp(min=0) - x * y + torch.log1p(torch.exp(-x.abs()))).mean()


def bce_with_logits_backward(grad: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Gradient of the logits: probability minus target."""
    return grad * (torch.sigmoid(x) - y) / x.numel()


def kl_divergence(log_probabilities: Tensor, targets: Tensor) -> Tensor:
    """Sum over the last dimension, mean over the rows; y log y is 0 at 0."""
    return (torch.xlogy(targets, targets) - targets * log_probabilities).sum() / targets.shape[0]


def kl_divergence_backward(grad: Tensor, targets: Tensor) -> Tensor:
    """Gradient of the log-probabilities."""
    return -grad * targets / targets.shape[0]

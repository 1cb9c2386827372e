"""AdamW by hand, one parameter at a time.

With gradient g, step count t from 1, rates b1, b2, learning rate a and decay l

    p <- p - a l p                                decay first, on the weight itself and not through the gradient
    m <- b1 m + (1 - b1) g                        running mean
    v <- b2 v + (1 - b2) g^2                      running mean of squares
    p <- p - a (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + e)

m and v start at zero and are too small at first; the divisions by 1 - b^t correct that. Sources: Kingma and Ba 2015
(arXiv:1412.6980); Loshchilov and Hutter 2019 (arXiv:1711.05101) for the decay.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyperparameters, with the usual defaults."""

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.01


@dataclass(slots=True)
class State:
    """What one parameter carries from step to step."""

    mean: Tensor
    square: Tensor
    steps: int = 0

    @staticmethod
    def like(parameter: Tensor) -> State:
        """The state before the first step."""
        return State(torch.zeros_like(parameter), torch.zeros_like(parameter))


@torch.no_grad()
def step(parameter: Tensor, gradient: Tensor | None, state: State, settings: Settings) -> None:
    """Updates `parameter` and `state` in place. Without a gradient nothing happens: no decay and no count either."""
    if gradient is None:
        return
    state.steps += 1
    parameter.mul_(1.0 - settings.rate * settings.decay)
    state.mean.mul_(settings.beta1).add_(gradient, alpha=1.0 - settings.beta1)
    state.square.mul_(settings.beta2).addcmul_(gradient, gradient, value=1.0 - settings.beta2)
    mean = state.mean / (1.0 - settings.beta1**state.steps)
    square = state.square / (1.0 - settings.beta2**state.steps)
    parameter.sub_(settings.rate * mean / (square.sqrt() + settings.epsilon))

"""Loss scaling written out: the state machine that keeps small fp16 gradients alive and survives an overflow.

fp16 cannot hold anything below 2^-24, so the loss is multiplied by a power of two before backward, and the gradients
are divided by it before the optimizer reads them (both exact, a power of two only moves the exponent). When a scaled
gradient runs past 65504 it becomes inf, and then

    found inf:  the optimizer is not called, its state and the weights stay as they are, the scale is halved,
                the count of clean steps begins again, and the learning-rate schedule must not move either
    clean:      the optimizer steps; after `growth_interval` clean steps in a row the scale is doubled

Source: Micikevicius et al. 2018 (arXiv:1710.03740), section 3.2; constants as in torch.amp.GradScaler.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.optim import Optimizer

LARGEST_SCALE = torch.finfo(torch.float32).max


@dataclass(frozen=True, slots=True)
class ScalerState:
    """Everything a scaler remembers."""

    scale: float = 65536.0
    clean_steps: int = 0  # since the scale last changed
    skipped: int = 0  # in the whole run
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000


def advance(state: ScalerState, found_inf: bool) -> ScalerState:
    """The state after one step. Pure: this function is the whole state machine."""
    if found_inf:
        return replace(state, scale=state.scale * state.backoff_factor, clean_steps=0, skipped=state.skipped + 1)
    if state.clean_steps + 1 == state.growth_interval:
        grown = state.scale * state.growth_factor  # the scale is an fp32 number: one that would be inf stays as it is
        return replace(state, scale=grown if grown <= LARGEST_SCALE else state.scale, clean_steps=0)
    return replace(state, clean_steps=state.clean_steps + 1)


def scale_loss(loss: Tensor, state: ScalerState) -> Tensor:
    """The loss whose backward gives scaled gradients."""
    return loss * state.scale


def unscale(parameters: Iterable[Tensor], state: ScalerState) -> bool:
    """Divide every fp32 gradient by the scale, in place; True if one of them is inf or NaN.

    Raises ValueError for gradients in fp16: dividing there would lose again what the scale had saved, so the master
    weights, and with them their gradients, are fp32.
    """
    found = False
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.dtype == torch.float16:
            raise ValueError("cannot unscale fp16 gradients: keep fp32 master weights and cast in autocast")
        parameter.grad.mul_(1.0 / state.scale)
        found = found or not bool(torch.isfinite(parameter.grad).all())
    return found


def step(optimizer: Optimizer, state: ScalerState) -> tuple[ScalerState, bool]:
    """Unscale, then step or skip. Returns the new state and whether the step was skipped."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    found_inf = unscale(parameters, state)
    if not found_inf:
        optimizer.step()
    return advance(state, found_inf), found_inf

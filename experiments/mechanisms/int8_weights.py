"""Weights held as int8 with one scale per output channel, and the product with them in two ways.

For W [out, in] and x [rows, in], with o an output channel and i an input

    s_o = max_i |W_oi| / 127        q_oi = clamp(round(W_oi / s_o), -127, 127)        W_oi ~ s_o q_oi
    y = x W^T:      y_ro = sum_i x_ri (s_o q_oi)  =  s_o sum_i x_ri q_oi

This is symmetric "scale quantization" with per-channel weights (Wu et al. 2020, "Integer Quantization for Deep Learning
Inference", arXiv:2004.09602, sections 3.1.2 and 3.2): -128 is left out, so that both signs reach equally far, and 0
stays 0. `torch.round` takes a half to the even neighbour. Since s_o does not depend on i, it may be multiplied into the
weights before the product or into the outputs after it: the same numbers up to rounding.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

LARGEST = 127
CHANNELS_AT_A_TIME = 1024  # of a float64 product: bounds the float64 weights that exist at once


class Int8Weight(NamedTuple):
    """A weight as it is held: `values` int8 [out, in], `scales` float32 [out]."""

    values: Tensor
    scales: Tensor


class Rounding(NamedTuple):
    """How far quantised weights are from the original ones."""

    error: float  # relative L2 over all weights
    predicted: float  # the same if each error were uniform within half a step to either side
    largest_step: float  # largest single error, in steps of its own channel: 0.5 where everything was rounded


def quantise(weight: Tensor) -> Int8Weight:
    """The int8 form of a weight [out, in]. Raises ValueError for one that is not finite or not two-dimensional.

    A channel of zeros alone has the scale 1: any scale holds it.
    """
    if weight.dim() != 2 or not bool(torch.isfinite(weight).all()):
        raise ValueError(f"a finite weight [out, in] is wanted, not one of shape {list(weight.shape)}")
    scales = weight.abs().amax(dim=1).float() / LARGEST
    scales = torch.where(scales > 0, scales, torch.ones_like(scales))
    steps = torch.round(weight / scales[:, None])
    return Int8Weight(steps.clamp(-LARGEST, LARGEST).to(torch.int8), scales)


def dequantise(held: Int8Weight, dtype: torch.dtype = torch.float32) -> Tensor:
    """The weight [out, in] that the int8 form stands for. Exact in float64: 7 bits times 24."""
    return held.values.to(dtype) * held.scales.to(dtype)[:, None]


def product_dequantised(x: Tensor, held: Int8Weight) -> Tensor:
    """x [rows, in] times the weight, scaled before the product: y [rows, out] in x's dtype."""
    return x @ dequantise(held, x.dtype).T


def product_scaled_after(x: Tensor, held: Int8Weight) -> Tensor:
    """x [rows, in] times the int8 values, each output channel scaled after the product: y [rows, out] in x's dtype."""
    return (x @ held.values.to(x.dtype).T) * held.scales.to(x.dtype)


def product_float64(x: Tensor, held: Int8Weight) -> Tensor:
    """The same product in float64 throughout: y [rows, out]. The weight exists a block of channels at a time."""
    exact = x.double()
    blocks = zip(held.values.split(CHANNELS_AT_A_TIME), held.scales.split(CHANNELS_AT_A_TIME), strict=True)
    return torch.cat([exact @ dequantise(Int8Weight(*block), torch.float64).T for block in blocks], dim=1)


def rounding(weight: Tensor, held: Int8Weight) -> Rounding:
    """What quantising lost. Raises ValueError for a weight of zeros, which loses nothing that could be relative.

    Errors uniform in [-s/2, s/2] have the mean square s^2 / 12 (Bennett 1948, "Spectra of quantized signals", Bell
    System Technical Journal 27).
    """
    original, scales = weight.double(), held.scales.double()
    size = float(torch.linalg.vector_norm(original))
    if size == 0:
        raise ValueError("a weight of zeros alone has no relative error")
    apart = dequantise(held, torch.float64).sub_(original)
    uniform = math.sqrt(float(scales.square().sum()) * weight.shape[1] / 12)
    return Rounding(
        error=float(torch.linalg.vector_norm(apart)) / size,
        predicted=uniform / size,
        largest_step=float((apart.abs_() / scales[:, None]).max()),
    )

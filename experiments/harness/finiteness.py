"""Whether numbers are finite: NaN and infinity are findings, and never go into JSON as if they were values."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor


def finite_or_none(value: float) -> float | None:
    """The value, or None for NaN and infinity."""
    return value if math.isfinite(value) else None


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of the tensors that hold a NaN or an infinity. Waits for the device once."""
    if not tensors:
        return []
    flags = torch.stack([torch.isfinite(value.detach()).all() for value in tensors.values()]).tolist()
    return [name for name, fine in zip(tensors, flags, strict=True) if not fine]

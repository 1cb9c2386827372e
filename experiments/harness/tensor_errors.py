"""How far tensors lie from what they are compared with, as a child answers it. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Errors:
    """How far tensors lie from their references. Errors are relative L2 norms; None where one could not be formed."""

    overall: float | None  # over all tensors as one vector
    worst: float | None
    worst_name: str
    tensors: int
    not_finite: tuple[str, ...]
    reference_norm: float

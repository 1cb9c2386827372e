"""What the children of a training step answer with, as values that both sides of the fork know. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.harness.tensor_errors import Errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What a candidate has to tell besides its step."""

    peer: str | None = None  # which version of somebody else's code took part, as the process that loaded it found out
    transferred_bytes: int | None = None  # moved between device and host in one step, both ways


@dataclass(frozen=True, slots=True, kw_only=True)
class Underflow:
    """Entries of the gradient that a reference says are not zero: how many were looked at, and how many were lost."""

    below_normal: int = 0  # zeros among them
    zeros: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceAnswer:
    """The float64 twin; its gradients are on the disk."""

    loss: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAnswer:
    """One clean optimizer step from the seeded weights. A comparison that was not made, or could not be, is None."""

    loss: float | None
    skipped: bool
    scales: tuple[float, ...]  # tried in turn; empty without a scaler
    dtypes: Mapping[str, str]  # by stage of the step
    not_finite: tuple[str, ...]  # names of tensors
    gradient: Errors | None
    oracle: Errors | None
    update: Errors | None
    weight_norm: float | None
    update_norm: float | None
    underflow: Underflow
    notes: Notes


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseReading:
    """One phase of one step: its peak in bytes where the device tells one, and how long it took."""

    phase: str
    peak: int | None
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureAnswer:
    """The timed steps of one process, in their order, and its memory in bytes. What was not read is None."""

    step_ms: tuple[float, ...]
    wall_ms: tuple[float, ...]
    busy_ms: float | None  # of one more step under the profiler
    losses: tuple[float | None, ...]
    scales: tuple[float | None, ...]
    skipped: tuple[bool, ...]
    not_finite: tuple[str, ...]
    peak_allocated: int | None
    peak_reserved: int | None
    process: int | None
    after_forward: int | None
    state: int | None
    phases: tuple[PhaseReading, ...]
    notes: Notes

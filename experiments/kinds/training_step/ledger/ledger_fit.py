"""What fits a card of a given memory, by the ledger alone: every candidate of a workload, and the ladder where not.

A candidate needs its peak, a share of it that the allocator loses between blocks, and the CUDA context. "Fits" also
holds on a card that reports 8 % less than its class, as an "8 GiB" card may; "tight" takes every byte of the figure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from experiments.harness.experiment import CandidateSpec
from experiments.kinds.training_step.ledger.ledger import CONTEXT_BYTES, Ledger, forecast
from experiments.kinds.training_step.ledger.ledger_settings import Head, for_candidate
from experiments.kinds.training_step.ledger.step_bytes import GIB, WORKSPACE_BYTES
from experiments.kinds.training_step.training_workload import TrainingWorkload, shorter
from experiments.models.registered_config import DecoderShape
from tools.environments.machine.host_gate import TOLERANCE

FRAGMENTATION = 0.05  # of the peak
GRADIENT_AND_WEIGHT = 8  # bytes a parameter: what plain SGD holds at its update, whatever the batch

Verdict = Literal["fits", "tight", "too large", "not predicted"]


@dataclass(frozen=True, slots=True)
class FitRow:
    """One candidate on one card. Where it does not fit: what would.

    `smaller` is the first step of the ladder that does; `chunked` says whether the workload as it stands does with the
    loss head in chunks.
    """

    candidate: str
    ledger: Ledger | None
    verdict: Verdict
    smaller: TrainingWorkload | None = None
    chunked: bool = False

    @property
    def card_gib(self) -> float | None:
        """The smallest card class, in GiB, it surely fits; None where nothing is predicted."""
        return None if self.ledger is None else card_bytes(self.ledger) / GIB


def card_bytes(ledger: Ledger) -> float:
    """Class of card the candidate fits on: peak and what is lost between blocks, graph pool, context, short reports."""
    return ((1 + FRAGMENTATION) * ledger.peak + ledger.pool + CONTEXT_BYTES) / (1 - TOLERANCE)


def floor_bytes(shape: DecoderShape) -> int:
    """What any step of this model takes, however small its batch: weights, gradients, workspaces, context."""
    return GRADIENT_AND_WEIGHT * shape.parameters + WORKSPACE_BYTES + CONTEXT_BYTES


def fit(
    workload: TrainingWorkload, specs: Iterable[CandidateSpec], shape: DecoderShape, memory_bytes: float
) -> tuple[FitRow, ...]:
    """A row for each candidate, in order. Raises LabError for a workload that is no step of this model."""
    return tuple(_row(workload, spec, shape, memory_bytes) for spec in specs)


def _row(workload: TrainingWorkload, spec: CandidateSpec, shape: DecoderShape, memory_bytes: float) -> FitRow:
    settings = for_candidate(workload, spec.settings)
    if settings is None:
        return FitRow(spec.name, None, "not predicted")

    def fits(batch: int, sequence: int, head: Head) -> bool:
        less = replace(settings, batch=batch, sequence=sequence, head=head, micro_batches=1)
        less = replace(less, micro_batches=min(settings.micro_batches, batch))
        return card_bytes(forecast(shape, less)) <= memory_bytes

    ledger = forecast(shape, settings)
    if card_bytes(ledger) <= memory_bytes:
        return FitRow(spec.name, ledger, "fits")
    step = shorter(workload)
    while step is not None and not fits(step.batch, step.sequence, settings.head):
        step = shorter(step)
    return FitRow(
        spec.name,
        ledger,
        verdict="tight" if ledger.needed <= memory_bytes else "too large",
        smaller=step,
        chunked=settings.head == "full" and fits(workload.batch, workload.sequence, "chunked"),
    )

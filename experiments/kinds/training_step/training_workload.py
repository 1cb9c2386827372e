"""What is computed: every knob of a training workload, its digest, and the checks a user's own setting has to pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from experiments.evidence.vocabulary import JsonValue
from experiments.harness.measured_workload import (
    MOST_ROUNDS,
    MOST_STEPS,
    MeasuredWorkload,
    check_bounds,
    check_samples,
    check_seed,
)
from experiments.models.registered_config import DecoderShape
from tools.environments.errors import EXIT_USAGE, LabError

MOST_TOKENS = 2**24  # in one effective batch, whose rows are built in memory: far above what a card can train on
MOST_PIECES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingWorkload(MeasuredWorkload):
    """A training workload: one repetition is one optimizer step. Never widened: records name it by its digest."""

    model: str
    batch: int  # rows in one effective batch
    sequence: int  # positions in a row
    optimizer: Literal["sgd", "adamw"] = "sgd"
    learning_rate: float = 0.05
    piece_of: int = 1  # this batch is one of so many pieces of an optimizer step: its loss is divided by all tokens
    head: Literal["full", "chunked", "both"] = "full"
    precision: str = "auto"
    dropout: float = 0.0
    oracle: bool = True  # run the float64 twin on this workload
    extra: Mapping[str, JsonValue] = field(default_factory=dict)  # knobs of one experiment

    @property
    def row_lengths(self) -> tuple[int, ...] | None:
        """How long each row is where rows differ: `extra["shortest_row"]` is the shortest, as a share of the sequence.

        From the shortest to the full sequence in equal ratios, in an order drawn from the seed. None: all are full.
        """
        share = self.extra.get("shortest_row")
        if not isinstance(share, int | float):
            return None
        ratios = [share ** (number / max(1, self.batch - 1)) for number in range(self.batch)]
        lengths = [max(1, round(self.sequence * ratio)) for ratio in ratios]
        import random  # here: whoever only lists workloads starts without it

        random.Random(self.seed).shuffle(lengths)
        return tuple(lengths)

    @property
    def tokens(self) -> int:
        """Positions that carry a loss in one effective batch."""
        return sum(self.row_lengths or (self.sequence,) * self.batch)


def check(workload: TrainingWorkload, shape: DecoderShape) -> None:
    """Refuse a workload that cannot mean anything. Raises LabError (wrong usage) naming the option to change."""
    check_seed(workload.seed)
    check_bounds(
        ("--batch", workload.batch, 1, None),  # its upper end hangs on the sequence: see below
        ("--sequence", workload.sequence, 2, None),
        ("--steps", workload.steps, 1, MOST_STEPS),
        ("--rounds", workload.rounds, 1, MOST_ROUNDS),
        ("--warmup", workload.warmup, 0, MOST_STEPS),
        ("--piece-of", workload.piece_of, 1, MOST_PIECES),
    )
    if workload.sequence > shape.positions:
        raise LabError(
            wanted=f"a sequence within the {shape.positions} positions of {workload.model}",
            found=str(workload.sequence),
            next=f"give --sequence {shape.positions} or less",
            where="--sequence",
            code=EXIT_USAGE,
        )
    if workload.batch * workload.sequence > MOST_TOKENS:
        raise LabError(
            wanted=f"at most {MOST_TOKENS} tokens in one batch",
            found=f"{workload.batch} x {workload.sequence}",
            next=f"give --batch {MOST_TOKENS // workload.sequence} or less",
            where="--batch",
            code=EXIT_USAGE,
        )
    check_samples(workload, timed=1)


def shorter(workload: TrainingWorkload) -> TrainingWorkload | None:
    """The next step down the page's ladder after an OOM: first a shorter sequence, then fewer rows; None at its end."""
    if workload.sequence >= 512:
        return replace(workload, sequence=workload.sequence // 2)
    if workload.batch > 1:
        return replace(workload, batch=workload.batch // 2)
    if workload.sequence > 128:
        return replace(workload, sequence=workload.sequence // 2)
    return None

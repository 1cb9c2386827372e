"""What is computed: every knob of a training workload, its digest, and the checks a user's own setting has to pass."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from experiments.evidence.digests import digest_of
from experiments.evidence.vocabulary import JsonValue
from experiments.models.registered_config import DecoderShape
from tools.environments.errors import EXIT_USAGE, LabError

MOST_TOKENS = 2**24  # in one effective batch, whose rows are built in memory: far above what a card can train on


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A training workload. Steps and rounds count optimizer steps and fresh processes per candidate."""

    name: str
    model: str
    batch: int  # rows in one effective batch
    sequence: int  # positions in a row
    steps: int  # measured steps in each process
    warmup: int  # steps before them, a fixed number
    rounds: int  # processes per candidate
    seed: int = 0
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
        random.Random(self.seed).shuffle(lengths)
        return tuple(lengths)

    @property
    def tokens(self) -> int:
        """Positions that carry a loss in one effective batch."""
        return sum(self.row_lengths or (self.sequence,) * self.batch)

    def knobs(self) -> dict[str, JsonValue]:
        """Every knob but the name, as JSON values: what the digest covers."""
        values = asdict(self)
        del values["name"]
        return values

    def digest(self) -> str:
        """Names this workload: two runs are compared only where it agrees."""
        return digest_of(self.knobs())


def changed(registered: Workload, **knobs: object) -> Workload:
    """The workload with the knobs a user gave; None leaves a knob as registered."""
    return replace(registered, **{key: value for key, value in knobs.items() if value is not None})  # type: ignore[arg-type]


def check(workload: Workload, shape: DecoderShape) -> None:
    """Refuse a workload that cannot mean anything. Raises LabError (wrong usage) naming the option to change."""
    for option, value, least in (
        ("--batch", workload.batch, 1),
        ("--sequence", workload.sequence, 2),
        ("--steps", workload.steps, 1),
        ("--rounds", workload.rounds, 1),
        ("--warmup", workload.warmup, 0),
        ("--piece-of", workload.piece_of, 1),
    ):
        if value < least:
            raise LabError(
                wanted=f"a whole number of at least {least}",
                found=str(value),
                next=f"leave {option} out to take the registered workload, or give {least} or more",
                where=option,
                code=EXIT_USAGE,
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


def shorter(workload: Workload) -> Workload | None:
    """The next step down the page's ladder after an OOM: first a shorter sequence, then fewer rows; None at its end."""
    if workload.sequence >= 512:
        return replace(workload, sequence=workload.sequence // 2)
    if workload.batch > 1:
        return replace(workload, batch=workload.batch // 2)
    if workload.sequence > 128:
        return replace(workload, sequence=workload.sequence // 2)
    return None

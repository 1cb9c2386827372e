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
from tools.environments.strict_json import LARGEST_INTEGER

MOST_TOKENS = 2**24  # in one effective batch, whose rows are built in memory: far above what a card can train on
MOST_SAMPLES = 25_000  # measured steps of all candidates: about 300 bytes each, in a record of at most 8 MiB
MOST_STEPS = 10_000  # in one process
MOST_ROUNDS = 1000  # each is a fresh process per candidate
MOST_PIECES = 2**20
LARGEST_SEED = LARGEST_INTEGER - 1  # torch takes 64 bits, a record's integers 53


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


def _out_of_bounds(option: str, value: int, words: str, beyond: str, bound: int) -> LabError:
    return LabError(
        wanted=f"a whole number of {words} {bound}",
        found=str(value),
        next=f"leave {option} out to take the registered workload, or give {bound} or {beyond}",
        where=option,
        code=EXIT_USAGE,
    )


def check(workload: Workload, shape: DecoderShape) -> None:
    """Refuse a workload that cannot mean anything. Raises LabError (wrong usage) naming the option to change."""
    check_seed(workload.seed)
    for option, value, least, most in (
        ("--batch", workload.batch, 1, None),  # its upper end hangs on the sequence: see below
        ("--sequence", workload.sequence, 2, None),
        ("--steps", workload.steps, 1, MOST_STEPS),
        ("--rounds", workload.rounds, 1, MOST_ROUNDS),
        ("--warmup", workload.warmup, 0, MOST_STEPS),
        ("--piece-of", workload.piece_of, 1, MOST_PIECES),
    ):
        if value < least:
            raise _out_of_bounds(option, value, "at least", "more", least)
        if most is not None and value > most:
            raise _out_of_bounds(option, value, "at most", "less", most)
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


def check_seed(seed: int) -> None:
    """Refuse a seed that a record cannot hold. Raises LabError (wrong usage)."""
    if abs(seed) > LARGEST_SEED:
        raise LabError(
            wanted=f"a seed from -{LARGEST_SEED} to {LARGEST_SEED}",
            found=str(seed),
            next="leave --seed out to take the registered one, or give a smaller number",
            where="--seed",
            code=EXIT_USAGE,
        )


def check_samples(workload: Workload, timed: int) -> None:
    """Refuse more measured steps than a record holds, `timed` candidates together. Raises LabError (wrong usage)."""
    if workload.rounds * workload.steps * timed > MOST_SAMPLES:
        of_all = f" x {timed} timed candidates" if timed > 1 else ""
        raise LabError(
            wanted=f"at most {MOST_SAMPLES} measured steps in one run, which is what a record holds",
            found=f"{workload.rounds} rounds x {workload.steps} steps{of_all}",
            next="give fewer --steps or --rounds",
            where="--steps, --rounds",
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

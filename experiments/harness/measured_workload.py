"""What the engine itself has to know of any workload: how often it is repeated, its seed, and the digest that names it.

A kind's own workload class derives from this one and adds its knobs. It is never widened once a record of it exists:
one more field would give every committed record another digest.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from experiments.evidence.digests import digest_of
from experiments.evidence.vocabulary import JsonValue
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.strict_json import LARGEST_INTEGER

MOST_SAMPLES = 25_000  # measured repetitions of all candidates: about 300 bytes each, in a record of at most 8 MiB
MOST_STEPS = 10_000  # in one process
MOST_ROUNDS = 1000  # each is a fresh process per candidate
REPETITION = ("steps", "warmup", "rounds", "seed")  # knobs of every workload, each an option of that name
LARGEST_SEED = LARGEST_INTEGER - 1  # torch takes 64 bits, a record's integers 53


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredWorkload:
    """What is repeated how often. Rounds count fresh processes per candidate."""

    name: str
    steps: int  # measured repetitions in each process
    warmup: int  # repetitions before them, a fixed number
    rounds: int  # processes per candidate
    seed: int = 0

    def knobs(self) -> dict[str, JsonValue]:
        """Every knob but the name, as JSON values: what the digest covers."""
        values = asdict(self)
        del values["name"]
        return values

    def digest(self) -> str:
        """Names this workload: two runs are compared only where it agrees."""
        return digest_of(self.knobs())


WorkloadT = TypeVar("WorkloadT", bound=MeasuredWorkload)


def changed(registered: WorkloadT, **knobs: object) -> WorkloadT:
    """The workload with the knobs a user gave; None leaves a knob as registered."""
    return replace(registered, **{key: value for key, value in knobs.items() if value is not None})  # type: ignore[arg-type]


def check_bounds(*bounds: tuple[str, int, int, int | None]) -> None:
    """Refuse a number outside its bounds: (option, value, least, most). Raises LabError (wrong usage) for the first."""
    for option, value, least, most in bounds:
        if value < least:
            raise _out_of_bounds(option, value, "at least", "more", least)
        if most is not None and value > most:
            raise _out_of_bounds(option, value, "at most", "less", most)


def _out_of_bounds(option: str, value: int, words: str, beyond: str, bound: int) -> LabError:
    return LabError(
        wanted=f"a whole number of {words} {bound}",
        found=str(value),
        next=f"leave {option} out to take the registered workload, or give {bound} or {beyond}",
        where=option,
        code=EXIT_USAGE,
    )


def check_repetition(workload: MeasuredWorkload) -> None:
    """Refuse a number of repetitions or a seed that cannot be measured or recorded. Raises LabError (wrong usage)."""
    check_seed(workload.seed)
    check_bounds(
        ("--steps", workload.steps, 1, MOST_STEPS),
        ("--rounds", workload.rounds, 1, MOST_ROUNDS),
        ("--warmup", workload.warmup, 0, MOST_STEPS),
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


def check_samples(workload: MeasuredWorkload, timed: int) -> None:
    """Refuse more repetitions than a record holds, `timed` candidates together. Raises LabError (wrong usage)."""
    if workload.rounds * workload.steps * timed > MOST_SAMPLES:
        of_all = f" x {timed} timed candidates" if timed > 1 else ""
        raise LabError(
            wanted=f"at most {MOST_SAMPLES} measured steps in one run, which is what a record holds",
            found=f"{workload.rounds} rounds x {workload.steps} steps{of_all}",
            next="give fewer --steps or --rounds",
            where="--steps, --rounds",
            code=EXIT_USAGE,
        )

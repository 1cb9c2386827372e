"""What a version of the rules consists of: everything that is computed of a record, as one value.

A version is a folder beside this file that makes one such value from its own code. What it computes never changes
again once a record was made with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from experiments.evidence.candidate import Candidate, Sample, Summary
from experiments.evidence.conclusion import Comparison, Limit, NoiseFloor
from experiments.evidence.record import Quantity, Record
from experiments.evidence.vocabulary import Level


@dataclass(frozen=True, slots=True)
class ClaimGrade:
    """Level and limits of one claim."""

    level: Level
    limits: tuple[Limit, ...]


@dataclass(frozen=True, slots=True)
class Grade:
    """`level` and `limits` of the record (level limits first), and a grade for each claim, in the record's order."""

    level: Level
    limits: tuple[Limit, ...]
    claims: tuple[ClaimGrade, ...]


class ScopeOf(Protocol):
    """What takes part in a run: paths all share, and the ones named, each relative to the root of the checkout."""

    def __call__(self, *own: str) -> tuple[str, ...]: ...


TakesPart: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One version. Times are in ms, ratios and noise floors are shares."""

    version: int
    # Statistics
    summarise: Callable[[str, Sequence[Sample], Sequence[Quantity]], Summary | None]  # of the candidate of that name
    noise_floors: Callable[[Sequence[Candidate], Sequence[Quantity]], tuple[NoiseFloor, ...]]
    comparisons: Callable[[Sequence[Candidate], Sequence[Quantity]], tuple[Comparison, ...]]  # against the baseline
    # second record's candidate against the first's in one quantity, given the noise of both
    across: Callable[[Candidate, Candidate, float | None, Quantity], Comparison | None]
    # The digest of the sources
    scope_of: ScopeOf
    takes_part: TakesPart  # whether a file in scope, by its path, goes into the digest
    # Gates and grade
    failed_gates: Callable[[Candidate], list[str]]
    grade: Callable[[Record], Grade]
    on_profile: tuple[str, ...]  # checks of a preflight that make an environment the profile's
    # Claims and decision are drawn where the experiments are: which version of that code goes with these rules
    conclusions: int


Known: TypeAlias = Mapping[int, Rules]  # by version

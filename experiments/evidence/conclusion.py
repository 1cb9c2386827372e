"""What a record concludes: comparisons, claims, limits, the decision. Levels and limits are `grade`'s to fill in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from experiments.evidence.vocabulary import (
    ClaimKind,
    Count,
    DecisionCode,
    Duration,
    JsonValue,
    Level,
    Name,
    Verdict,
    Word,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A sentence as data: the code of its template and what fills it. The English text beside it follows from both."""

    code: Annotated[Word, "template of the kind or of the experiment"]
    arguments: Annotated[Mapping[str, JsonValue], "values of the template's fields"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """How far two measurements of the same thing lie apart in this run: the A/A difference."""

    quantity: Annotated[Word, "a declared quantity: step_ms, wall_ms, busy_ms"]
    relative: Annotated[Duration, "far end of the 95 % interval of twin / baseline - 1: up to it is noise"]
    baseline: Name
    again: Annotated[Name, "the baseline's twin"]
    samples: Annotated[Count, "ordinary samples on both sides together"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One candidate against the baseline in one quantity."""

    candidate: Name
    baseline: Name
    quantity: Word
    ratio: Annotated[Duration | None, "median of the candidate / median of the baseline"] = None
    low: Annotated[Duration | None, "lower end of the 95 % bootstrap interval of the ratio"] = None
    high: Annotated[Duration | None, "upper end of the 95 % bootstrap interval of the ratio"] = None
    noise_floor: Annotated[Duration | None, "relative A/A difference; null when it is not known"] = None
    verdict: Annotated[Verdict, "faster, slower, better, worse or same beyond doubt, else ambiguous"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One reason why a level or a claim reaches no higher, and what would lift it."""

    code: Annotated[Word, "stable word, listed in docs/evidence_contract.md"]
    reason: str
    lift: Annotated[str, "what to do about it; empty where nothing can be done within this profile"] = ""
    claims: Annotated[tuple[ClaimKind, ...], "claims it limits; empty when it limits the level of the record"] = ()
    said: Annotated[Said | None, "reason and lift as data; null before schema 1.2"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One thing the record supports. The run proposes kind, statement and candidates; `grade` sets level and limits."""

    kind: ClaimKind
    statement: Annotated[str, "one sentence with numbers from this record"]
    candidates: Annotated[tuple[str, ...], "the candidates it is about"]
    rests_on: Annotated[tuple[Word, ...], "quantities, gates and probes that each of them must have for it"] = ()
    said: Annotated[Said | None, "the statement as data; null before schema 1.2"] = None
    level: Annotated[Level | None, "null only before grading"] = None
    limits: Annotated[tuple[Limit, ...], "reasons that hold for this claim"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a reader should do."""

    code: DecisionCode
    sentence: Annotated[str, "one sentence: what, and why"]
    said: Annotated[Said | None, "the sentence as data; null before schema 1.2"] = None

"""The record of one run of one experiment: every field group, frozen. Written once, never edited.

A run builds a `Record` without level, passes it through `rules.graded`, and hands it to `store.write`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from experiments.evidence import earlier_shapes
from experiments.evidence.candidate import Candidate
from experiments.evidence.codec import from_json, to_json
from experiments.evidence.conclusion import Claim, Comparison, Decision, Limit, NoiseFloor
from experiments.evidence.runtime import RuntimeSnapshot
from experiments.evidence.subject import Backend, Model, ProfileFacts, Source, Workload
from experiments.evidence.vocabulary import (
    RULES_VERSION,
    SCHEMA_VERSION,
    Better,
    Count,
    Duration,
    Label,
    LaunchType,
    Level,
    Moment,
    Name,
    Pattern,
    RunMode,
    Taken,
    Unit,
    Word,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the processes of one candidate live and die."""

    type: Annotated[LaunchType, "one forked process, N ranks that meet on loopback, or a server and its client"] = (
        "process"
    )
    ranks: Annotated[Count, "processes that do the work of one candidate together"] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One thing that is measured, declared once per record by its kind."""

    word: Word
    unit: Unit
    better: Annotated[Better | None, "which way is better; null for what is only watched, such as a loss"] = None
    main: Annotated[bool, "a decision weighs it"] = False
    taken: Annotated[Taken, "one value per repetition, or one per process of which the largest counts"] = "repetition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which run this is."""

    schema_version: Annotated[str, Pattern(r"^[0-9]+\.[0-9]+\.[0-9]+$")] = SCHEMA_VERSION
    kind: Annotated[Word, "what one repetition is: training_step, operator, collective, ..."] = "training_step"
    launch: Annotated[Launch, "how the processes of one candidate live"] = field(default_factory=lambda: Launch())
    rules: Annotated[Count, "version of the rules that computed statistics, grade, claims and decision"] = RULES_VERSION
    experiment: Annotated[str, Pattern(r"^[a-z][a-z0-9_]{0,63}$")]
    page: Annotated[str, "page of the tutorial it belongs to"]
    run_label: Annotated[Label, "used once"]
    run_mode: RunMode
    created_at: Annotated[Moment, "UTC, when the run began"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """How the measuring was done."""

    rounds: Count
    steps_per_round: Annotated[Count, "measured repetitions in each process"]
    warmup_steps: Annotated[Count, "repetitions before them"]
    order_seed: Annotated[int, "seed of the random order in each round"]
    isolation: Annotated[Name, "how each candidate got a process of its own: fork, spawn"]
    resumed: Annotated[Count, "times the run was interrupted and taken up again"] = 0
    duration_s: Annotated[Duration | None, "whole run, imports and process starts included"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Ceilings of this device, measured in the same run: the floors are computed from them."""

    matmul_tflops: Annotated[Mapping[str, Duration], "measured matmul rate by dtype, 1e12 operations a second"]
    host_to_device_gb_s: Annotated[Duration | None, "pinned, 1e9 bytes a second"] = None
    device_to_host_gb_s: Annotated[Duration | None, "pinned, 1e9 bytes a second"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run. `evidence_level`, `limits` and the claims' levels are filled by `rules.graded`, nobody else."""

    identity: Identity
    source: Source
    backend: Backend
    profile: ProfileFacts
    runtime: RuntimeSnapshot
    model: Annotated[Model | None, "null where the subject is no model"] = None
    workload: Workload
    quantities: Annotated[tuple[Quantity, ...], "what was measured, in the words of the samples and the memory"]
    procedure: Annotated[Procedure | None, "null for a dry run"] = None
    calibration: Calibration | None = None
    candidates: tuple[Candidate, ...]
    noise_floors: tuple[NoiseFloor, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    claims: tuple[Claim, ...] = ()
    decision: Decision
    evidence_level: Annotated[Level | None, "null only before grading"] = None
    limits: tuple[Limit, ...] = ()

    def baseline(self) -> Candidate | None:
        """The candidate the others are compared with, if the run has one."""
        return next((candidate for candidate in self.candidates if candidate.is_baseline), None)

    def compared_by(self) -> Quantity | None:
        """The quantity by which candidates are compared first: the main one of those taken per repetition."""
        found = (quantity for quantity in self.quantities if quantity.taken == "repetition" and quantity.main)
        return next(found, None)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values in the shape of the record's own schema version: every field, null where missing."""
        document: dict[str, Any] = to_json(self)
        return earlier_shapes.downgrade(document) if earlier_shapes.is_earlier(document) else document

    def quantity(self, word: str) -> Quantity | None:
        """The declaration of a quantity; None where the record declares none of that word."""
        return next((quantity for quantity in self.quantities if quantity.word == word), None)

    @staticmethod
    def from_json(value: object) -> Record:
        """The record from parsed JSON of any minor version. Raises LabError that names the field which does not fit."""
        return from_json(Record, earlier_shapes.upgrade(value) if earlier_shapes.is_earlier(value) else value)

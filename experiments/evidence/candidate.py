"""One candidate of a run: what was set, every sample taken, what they sum up to, and what was checked about them.

Times are milliseconds, sizes bytes, errors relative L2. Missing is None: a peak that nobody read is not 0 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from experiments.evidence.vocabulary import (
    Bytes,
    CandidateStatus,
    Count,
    Duration,
    JsonValue,
    Mark,
    Name,
    Phase,
    Role,
    Since,
    Unit,
    Word,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured repetition in one fresh process of one round."""

    round: Annotated[Count, "round this repetition belongs to, from 0; each round is a fresh process"]
    position: Annotated[Count, "place of the candidate in its round, from 0: the order is randomised"]
    step: Annotated[Count, "measured repetition inside the process, from 0, warm-up not counted"]
    values: Annotated[
        Mapping[Word, float], "value of each declared quantity that this repetition has; one that is missing is absent"
    ] = field(default_factory=dict)
    skipped: Annotated[bool, "no ordinary repetition (a skipped optimizer step): kept, never averaged in"] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A measured quantity summed up: median, quartiles, and a 95 % bootstrap interval of the median."""

    median: float
    quartile_low: float
    quartile_high: float
    low: Annotated[float, "lower end of the 95 % bootstrap interval of the median"]
    high: Annotated[float, "upper end of the 95 % bootstrap interval of the median"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What the ordinary (not skipped) samples sum up to."""

    samples: Annotated[Count, "ordinary repetitions that went into the summary"]
    skipped: Annotated[Count, "repetitions left out of it"]
    rounds: Annotated[Count, "rounds they come from"]
    intervals: Annotated[Mapping[Word, Interval], "by quantity; one without a value is absent"] = field(
        default_factory=dict
    )

    def median(self, quantity: str) -> float | None:
        """The median of a quantity; None where it was not measured."""
        found = self.intervals.get(quantity)
        return None if found is None else found.median


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePeak:
    """The highest allocation seen inside one phase of a step."""

    phase: Phase
    peak_allocated_bytes: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of a candidate's processes, largest over the rounds, peaks reset after warm-up."""

    peak_allocated_bytes: Annotated[Bytes | None, "highest sum of live tensors"] = None
    peak_reserved_bytes: Annotated[Bytes | None, "highest sum held by the allocator"] = None
    process_bytes: Annotated[Bytes | None, "the process on the device as NVML sees it, context included"] = None
    after_forward_bytes: Annotated[
        Bytes | None, "allocated when the forward pass has ended: what backward waits on"
    ] = None
    state_bytes: Annotated[Bytes | None, "weights, gradients, optimizer state"] = None
    peak_phase: Annotated[Phase | None, "phase in which the allocated peak fell"] = None
    phases: Annotated[tuple[PhasePeak, ...], "peak of each phase, in the order they ran"] = ()
    transferred_bytes: Annotated[Bytes | None, "moved between device and host in one step, both ways"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One comparison that has to hold before any timing counts."""

    passed: bool
    against: Annotated[Name, "what it was compared with: a candidate's name, or `float64 oracle`"]
    error: Annotated[Duration | None, "worst relative L2 error; null when it could not be formed"] = None
    tolerance: Annotated[Duration | None, "largest error that passes"] = None
    yardstick: Annotated[str, "where the tolerance comes from, as a formula or a sentence"] = ""
    tensors: Annotated[Count | None, "tensors compared"] = None
    worst: Annotated[str, "name of the tensor with the worst error"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """Finiteness and the gates. A gate that was not run is absent, which never counts as passed."""

    finite: Annotated[bool | None, "loss, gradients and parameters were all finite"] = None
    not_finite: Annotated[tuple[str, ...], "names of tensors that were not"] = ()
    wanted: Annotated[tuple[Word, ...], "gates that the kind demands of this candidate before its numbers count"] = ()
    gates: Annotated[Mapping[Word, Gate], "gates that were run, by name"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerTrace:
    """What the gradient scaler did about one injected overflow."""

    injected_step: Annotated[Count, "step at which an infinity was put into a gradient"]
    scale_before: Duration
    scale_after: Duration
    skips_counted: Count
    parameters_identical: Annotated[bool, "bit for bit, before and after the skipped step"]
    optimizer_state_identical: Annotated[bool, "bit for bit, before and after the skipped step"]
    schedule_advanced: Annotated[bool, "the learning-rate schedule moved although the step was skipped"]
    passed: Annotated[bool, "the whole state machine held"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """How the numbers were represented and what got lost."""

    dtypes: Annotated[Mapping[str, str], "dtype by stage: parameter, activation, gradient, master_copy"]
    underflow_share: Annotated[Duration | None, "share of gradient entries that became zero or subnormal, 0 to 1"] = (
        None
    )
    underflow_entries: Annotated[Count | None, "how many gradient entries that is"] = None
    gradient_entries: Annotated[Count | None, "gradient entries looked at"] = None
    scale_sequence: Annotated[
        tuple[Duration, ...], "loss scale before each step, in order; empty without a scaler"
    ] = ()
    skipped_steps: Annotated[tuple[Count, ...], "steps whose update was skipped"] = ()
    scaler: Annotated[ScalerTrace | None, "null for a candidate without a scaler"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A formula's value beside the measured one, written before the measuring."""

    quantity: Annotated[Word, "what is predicted: after_forward_bytes, peak_allocated_bytes, step_ms, ..."]
    formula: Annotated[Name, "name of the formula in the ledger"]
    unit: Unit
    predicted: float
    measured: Annotated[float | None, "null where nothing was executed"] = None
    residual: Annotated[float | None, "measured / predicted - 1; null where nothing was executed"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The least a quantity could be on this device, and how far the candidate is from it."""

    quantity: Word
    limited_by: Annotated[Name, "what sets the floor: matmul rate, pinned bandwidth, state bytes"]
    unit: Unit
    floor: Duration
    distance: Annotated[float | None, "measured / floor; null where nothing was measured"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a candidate has no full set of samples. A result, never dropped."""

    phase: Phase
    kind: Annotated[Name, "class of the failure: OutOfMemoryError, Killed, NonFiniteLoss, ..."]
    message: Annotated[str, "first lines, made free of anything private"]
    round: Annotated[Count | None, "round in which it happened"] = None
    proposal: Annotated[str | None, "what to try: for an OOM the next step of the page's ladder"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way of doing the same work, and everything known about it."""

    name: Name
    role: Role
    settings: Annotated[Mapping[str, JsonValue], "every setting that makes it this candidate"]
    status: CandidateStatus
    samples: tuple[Sample, ...] = ()
    summary: Annotated[Summary | None, "recomputed from the samples by `results verify`"] = None
    memory: Memory | None = None
    checks: Checks = field(default_factory=Checks)
    numerics: Annotated[Numerics | None, "dtype map, underflow, scaler; null where precision is not the subject"] = None
    probes: Annotated[
        Mapping[str, Mapping[str, JsonValue]] | None,
        Since(1),
        "answers of its probes by name, but for one that `numerics` tells; absent before version 1.1",
    ] = field(default_factory=dict)
    predictions: tuple[Prediction, ...] = ()
    floors: tuple[Floor, ...] = ()
    marks: Annotated[tuple[Mark, ...], "what a reader has to know first, in the words of the kind"] = ()
    failure: Annotated[Failure | None, "null when status is ok"] = None

    def median(self, quantity: str) -> float | None:
        """The median of a quantity over its ordinary repetitions; None where it was not measured."""
        return None if self.summary is None else self.summary.median(quantity)

    @property
    def is_baseline(self) -> bool:
        """Whether the others are compared with this one."""
        return self.role == "baseline"

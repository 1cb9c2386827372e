"""The words a record may use: run modes, levels, statuses, verdicts and decision codes, each set closed.

One vocabulary for the dataclasses, the JSON Schema, the grade and the documents, so that a word means one thing.
Phases, kinds of claims, marks, quantities and gates are open words here: the kind of measurement closes them
(`experiments.kinds`), and `results verify` checks a record's words against its kind's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

SCHEMA_VERSION = "1.2.0"  # semantic: a reader takes its own major version, up to its own minor version
RULES_VERSION = 2  # of the rules that compute a new record: `experiments.evidence.rules`

RunMode: TypeAlias = Literal["dry_run", "cpu_mechanism", "real_gpu"]
Level: TypeAlias = Literal["plan", "cpu_mechanism", "gpu_smoke", "gpu_measured"]
WeightsSource: TypeAlias = Literal["hub", "local", "random_init"]
# `baseline_again` is the A/A twin: same settings as the baseline, measured as if it were another candidate.
# `control` is wrong on purpose (a per-micro-batch mean, fp16 without scaling): its gradient gate is expected to fail.
Role: TypeAlias = Literal["baseline", "baseline_again", "candidate", "control"]
CandidateStatus: TypeAlias = Literal["ok", "oom", "failed", "skipped"]
# `better` and `worse` are for quantities that are no time: 2 GB/s more is better, not faster.
Verdict: TypeAlias = Literal["faster", "slower", "better", "worse", "same", "ambiguous"]
DecisionCode: TypeAlias = Literal[
    "adopt",  # it pays on this device and workload
    "adopt_if_memory_bound",  # it frees memory and costs time: take it only when memory is what is short
    "avoid",  # it costs without return here
    "equivalent",  # no difference above the noise
    "inconclusive",  # ambiguous: measure again, longer
    "numerics_ok",  # semantics and numerics held; nothing said about speed
    "numerics_broken",  # a gate failed: do not use the numbers
    "not_measured",  # plan or ledger only
    "does_not_fit",  # the baseline or the candidates ran out of memory: see the ladder
]
Unit: TypeAlias = Literal[
    "ms",
    "bytes",
    "ratio",
    "flops",
    "count",
    "gb_per_s",
    "tflop_per_s",
    "tokens_per_s",
    "requests_per_s",
    "nats",
    "score",
]
LaunchType: TypeAlias = Literal["process", "ranks", "server"]
Better: TypeAlias = Literal["lower", "higher"]
Taken: TypeAlias = Literal["repetition", "process"]

LEVELS: tuple[Level, ...] = ("plan", "cpu_mechanism", "gpu_smoke", "gpu_measured")  # lowest first

if TYPE_CHECKING:
    JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
else:

    class JsonValue:
        """Any JSON value: at run time only a mark for codec and schema, for a type that contains itself."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression (search semantics, as JSON Schema's `pattern`) a text field has to match."""

    expression: str


@dataclass(frozen=True, slots=True)
class Least:
    """The smallest value a number may take."""

    value: float


@dataclass(frozen=True, slots=True)
class Since:
    """The minor version that brought a field. A record of an older one lacks it: None in Python, absent in JSON."""

    minor: int


Digest: TypeAlias = Annotated[str, Pattern(r"^sha256:[0-9a-f]{64}$")]
Commit: TypeAlias = Annotated[str, Pattern(r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Moment: TypeAlias = Annotated[str, Pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]
LABEL_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"
Label: TypeAlias = Annotated[str, Pattern(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
NAME_PATTERN = r"^\S(.{0,118}\S)?$"  # free text on one line
Name: TypeAlias = Annotated[str, Pattern(NAME_PATTERN)]
Word: TypeAlias = Annotated[str, Pattern(r"^[a-z][a-z0-9_]{0,63}$")]
Phase: TypeAlias = Word  # part of a repetition, named by the kind: forward, prefill, rollout
ClaimKind: TypeAlias = Word  # what a claim is about, named by the kind: memory, time, gradient_equivalence
Mark: TypeAlias = Word  # what a reader has to know before the numbers: launch_bound, not_executed
PREDICTION_MISSED: Mark = "prediction_missed"  # of any kind: a formula does not hold within its own stated bound
Count: TypeAlias = Annotated[int, Least(0)]
Bytes: TypeAlias = Annotated[int, Least(0)]
Duration: TypeAlias = Annotated[float, Least(0)]

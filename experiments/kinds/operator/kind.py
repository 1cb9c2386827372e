"""The kind itself: one repetition is one call of one operation, and what the engine asks of it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from experiments.evidence.candidate import Candidate
from experiments.evidence.record import Quantity
from experiments.evidence.sentences import Templates
from experiments.evidence.vocabulary import Role
from experiments.harness.experiment import CandidateSpec, Options
from experiments.harness.kind import Findings, KindWithoutSubject
from experiments.harness.kind_options import KindOption
from experiments.harness.kind_words import KindWords
from experiments.harness.schedule import Task
from experiments.kinds.operator import findings, operator_workload
from experiments.kinds.operator.answers import OperatorGateAnswer, OperatorMeasureAnswer
from experiments.kinds.operator.findings import EXACT, SeenCall
from experiments.kinds.operator.operator_sentences import SENTENCES
from experiments.kinds.operator.operator_workload import OperatorWorkload

SHAPE = ("rows", "in_features", "out_features")
WORDS = KindWords(
    kind="operator",
    quantities=(
        Quantity(word="call_ms", unit="ms", better="lower", main=True),
        Quantity(word="wall_ms", unit="ms", better="lower"),
        Quantity(word="busy_ms", unit="ms", better="lower"),
        Quantity(word="tflop_per_s", unit="tflop_per_s", better="higher"),
        Quantity(word="weight_bytes", unit="bytes", better="lower"),
        Quantity(word="peak_allocated_bytes", unit="bytes", better="lower", main=True, taken="process"),
    ),
    phases=("call",),
    marks={"launch_bound": "launch_bound: the device waits for Python"},
    claims=("value_equivalence", "quantization_error", "memory", "time"),
    gates=("value", "dense", "work"),
)


class OperatorKind(KindWithoutSubject[OperatorWorkload, OperatorGateAnswer, OperatorMeasureAnswer]):
    """One call in one process."""

    workload = OperatorWorkload
    gate_answer = OperatorGateAnswer
    measure_answer = OperatorMeasureAnswer
    child = "experiments.kinds.operator.child"
    options: ClassVar[tuple[KindOption, ...]] = tuple(
        KindOption(f"--{knob.replace('_', '-')}", metavar="N", type=int) for knob in SHAPE
    )
    sentences: ClassVar[Templates] = SENTENCES
    leaves: ClassVar[str] = "the reference outputs (16 bytes an entry)"

    def knobs_of(self, args: argparse.Namespace) -> Mapping[str, object]:
        """The shape."""
        return {knob: getattr(args, knob) for knob in SHAPE}

    def check(self, workload: OperatorWorkload, subject: None, options: Options) -> None:
        """Bounds of the shape and of the repetitions."""
        operator_workload.check(workload)

    def smaller(self, workload: OperatorWorkload) -> OperatorWorkload | None:
        """Half the rows, then half the channels."""
        return operator_workload.smaller(workload)

    def as_options(self, workload: OperatorWorkload) -> str:
        """Rows and channels."""
        return f"--rows {workload.rows} --out-features {workload.out_features}"

    def wanted(self, role: Role) -> tuple[str, ...]:
        """Finite numbers, the float64 value and the declared work of all; the baseline's output of the others."""
        return findings.wanted(role)

    def references(self, workload: OperatorWorkload) -> tuple[CandidateSpec, ...]:
        """The float64 output."""
        return (CandidateSpec(name=EXACT, role="candidate", settings={}, dtype="float64"),)

    def still_there(self, task: Task, scratch: Path) -> bool:
        """Whether the float64 output, or the baseline's, is whole on the disk."""
        from experiments.harness import reference
        from experiments.kinds.operator import output_gates

        name = output_gates.EXACT if task.kind == "reference" else output_gates.DENSE
        return reference.is_whole(scratch / name)

    def findings(self, seen: SeenCall) -> Findings:
        """Samples, memory, gates and what was counted."""
        return findings.findings(seen)

    def marks(self, seen: SeenCall, candidate: Candidate) -> tuple[str, ...]:
        """`launch_bound`."""
        return findings.marks(candidate)


KIND = OperatorKind(WORDS)

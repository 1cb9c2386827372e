"""What is computed: the shapes of one operation, and the bounds that a user's own have to keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from experiments.evidence.vocabulary import JsonValue
from experiments.harness.measured_workload import MeasuredWorkload, check_bounds, check_repetition
from tools.environments.errors import EXIT_USAGE, LabError

MOST_SIDE = 2**20
MOST_ENTRIES = 2**28  # of weight, input or output: 1 GiB in float32, and twice that where float64 is the yardstick


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorWorkload(MeasuredWorkload):
    """x [rows, in_features] into y [rows, out_features]. Never widened: records name it by its digest."""

    rows: int
    in_features: int
    out_features: int
    extra: Mapping[str, JsonValue] = field(default_factory=dict)  # knobs of one experiment


def check(workload: OperatorWorkload) -> None:
    """Refuse shapes and repetitions that cannot be measured. Raises LabError (wrong usage) naming the option."""
    check_repetition(workload)
    check_bounds(
        ("--rows", workload.rows, 1, MOST_SIDE),
        ("--in-features", workload.in_features, 1, MOST_SIDE),
        ("--out-features", workload.out_features, 2, MOST_SIDE),  # one channel has no neighbour to be confused with
    )
    rows, in_features, out_features = workload.rows, workload.in_features, workload.out_features
    for what, (left, right), (first, second) in (
        ("the weight", ("--out-features", "--in-features"), (out_features, in_features)),
        ("the input", ("--rows", "--in-features"), (rows, in_features)),
        ("the output", ("--rows", "--out-features"), (rows, out_features)),
    ):
        if first * second > MOST_ENTRIES:
            raise LabError(
                wanted=f"at most {MOST_ENTRIES} entries in {what}",
                found=f"{first} x {second}",
                next=f"give {left} {MOST_ENTRIES // second} or less, or a smaller {right}",
                where=left,
                code=EXIT_USAGE,
            )


def smaller(workload: OperatorWorkload) -> OperatorWorkload | None:
    """The next step after an out-of-memory: half the rows, then half the channels; None at the end."""
    if workload.rows > 1:
        return replace(workload, rows=workload.rows // 2)
    if workload.out_features > 256:
        return replace(workload, out_features=workload.out_features // 2)
    return None

"""Whether an all-reduce may be cut: one call over the whole tensor, and one call for each half of it.

Hypothesis: a sum over ranks is taken element by element, so the halves give the same sums to the last bit, and what is
new is one more beginning: alpha is paid twice, beta as before. The kind fits alpha + beta bytes to the ladder of sizes
and predicts the unseen one. The control leaves the second half out: if the gates let it pass, they see nothing.
"""

from __future__ import annotations

from experiments.evidence import record_text
from experiments.evidence.record import Record
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Experiment, Options, Table
from experiments.kinds.collective.collective_workload import CollectiveWorkload
from experiments.kinds.collective.kind import KIND
from experiments.kinds.collective.template.conclusions import conclude
from experiments.kinds.collective.template.sentences import SENTENCES

KIB = 2**10

# Change: the sizes in bytes, powers of two. The prediction is made for `unseen`, which the fit has not seen.
LADDER = (KIB, 8 * KIB, 64 * KIB, 512 * KIB)
WORKLOADS = {
    "smoke": CollectiveWorkload(name="smoke", sizes=LADDER, unseen=128 * KIB, steps=5, warmup=1, rounds=2),
    "default": CollectiveWorkload(
        name="default", sizes=(*LADDER, 4096 * KIB), unseen=1024 * KIB, steps=30, warmup=5, rounds=6
    ),
}


# Change: the ways of doing it. One is the baseline; `settings` is all that the worker gets.
def candidates(workload: CollectiveWorkload, device: DeviceFacts, options: Options) -> tuple[CandidateSpec, ...]:
    """The all-reduce whole, in halves, and the control."""
    dtype = workload.dtype
    return (
        CandidateSpec(name="whole", role="baseline", settings={"pieces": 1, "left_out": 0}, dtype=dtype),
        CandidateSpec(name="halves", role="candidate", settings={"pieces": 2, "left_out": 0}, dtype=dtype),
        CandidateSpec(
            name="a half left out", role="control", settings={"pieces": 2, "left_out": 1}, dtype=dtype, timed=False
        ),
    )


def table(record: Record) -> Table:
    """The table that every record has."""
    columns, rows = record_text.table(record, KIND.words.marks)
    return Table(columns=columns, rows=tuple(rows))


EXPERIMENT = Experiment(
    kind=KIND,
    name="template",
    page="draft",  # change: the page of the tutorial, and both titles
    title="An all-reduce whole, or in two pieces",
    title_zh="All-reduce：整体一次，或分成两段",
    workloads=WORKLOADS,
    worker="experiments.kinds.collective.template.worker",
    candidates=candidates,
    conclude=conclude,
    sentences=SENTENCES,
    table=table,
    look_at="which piece was sent, on which rank, and in which order",
)

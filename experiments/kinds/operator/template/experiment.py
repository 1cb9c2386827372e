"""Where the sum of a matrix product may be cut: one product whole, and as the sum of two half products.

Hypothesis: y = x W^T sums over in_features, so two halves of it, computed apart and added, give the same y within the
rounding of float32, from the same flops and the same bytes of weight. Two ranks that share a row-parallel layer rely on
it. The control pairs each weight with its neighbour's input: if the gates let it pass, they see nothing.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.evidence.vocabulary import JsonValue
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Experiment, Options
from experiments.kinds.operator.kind import KIND
from experiments.kinds.operator.operator_table import table
from experiments.kinds.operator.operator_workload import OperatorWorkload
from experiments.kinds.operator.template.conclusions import conclude
from experiments.kinds.operator.template.sentences import SENTENCES

# Change: the shapes. `smoke` takes seconds on a CPU, `default` is what a card is measured with.
SMOKE = OperatorWorkload(name="smoke", rows=8, in_features=64, out_features=48, steps=10, warmup=3, rounds=2)
DEFAULT = replace(SMOKE, name="default", rows=512, in_features=4096, out_features=4096, steps=20)
WORKLOADS = {workload.name: workload for workload in (SMOKE, DEFAULT)}

FLOAT = 4  # bytes


def work_of(workload: OperatorWorkload) -> dict[str, JsonValue]:
    """The prediction: what one call has to do, by the words of the kind's counter. Another count fails the gate."""
    weights = workload.in_features * workload.out_features
    return {"flops": 2 * workload.rows * weights, "weight_bytes": FLOAT * weights}


# Change: the ways of computing it. One is the baseline; `settings` is all that the worker gets.
def candidates(workload: OperatorWorkload, device: DeviceFacts, options: Options) -> tuple[CandidateSpec, ...]:
    """The product whole, in halves, and the control."""
    work = work_of(workload)
    return (
        CandidateSpec(name="whole", role="baseline", settings={"pieces": 1, "shift": 0, "work": work}),
        CandidateSpec(name="halves", role="candidate", settings={"pieces": 2, "shift": 0, "work": work}),
        CandidateSpec(
            name="shifted by one", role="control", settings={"pieces": 1, "shift": 1, "work": work}, timed=False
        ),
    )


EXPERIMENT = Experiment(
    kind=KIND,
    name="template",
    page="draft",  # change: the page of the tutorial, and both titles
    title="A matrix product whole, or as the sum of two half products",
    title_zh="矩阵乘积：一次算完，或两半相加",
    workloads=WORKLOADS,
    worker="experiments.kinds.operator.template.worker",
    candidates=candidates,
    conclude=conclude,
    sentences=SENTENCES,
    table=table,
    look_at="which half of the weight meets which half of the input",
)

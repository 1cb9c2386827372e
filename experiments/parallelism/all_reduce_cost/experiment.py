"""The all-reduce page: sums that must be exact, and a cost of alpha + beta bytes that has to predict an unseen size.

The library's all-reduce is the baseline; a ring of sends and receives written by hand computes the same. Two rings are
wrong on purpose, in one chunk on one rank.
"""

from __future__ import annotations

from experiments.harness.experiment import CandidateSpec, DeviceFacts, Experiment, Options
from experiments.kinds.collective.collective_workload import CollectiveWorkload
from experiments.kinds.collective.kind import KIND
from experiments.parallelism.all_reduce_cost.conclusions import conclude
from experiments.parallelism.all_reduce_cost.presentation import table
from experiments.parallelism.all_reduce_cost.sentences import SENTENCES

KIB, MIB = 2**10, 2**20

# Powers of four; the unseen size lies where what it costs to begin and what the bytes cost are of one order.
LADDER = tuple(KIB * 4**step for step in range(7))  # 1 KiB to 4 MiB
WORKLOADS = {
    "smoke": CollectiveWorkload(name="smoke", sizes=LADDER, unseen=512 * KIB, steps=10, warmup=2, rounds=2),
    "default": CollectiveWorkload(name="default", sizes=LADDER, unseen=512 * KIB, steps=30, warmup=5, rounds=6),
    "large": CollectiveWorkload(
        name="large", sizes=(*LADDER, 16 * MIB, 64 * MIB, 256 * MIB), unseen=32 * MIB, steps=20, warmup=5, rounds=4
    ),
}


def candidates(workload: CollectiveWorkload, device: DeviceFacts, options: Options) -> tuple[CandidateSpec, ...]:
    """The library's all-reduce, the ring, and two rings that are wrong."""

    def ring(name: str, fault: str) -> CandidateSpec:
        return CandidateSpec(
            name=name,
            role="candidate" if fault == "none" else "control",
            settings={"form": "ring", "fault": fault},
            dtype=workload.dtype,
            timed=fault == "none",
        )

    library = CandidateSpec(name="all_reduce", role="baseline", settings={"form": "library"}, dtype=workload.dtype)
    return (
        library,
        ring("ring", "none"),
        ring("ring, a chunk forgotten", "chunk_forgotten"),
        ring("ring, a rank added twice", "rank_twice"),
    )


EXPERIMENT = Experiment(
    kind=KIND,
    name="all_reduce_cost",
    page="Parallelism · collectives",
    title="All-reduce: exact sums over ranks, and a cost of alpha + beta bytes",
    title_zh="All-reduce：各 rank 求和精确，代价为 alpha + beta × 字节数",
    workloads=WORKLOADS,
    worker="experiments.parallelism.all_reduce_cost.worker",
    candidates=candidates,
    conclude=conclude,
    sentences=SENTENCES,
    table=table,
    look_at="which chunk of the ring is wrong, on which rank, and the order of sends and receives",
)

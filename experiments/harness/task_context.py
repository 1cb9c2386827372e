"""What every forked child has at hand, whatever its kind: workload, settings, device, cap, its place among ranks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import torch

from experiments.harness.device.device import CONTEXT_GIB, GIB, ComputeDevice
from experiments.harness.experiment import CandidateSpec, DeviceFacts
from experiments.harness.measured_workload import WorkloadT

if TYPE_CHECKING:
    from experiments.harness.tasks import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext(Generic[WorkloadT]):
    """One candidate in one child. A kind derives from it and adds how its candidates are built."""

    workload: WorkloadT
    spec: CandidateSpec
    facts: DeviceFacts
    cap_gib: float | None = None
    threads: int = 1
    peer_path: Path | None = None
    rank: int = 0
    ranks: int = 1

    @property
    def device(self) -> ComputeDevice:
        """The device the run is on."""
        return ComputeDevice(self.facts.kind)

    def prepare(self) -> None:
        """Pin what must not vary: threads, seed, the fp32 matmul format, the memory cap. Call before anything else."""
        torch.set_num_threads(self.threads)
        torch.manual_seed(self.workload.seed)
        torch.set_float32_matmul_precision("highest")
        self.device.limit_memory(self.cap_gib, self.facts.context_bytes)

    def allowed_bytes(self) -> int | None:
        """Device memory this run may use, cap and context considered; None on CPU."""
        card = self.facts.card
        if card is None or card.memory_bytes is None:
            return None
        limit = card.memory_bytes if self.cap_gib is None else min(card.memory_bytes, int(self.cap_gib * GIB))
        return limit - int(self.facts.context_bytes or CONTEXT_GIB * GIB)


def common(job: Job) -> dict[str, Any]:
    """The fields of a context that follow from the job alone, for a kind that adds its own."""
    plan = job.plan
    return {
        "workload": plan.workload,
        "spec": plan.spec(job.task.candidate),
        "facts": plan.device,
        "cap_gib": plan.options.cap_gib,
        "threads": plan.threads,
        "peer_path": None if plan.options.peer_path is None else Path(plan.options.peer_path),
        "rank": 0 if job.seat is None else job.seat.rank,
        "ranks": 1 if job.seat is None else job.seat.ranks,
    }

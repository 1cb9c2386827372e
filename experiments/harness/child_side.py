"""The child side of a kind: what its tasks run in forked processes. For modules that may import torch.

A kind's `child` names a module that exposes `CHILD`, an instance of a class below `ChildSide`. The parent imports it
once, so that every child starts in milliseconds, and calls nothing in it: at import it may run no torch operation.
Whatever goes wrong in a child is raised: the launch turns it into an outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from experiments.harness.kind import GateT, MeasureT
from experiments.harness.launch.outcome import EnterPhase

if TYPE_CHECKING:
    from experiments.harness.tasks import Job

ContextT = TypeVar("ContextT")  # below TaskContext


class ChildSide(ABC, Generic[ContextT, GateT, MeasureT]):
    """Answers are frozen dataclasses: they cross to the parent by the codec of the record."""

    @abstractmethod
    def context(self, job: Job) -> ContextT:
        """What the task has at hand, built from nothing but the job: the same in every child with the same job."""

    def reference(self, context: ContextT, job: Job, enter: EnterPhase) -> Any:
        """Compute a reference and leave it in `job.scratch`; answers with a frozen dataclass."""
        raise NotImplementedError(f"no reference {job.task.candidate}")

    @abstractmethod
    def gate(self, context: ContextT, job: Job, enter: EnterPhase) -> GateT:
        """One repetition, compared: errors are measured here; whether they pass is decided in the parent."""

    @abstractmethod
    def measure(self, context: ContextT, job: Job, enter: EnterPhase) -> MeasureT:
        """Warm up, then the workload's repetitions, timed."""

"""Which code a task runs in its child. Imports torch; the parent imports it once and calls nothing in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments.evidence.codec import to_json
from experiments.evidence.vocabulary import JsonValue
from experiments.harness.child_side import ChildSide
from experiments.harness.device import calibration
from experiments.harness.experiment import CandidateSpec
from experiments.harness.launch.outcome import EnterPhase
from experiments.harness.launch.ranks import Seat
from experiments.harness.plan import Plan
from experiments.harness.schedule import DEVICE, Task
from experiments.harness.task_context import TaskContext

Probe = Callable[[Any], Mapping[str, JsonValue]]
DEVICE_SPEC = CandidateSpec(name=DEVICE, role="candidate", settings={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One task, ready to be run in a child, or in several ranks, each with a seat of its own."""

    task: Task
    plan: Plan[Any]
    subject: Any  # the kind's
    scratch: Path  # what one task of the run leaves for another
    child: str  # module of the kind's child side
    worker: str  # the experiment's own module
    seat: Seat | None = None  # of one rank in a launch of several

    def __call__(self, enter: EnterPhase) -> Mapping[str, JsonValue]:
        """Do it. Whatever goes wrong is raised: the launch turns it into an outcome."""
        enter("load")
        if self.task.kind == "calibration":
            return self._calibrate()
        if self.seat is None:
            return self._do(enter)
        from experiments.harness.launch.rendezvous import joined

        with joined(self.seat, self.plan.device.kind):
            return self._do(enter)

    def _do(self, enter: EnterPhase) -> Mapping[str, JsonValue]:
        side: ChildSide[Any, Any, Any] = import_module(self.child).CHILD
        context = side.context(self)
        context.prepare()
        if self.task.kind == "probe":
            return probe(self.worker, self.task.probe or "")(context)
        do = {"reference": side.reference, "gate": side.gate, "measure": side.measure}[self.task.kind]
        answer: Mapping[str, JsonValue] = to_json(do(context, self, enter), self.task.kind)
        return answer

    def _calibrate(self) -> Mapping[str, JsonValue]:
        plan = self.plan
        context = TaskContext(
            workload=plan.workload,
            spec=DEVICE_SPEC,
            facts=plan.device,
            cap_gib=plan.options.cap_gib,
            threads=plan.threads,
        )
        context.prepare()
        answer: Mapping[str, JsonValue] = to_json(calibration.calibrate(plan.device, context.allowed_bytes()))
        return answer


def probe(module: str, name: str) -> Probe:
    """One of the probes of an experiment's worker module."""
    probes: Mapping[str, Probe] = import_module(module).PROBES
    return probes[name]

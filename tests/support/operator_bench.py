"""An experiment on an operation: its gates in this process, a fault planted where a test wants one, or all of it.

bench = OperatorBench(EXPERIMENT, folder, rows=3)
bench.checks("int8 dequantised")                 # the gates of a candidate, passed or not
bench.checks("int8 dequantised", another)        # the same gates on an operation with a fault in it
bench.record()                                   # every task in a fork of its own, as a run does it
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.evidence import rules
from experiments.evidence.candidate import Candidate, Checks
from experiments.evidence.codec import to_json
from experiments.evidence.record import Record
from experiments.evidence.runtime_snapshot import collect
from experiments.evidence.subject import ProfileFacts, Source
from experiments.harness import candidate_results, recording
from experiments.harness.experiment import AnyExperiment, DeviceFacts, Options
from experiments.harness.launch.outcome import Outcome
from experiments.harness.launch.process import run_forked
from experiments.harness.plan import Plan
from experiments.harness.preparing import with_twin
from experiments.harness.schedule import Task
from experiments.harness.tasks import Job
from experiments.kinds.operator import output_gates
from experiments.kinds.operator.operation import Operation, OperatorContext, builder, exact_of
from tools.environments.model import Check, Report

DIGEST = "sha256:" + "0" * 64
CPU = DeviceFacts(kind="cpu", torch="2.13.0+cpu", bf16_native=True, tf32=False)


def plan_of(experiment: AnyExperiment, device: DeviceFacts = CPU, **knobs: Any) -> Plan[Any]:
    """The plan of the smoke workload with some knobs changed."""
    registered = experiment.workloads["smoke"]
    workload, kind = replace(registered, **knobs), experiment.kind
    report = Report(profile="BASE-CPU", registry_digest=DIGEST, checks=(Check("host.python", "ok", "3.11", "3.11"),))
    return Plan(
        kind=kind.word,
        experiment=experiment.name,
        label="sample",
        mode="cpu_mechanism" if device.kind == "cpu" else "real_gpu",
        created_at="2026-12-01T10:00:00Z",
        profile=ProfileFacts(id="BASE-CPU", registry_digest=DIGEST, requirement_digest=DIGEST, preflight=report),
        source=Source(digest=DIGEST, scope=("experiments",), files=1),
        workload=workload,
        registered_digest=registered.digest(),
        subject=kind.keep(None, workload),
        device=device,
        options=Options(),
        references=kind.references(workload),
        specs=kind.vary(with_twin(experiment.candidates(workload, device, Options())), workload),
        threads=1,
        order_seed=7,
    )


class OperatorBench:
    """One experiment's smoke workload with some knobs changed."""

    def __init__(self, experiment: AnyExperiment, folder: Path, device: DeviceFacts = CPU, **knobs: Any) -> None:
        self.experiment, self.folder = experiment, folder
        self.plan = plan_of(experiment, device, **{"steps": 2, "warmup": 0, **knobs})
        self._gates: dict[str, Outcome] = {}

    def context(self, name: str) -> OperatorContext:
        """What a child of this candidate, or of the reference, would have at hand."""
        made = OperatorContext(workload=self.plan.workload, spec=self.plan.spec(name), facts=self.plan.device)
        made.prepare()
        return made

    def operation(self, name: str) -> Operation:
        """The candidate, built by the experiment's own worker."""
        return builder(self.experiment.worker)(self.context(name))

    def candidate(self, name: str, operation: Operation | None = None) -> Candidate:
        """The candidate made of its gate answer alone; references, baseline and twin are done first, once."""
        if not self._gates:
            (reference,) = self.plan.references
            made = self.context(reference.name)
            output_gates.exact(exact_of(self.experiment.worker)(made), made, self.folder)
            for spec in self.plan.specs[:2]:  # the baseline writes its output, the twin shows the A/A error
                self._gates[spec.name] = self.gate(spec.name, self.operation(spec.name))
        outcome = self.gate(name, operation or self.operation(name))
        answers = {Task(kind="gate", candidate=one).id: found for one, found in self._gates.items()}
        answers[Task(kind="gate", candidate=name).id] = outcome
        return candidate_results.candidate(self.experiment, self.plan, None, self.plan.spec(name), answers, None)

    def checks(self, name: str, operation: Operation | None = None) -> Checks:
        """Its gates as a record would have them."""
        return self.candidate(name, operation).checks

    def failed(self, name: str, operation: Operation | None = None) -> set[str]:
        """The names of the gates that failed."""
        return {gate for gate, found in self.checks(name, operation).gates.items() if not found.passed}

    def gate(self, name: str, operation: Operation) -> Outcome:
        """The answer of its gate task, as a finished task."""
        answer = output_gates.gate(self.context(name), operation, self.folder, lambda phase: None)
        return Outcome("ok", to_json(answer), None, 0.0)

    def answers(self) -> dict[str, Outcome]:
        """Every task in a fork of its own."""
        return {task.id: self._fork(task) for task in self.plan.tasks()}

    def record(self, answers: dict[str, Outcome] | None = None) -> Record:
        """The graded record of these answers; without any, of every task done now."""
        done = self.answers() if answers is None else answers
        made = recording.record(self.experiment, self.plan, None, done, collect(), resumed=0, duration_s=1.0)
        return rules.graded(made)

    def _fork(self, task: Task) -> Outcome:
        kind, worker = self.experiment.kind, self.experiment.worker
        job = Job(task=task, plan=self.plan, subject=None, scratch=self.folder, child=kind.child, worker=worker)
        return run_forked(job, time_limit_s=120)

"""One page on the small model: its gates in this process, a fault planted where a test wants one, or its whole run.

bench = PageBench(EXPERIMENT, folder, sequence=32)
bench.checks("8 x 1")                        # the gates of a candidate, passed or not
bench.checks("8 x 1", spoiled(bench))        # the same gates on a program with a fault in it
bench.record()                               # every task in a fork of its own, as a run does it
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sample_plans import CPU, job_of, plan_of, subject_of
from torch import Tensor

from experiments.evidence.candidate import Candidate, Checks
from experiments.evidence.codec import to_json
from experiments.evidence.record import Record
from experiments.evidence.runtime_snapshot import collect
from experiments.harness import candidate_results, recording
from experiments.harness.experiment import AnyExperiment, Options
from experiments.harness.launch.outcome import Outcome
from experiments.harness.launch.process import run_forked
from experiments.harness.plan import Plan
from experiments.harness.preparing import with_twin
from experiments.harness.schedule import Task
from experiments.kinds.training_step import gating, worker
from experiments.kinds.training_step.answers import GateAnswer
from experiments.kinds.training_step.kind import ORACLE_SPEC
from experiments.kinds.training_step.program import Program, no_phase
from experiments.kinds.training_step.worker import WorkerContext
from experiments.models import registered_config

ASSET = registered_config.asset("tiny-qwen2")
SUBJECT = subject_of("tiny-qwen2")
SHAPE = SUBJECT.shape


class PageBench:
    """One experiment's smoke workload with some knobs changed, on this CPU."""

    def __init__(self, experiment: AnyExperiment, folder: Path, options: Options | None = None, **knobs: Any) -> None:
        self.experiment, self.folder = experiment, folder
        planned = plan_of(experiment)
        workload = replace(planned.workload, **{"steps": 1, "rounds": 1, "warmup": 0, **knobs})
        asked = options or Options()
        self.plan: Plan[Any] = replace(
            planned,
            workload=workload,
            options=asked,
            subject=experiment.kind.keep(SUBJECT, workload),
            references=experiment.kind.references(workload),
            specs=experiment.kind.vary(with_twin(experiment.candidates(workload, CPU, asked)), workload),
        )
        self._gates: dict[str, Outcome] = {}
        self._baseline = next(spec.name for spec in self.plan.specs if spec.role == "baseline")

    def context(self, name: str, **change: Any) -> WorkerContext:
        """What a child of this candidate would have at hand."""
        peer = self.plan.options.peer_path
        made = WorkerContext(
            workload=self.plan.workload,
            spec=self.plan.spec(name),
            facts=CPU,
            asset=ASSET,
            peer_path=None if peer is None else Path(peer),
        )
        made = replace(made, **change)
        made.prepare()
        return made

    def program(self, name: str) -> Program:
        """The candidate, built by the page's own worker."""
        return worker.builder(self.experiment.worker)(self.context(name))

    def gate(self, name: str, program: Program | None = None) -> GateAnswer:
        """The answer of the gate task; oracle and baseline are done first, once."""
        if not self._gates and name != self._baseline:
            self.gate(self._baseline)
        if name == self._baseline and not self._gates:
            oracle = replace(self.context(name), spec=ORACLE_SPEC)
            gating.oracle(oracle, self.folder, no_phase)
        made = self.context(name)
        found = gating.gate(made, program or self.program(name), self.folder, no_phase)
        if program is None:
            self._gates[name] = Outcome("ok", to_json(found), None, 0.0)
        return found

    def checks(self, name: str, program: Program | None = None) -> Checks:
        """The candidate's gates as a record would have them, judged by the harness."""
        return self.judged(name, self.gate(name, program)).checks

    def judged(self, name: str, answer: GateAnswer) -> Candidate:
        """The candidate made of this gate answer alone."""
        answers = {Task(kind="gate", candidate=one).id: outcome for one, outcome in self._gates.items()}
        answers[Task(kind="gate", candidate=name).id] = Outcome("ok", to_json(answer), None, 0.0)
        spec = replace(self.plan.spec(name), unavailable=None)  # a test may bring a program of its own
        specs = tuple(spec if one.name == name else one for one in self.plan.specs)
        plan = replace(self.plan, specs=specs)
        return candidate_results.candidate(self.experiment, plan, SUBJECT, spec, answers, None)

    def fork(self, task: Task) -> Outcome:
        """One task in a fork of its own."""
        job = job_of(self.experiment, self.plan, task, self.folder)
        return run_forked(job, time_limit_s=120)

    def record(self) -> Record:
        """Every task of the plan, and the record made of them, not yet graded."""
        answers = {task.id: self.fork(task) for task in self.plan.tasks()}
        return recording.record(self.experiment, self.plan, SUBJECT, answers, collect(), resumed=0, duration_s=1.0)


def weights_after(program: Program, steps: int = 3) -> tuple[list[float], list[Tensor]]:
    """The loss of each of so many steps, and the weights after them."""
    losses = [float(program.step().loss) for _ in range(steps)]
    return losses, [value.detach().clone() for value in program.parameters().values()]

"""From the finished tasks of one candidate to what the record says of it. Pure.

What the answers mean its kind says. Here is what holds for every kind: a task that failed is the candidate's failure, a
number that nobody measured stays None and never becomes 0, and a formula's value gets what was measured beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.evidence.candidate import Candidate, Failure, Floor, Memory, Prediction
from experiments.evidence.codec import from_json
from experiments.evidence.conclusion import Comparison
from experiments.evidence.record import Calibration, Quantity
from experiments.evidence.rules import CURRENT
from experiments.evidence.vocabulary import CandidateStatus, Mark
from experiments.harness.experiment import AnyExperiment, CandidateSpec, Forecast
from experiments.harness.kind import Answered, AnyKind, Findings, Seen
from experiments.harness.launch.outcome import Outcome
from experiments.harness.plan import Plan
from experiments.harness.schedule import Task

Answers = Mapping[str, Outcome]  # task id -> outcome


def candidate(
    experiment: AnyExperiment,
    plan: Plan[Any],
    subject: Any,
    spec: CandidateSpec,
    answers: Answers,
    calibration: Calibration | None,
) -> Candidate:
    """One candidate of a plan, made of the tasks that are finished. Raises LabError for an answer of another kind."""
    kind = experiment.kind
    mine = {task: answers[task.id] for task in plan.tasks() if task.candidate == spec.name and task.id in answers}
    seen = _seen(experiment, plan, subject, spec, mine, _twin(kind, plan, answers), calibration)
    found = kind.findings(seen)
    status, failure = _status(experiment, plan, spec, mine, found)
    made = Candidate(
        name=spec.name,
        role=spec.role,
        settings={**spec.settings, **found.settings},
        status=status,
        samples=found.samples,
        summary=CURRENT.summarise(spec.name, found.samples, kind.words.quantities),
        memory=found.memory,
        checks=found.checks,
        numerics=found.numerics,
        probes=found.probes,
        failure=failure,
    )
    marks: tuple[Mark, ...] = kind.marks(seen, made) if mine else ("not_executed",)
    forecast = kind.forecast(seen, found.memory)
    return _with_forecast(replace(made, marks=marks), forecast, kind.words.quantities)


def _seen(
    experiment: AnyExperiment,
    plan: Plan[Any],
    subject: Any,
    spec: CandidateSpec,
    mine: Mapping[Task, Outcome],
    twin: Any,
    calibration: Calibration | None,
) -> Seen[Any, Any, Any, Any]:
    kind = experiment.kind
    gates = _answered(mine, "gate", kind.gate_answer)
    return Seen(
        experiment=experiment,
        plan=plan,
        subject=subject,
        spec=spec,
        gate=gates[0] if gates else None,
        measured=_answered(mine, "measure", kind.measure_answer),
        probes={task.probe: done.result for task, done in mine.items() if task.probe and done.result is not None},
        calibration=calibration,
        twin=twin,
    )


def _answered(mine: Mapping[Task, Outcome], kind: str, answer: type[Any]) -> tuple[Answered[Any], ...]:
    """The decoded answers of one kind of task, in their order. Raises LabError for what is no such answer."""
    found = []
    for task, outcome in mine.items():
        if task.kind == kind and outcome.result is not None:
            first = from_json(answer, outcome.result, task.id)
            others = (from_json(answer, result, task.id) for result in outcome.others)
            found.append(Answered(task=task, answer=first, ranks=(first, *others)))
    return tuple(found)


def _twin(kind: AnyKind, plan: Plan[Any], answers: Answers) -> Any:
    """What the gate of the baseline's twin answered; None where there is none."""
    twin = next((spec.name for spec in plan.specs if spec.role == "baseline_again"), None)
    outcome = None if twin is None else answers.get(Task(kind="gate", candidate=twin).id)
    if outcome is None or outcome.result is None:
        return None
    return from_json(kind.gate_answer, outcome.result, f"gate / {twin}")


def _status(
    experiment: AnyExperiment,
    plan: Plan[Any],
    spec: CandidateSpec,
    mine: Mapping[Task, Outcome],
    found: Findings,
) -> tuple[CandidateStatus, Failure | None]:
    if spec.unavailable is not None:
        return "skipped", Failure(phase="import", kind="NotAvailable", message=spec.unavailable)
    if plan.mode == "dry_run":
        return "skipped", Failure(phase="import", kind="DryRun", message="planned, not executed")
    for task, outcome in mine.items():
        if outcome.died is not None:
            died = outcome.died
            return ("oom" if outcome.status == "oom" else "failed"), Failure(
                phase=died.phase,
                kind=died.kind,
                message=f"{task.kind}: {died.message}",
                round=task.round,
                proposal=_proposal(experiment.kind, plan) if outcome.status == "oom" else None,
            )
    if found.failure is not None:
        return "failed", found.failure
    wanted = "measure" if spec.timed else "gate"
    if not any(task.kind == wanted for task in mine):
        return "failed", Failure(phase="other", kind="NotRun", message=f"no {wanted} task was finished")
    return "ok", None


def _proposal(kind: AnyKind, plan: Plan[Any]) -> str | None:
    smaller = kind.smaller(plan.workload)
    return None if smaller is None else f"{kind.as_options(smaller)} under a new --run-label"


def _with_forecast(candidate: Candidate, forecast: Forecast, quantities: Sequence[Quantity]) -> Candidate:
    measured = measured_quantities(candidate, quantities)
    return replace(
        candidate,
        predictions=tuple(_predicted(entry, measured.get(entry.quantity)) for entry in forecast.predictions),
        floors=tuple(_floored(entry, measured.get(entry.quantity)) for entry in forecast.floors),
    )


def measured_quantities(candidate: Candidate, quantities: Sequence[Quantity]) -> dict[str, float | None]:
    """What was measured, by the words that predictions and floors use."""
    memory = candidate.memory or Memory()
    return {
        quantity.word: getattr(memory, quantity.word, None)
        if quantity.taken == "process"
        else candidate.median(quantity.word)
        for quantity in quantities
    }


def with_ratios(
    candidates: Sequence[Candidate], comparisons: Sequence[Comparison], ratios: Mapping[str, str]
) -> tuple[Candidate, ...]:
    """The candidates with every predicted ratio to the baseline measured: known only when all of them are there.

    `ratios` says of which quantity each predicted ratio is one.
    """
    found = {(entry.candidate, entry.quantity): entry.ratio for entry in comparisons}
    return tuple(
        replace(
            candidate,
            predictions=tuple(
                _predicted(entry, found.get((candidate.name, ratios[entry.quantity])))
                if entry.quantity in ratios
                else entry
                for entry in candidate.predictions
            ),
        )
        for candidate in candidates
    )


def _predicted(entry: Prediction, measured: float | None) -> Prediction:
    residual = None if measured is None or entry.predicted == 0 else measured / entry.predicted - 1
    return replace(entry, measured=measured, residual=residual)


def _floored(entry: Floor, measured: float | None) -> Floor:
    return replace(entry, distance=None if measured is None or entry.floor == 0 else measured / entry.floor)

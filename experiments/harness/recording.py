"""From a plan and its finished tasks to a record. Pure: the same tasks always give the same record."""

from __future__ import annotations

from typing import Any

from experiments.evidence.codec import from_json
from experiments.evidence.record import Calibration, Identity, Procedure, Record
from experiments.evidence.rules import CURRENT
from experiments.evidence.runtime import RuntimeSnapshot
from experiments.harness.candidate_results import Answers, candidate, with_ratios
from experiments.harness.experiment import AnyExperiment, Observed
from experiments.harness.plan import Plan
from experiments.harness.schedule import DEVICE, Task


def record(
    experiment: AnyExperiment,
    plan: Plan[Any],
    subject: Any,
    answers: Answers,
    runtime: RuntimeSnapshot,
    *,
    resumed: int,
    duration_s: float | None,
) -> Record:
    """The record of a run, not yet graded. Raises LabError for one with words that are not its kind's."""
    kind = experiment.kind
    quantities = kind.words.quantities
    calibration = _calibration(answers)
    candidates = tuple(candidate(experiment, plan, subject, spec, answers, calibration) for spec in plan.specs)
    comparisons = CURRENT.comparisons(candidates, quantities)
    candidates = with_ratios(candidates, comparisons, kind.ratios)
    observed = Observed(workload=plan.workload, device=plan.device, candidates=candidates, comparisons=comparisons)
    claims, decision = experiment.conclude(observed)
    described = kind.described(plan, subject)
    dry = plan.mode == "dry_run"
    made = Record(
        identity=Identity(
            kind=kind.word,
            launch=kind.launch(plan.workload),
            experiment=experiment.name,
            page=experiment.page,
            run_label=plan.label,
            run_mode=plan.mode,
            created_at=plan.created_at,
        ),
        source=plan.source,
        backend=described.backend,
        profile=plan.profile,
        runtime=runtime,
        model=described.model,
        workload=described.workload,
        quantities=quantities,
        procedure=None
        if dry
        else Procedure(
            rounds=plan.workload.rounds,
            steps_per_round=plan.workload.steps,
            warmup_steps=plan.workload.warmup,
            order_seed=plan.order_seed,
            isolation="fork",
            resumed=resumed,
            duration_s=duration_s,
        ),
        calibration=calibration,
        candidates=candidates,
        noise_floors=CURRENT.noise_floors(candidates, quantities),
        comparisons=comparisons,
        claims=claims,
        decision=decision,
    )
    kind.words.refuse_foreign(made)
    return made


def _calibration(answers: Answers) -> Calibration | None:
    outcome = answers.get(Task(kind="calibration", candidate=DEVICE).id)
    if outcome is None or outcome.result is None:
        return None
    return from_json(Calibration, outcome.result, "calibration")

"""From a plan and its finished tasks to a record. Pure: the same tasks always give the same record."""

from __future__ import annotations

from typing import Any

from experiments.evidence.record import Calibration, Identity, Procedure, Record
from experiments.evidence.rules import CURRENT
from experiments.evidence.runtime import RuntimeSnapshot
from experiments.evidence.subject import Backend, Model, Template, Tokenizer, Workload
from experiments.harness.candidate_results import QUANTITIES, Answers, candidate, repeated_errors, with_ratios
from experiments.harness.experiment import Experiment, Observed
from experiments.harness.plan import Plan
from experiments.harness.schedule import Task
from experiments.models.registered_config import DecoderShape
from experiments.models.source_types import ModelIdentity


def record(
    experiment: Experiment,
    plan: Plan,
    shape: DecoderShape,
    answers: Answers,
    runtime: RuntimeSnapshot,
    *,
    resumed: int,
    duration_s: float | None,
) -> Record:
    """The record of a run, not yet graded."""
    calibration = _calibration(answers)
    repeated = repeated_errors(plan, answers)
    candidates = tuple(candidate(experiment, plan, shape, spec, answers, calibration, repeated) for spec in plan.specs)
    comparisons = CURRENT.comparisons(candidates, QUANTITIES)
    candidates = with_ratios(candidates, comparisons)
    observed = Observed(workload=plan.workload, device=plan.device, candidates=candidates, comparisons=comparisons)
    claims, decision = experiment.conclude(observed)
    dry = plan.mode == "dry_run"
    return Record(
        identity=Identity(
            experiment=experiment.name,
            page=experiment.page,
            run_label=plan.label,
            run_mode=plan.mode,
            created_at=plan.created_at,
        ),
        source=plan.source,
        backend=Backend(version=plan.device.torch, threads=plan.threads),
        profile=plan.profile,
        runtime=runtime,
        model=_model(plan.model, plan.manifest_digest),
        workload=_workload(plan),
        quantities=QUANTITIES,
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
        noise_floors=CURRENT.noise_floors(candidates, QUANTITIES),
        comparisons=comparisons,
        claims=claims,
        decision=decision,
    )


def _calibration(answers: Answers) -> Calibration | None:
    outcome = answers.get(Task(kind="calibration", candidate="device").id)
    result: Any = None if outcome is None else outcome.result
    if result is None:
        return None
    return Calibration(
        matmul_tflops=result["matmul_tflops"],
        host_to_device_gb_s=result["host_to_device_gb_s"],
        device_to_host_gb_s=result["device_to_host_gb_s"],
    )


def _model(identity: ModelIdentity, manifest_digest: str) -> Model:
    tokenizer = identity.tokenizer
    return Model(
        id=identity.id,
        weights_source=identity.weights_source,
        requested_revision=identity.requested_revision,
        resolved_commit=identity.resolved_commit,
        parameter_count=identity.parameter_count,
        config_digest=identity.config_digest,
        weights_digest=identity.weights_digest,
        tokenizer=Tokenizer(id=tokenizer.id, commit=tokenizer.commit, digest=tokenizer.digest),
        template=Template(input_digest=manifest_digest),
    )


def _workload(plan: Plan) -> Workload:
    workload = plan.workload
    return Workload(
        name=workload.name,
        registered_digest=plan.registered_digest,
        digest=workload.digest(),
        knobs=workload.knobs(),
        dtype=next((spec.dtype for spec in plan.specs if spec.role == "baseline"), "float32"),
        batch=workload.batch,
        sequence_length=workload.sequence,
        tokens_per_step=workload.tokens,
        tokenized_manifest_digest=plan.manifest_digest,
    )

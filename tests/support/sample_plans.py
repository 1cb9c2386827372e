"""A plan as a CPU run makes it, for tests that begin behind the planning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.evidence.subject import ProfileFacts, Source
from experiments.harness.experiment import AnyExperiment, DeviceFacts, Options
from experiments.harness.plan import Plan
from experiments.harness.preparing import with_twin
from experiments.harness.schedule import Task
from experiments.harness.tasks import Job
from experiments.kinds.training_step.model_subject import ModelSubject
from experiments.models import registered_config
from experiments.models.source_types import ModelRequest
from tools.environments.model import Check, Report

DIGEST = "sha256:" + "0" * 64
CPU = DeviceFacts(kind="cpu", torch="2.13.0+cpu", bf16_native=True, tf32=False)


def subject_of(model: str) -> ModelSubject:
    """A registered model with random weights."""
    return ModelSubject(registered_config.asset(model), ModelRequest(id=model))


def plan_of(experiment: AnyExperiment, workload: str = "smoke", device: DeviceFacts = CPU) -> Plan[Any]:
    """The plan of a registered workload on a device."""
    chosen = experiment.workloads[workload]
    report = Report(profile="TRAIN-CPU", registry_digest=DIGEST, checks=(Check("host.python", "ok", "3.11", "3.11"),))
    return Plan(
        kind=experiment.kind.word,
        experiment=experiment.name,
        label="sample",
        mode="cpu_mechanism" if device.kind == "cpu" else "real_gpu",
        created_at="2026-12-01T10:00:00Z",
        profile=ProfileFacts(id="TRAIN-CPU", registry_digest=DIGEST, requirement_digest=DIGEST, preflight=report),
        source=Source(digest=DIGEST, scope=("experiments",), files=1),
        workload=chosen,
        registered_digest=chosen.digest(),
        subject=experiment.kind.keep(subject_of(chosen.model), chosen),
        device=device,
        options=Options(),
        references=experiment.kind.references(chosen),
        specs=experiment.kind.vary(with_twin(experiment.candidates(chosen, device, Options())), chosen),
        threads=1,
        order_seed=7,
    )


def job_of(experiment: AnyExperiment, plan: Plan[Any], task: Task, scratch: Path) -> Job:
    """One of its tasks on the plan's model, ready for a child."""
    subject = subject_of(plan.workload.model)
    return Job(
        task=task, plan=plan, subject=subject, scratch=scratch, child=experiment.kind.child, worker=experiment.worker
    )

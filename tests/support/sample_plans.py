"""A plan as a CPU run makes it, for tests that begin behind the planning."""

from __future__ import annotations

from experiments.evidence.subject import ProfileFacts, Source
from experiments.harness.experiment import DeviceFacts, Experiment, Options
from experiments.harness.plan import Plan
from experiments.harness.preparing import with_heads, with_twin
from experiments.models import registered_config
from experiments.models.batches import training_rows
from tools.environments.model import Check, Report

DIGEST = "sha256:" + "0" * 64
CPU = DeviceFacts(kind="cpu", torch="2.13.0+cpu", bf16_native=True, tf32=False)


def plan_of(experiment: Experiment, workload: str = "smoke", device: DeviceFacts = CPU) -> Plan:
    """The plan of a registered workload on a device."""
    chosen = experiment.workloads[workload]
    asset = registered_config.asset(chosen.model)
    report = Report(profile="TRAIN-CPU", registry_digest=DIGEST, checks=(Check("host.python", "ok", "3.11", "3.11"),))
    return Plan(
        experiment=experiment.name,
        label="sample",
        mode="cpu_mechanism" if device.kind == "cpu" else "real_gpu",
        created_at="2026-12-01T10:00:00Z",
        profile=ProfileFacts(id="TRAIN-CPU", registry_digest=DIGEST, requirement_digest=DIGEST, preflight=report),
        source=Source(digest=DIGEST, scope=("experiments",), files=1),
        workload=chosen,
        registered_digest=chosen.digest(),
        model=asset.identity,
        model_source="config",
        model_path=None,
        local_files_only=False,
        manifest_digest=training_rows(asset, chosen.batch, chosen.sequence, chosen.row_lengths).digest,
        device=device,
        options=Options(),
        specs=with_heads(with_twin(experiment.candidates(chosen, device, Options())), chosen),
        threads=1,
        order_seed=7,
    )

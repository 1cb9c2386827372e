"""The checkpointing page: what recomputing layers frees, what it costs, and whether the gradients stay the same.

Every layer, every second one, selective (outputs of matrix products are kept), the reentrant form, PyTorch's own, and
without keeping the random state. A probe turns dropout on: there the random state decides whether gradients are right.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.evidence.candidate import Prediction
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Forecast, Options
from experiments.kinds.training_step.kind import KIND
from experiments.kinds.training_step.ledger.flops import recompute_share
from experiments.kinds.training_step.ledger.ledger import predictions
from experiments.kinds.training_step.ledger.ledger_settings import for_candidate
from experiments.kinds.training_step.precision import chosen
from experiments.kinds.training_step.training_experiment import ForecastRequest, TrainingExperiment
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.training_mechanism.activation_checkpointing.conclusions import conclude
from experiments.training_mechanism.activation_checkpointing.sentences import SENTENCES
from experiments.training_mechanism.shared.memory_table import table
from experiments.training_mechanism.shared.shared_workloads import memory_for_time

PROBE = "dropout_random_state"

WORKLOADS = memory_for_time(steps=10, warmup=3)


def candidates(workload: TrainingWorkload, device: DeviceFacts, options: Options) -> tuple[CandidateSpec, ...]:
    """Every way of checkpointing on the page, in the precision the workload asks for."""
    base, dtype = chosen(workload.precision, device)

    def spec(name: str, checkpoint: str, **more: str | int | bool) -> CandidateSpec:
        settings = {**base, "checkpoint": checkpoint, **more}
        probes = (PROBE,) if name == "every layer" else ()
        return CandidateSpec(name=name, role="candidate", settings=settings, dtype=dtype, probes=probes)

    return (
        replace(spec("none", "none"), role="baseline"),
        spec("every layer", "all"),
        spec("every 2nd layer", "every_k", every_k=2),
        spec("selective", "selective"),
        spec("every layer, random state not kept", "all", preserve_rng=False),
        spec("every layer, reentrant", "all", form="reentrant"),
        spec("every layer, torch", "all", form="torch"),
    )


def forecast(request: ForecastRequest) -> Forecast:
    """Residency and peak by the memory ledger, the step's length beside the baseline's by recomputed operations."""
    settings = for_candidate(request.workload, request.spec.settings)
    if settings is None or request.device.kind == "cpu":
        return Forecast()
    rows = predictions(request.shape, settings)
    if request.spec.role == "candidate" and settings.checkpoint in ("all", "every_k"):
        share = recompute_share(request.shape, settings.sequence, settings.recomputes)
        formula = "operations with recomputed layers / without"
        rows = (*rows, Prediction(quantity="step_ratio", formula=formula, unit="ratio", predicted=1 + share))
    return Forecast(predictions=rows)


EXPERIMENT = TrainingExperiment(
    kind=KIND,
    name="activation_checkpointing",
    page="Part 02 · 19",
    title="Activation checkpointing: keep a layer's inside, or compute it again",
    title_zh="激活检查点：保存层内张量，还是重算",
    workloads=WORKLOADS,
    worker="experiments.training_mechanism.activation_checkpointing.worker",
    candidates=candidates,
    conclude=conclude,
    sentences=SENTENCES,
    table=table,
    forecast=forecast,
)

"""Builds the step of one precision in a child: autocast, scaler, and the format of fp32 matrix products."""

from __future__ import annotations

import torch

from experiments.harness.program import Mechanism, TrainingStep
from experiments.harness.worker import WorkerContext
from experiments.training_mechanism.mixed_precision_backward.scaler_probe import injected_inf

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
PROBES = {"injected_inf": injected_inf}


def build(context: WorkerContext) -> TrainingStep:
    """The training step under the candidate's precision."""
    settings = context.spec.settings
    torch.set_float32_matmul_precision(str(settings["matmul"]))
    model = context.model()
    autocast = settings["autocast"]
    mechanism = Mechanism(
        autocast=None if autocast is None else DTYPES[str(autocast)],
        scaler=torch.amp.GradScaler(context.facts.kind) if settings["scaler"] else None,
        head=str(settings["head"]),
    )
    return TrainingStep(model, context.batch(), context.optimizer(model.network.parameters()), mechanism)

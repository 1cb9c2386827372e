"""Builds the step of one precision in a child: autocast, scaler, and the format of fp32 matrix products."""

from __future__ import annotations

from experiments.kinds.training_step.mechanism_of import plain
from experiments.kinds.training_step.program import TrainingStep
from experiments.kinds.training_step.worker import WorkerContext
from experiments.training_mechanism.mixed_precision_backward.scaler_probe import injected_inf

PROBES = {"injected_inf": injected_inf}


def build(context: WorkerContext) -> TrainingStep:
    """The training step under the candidate's precision."""
    mechanism = plain(context)
    model = context.model()
    return TrainingStep(model, context.batch(), context.optimizer(model.network.parameters()), mechanism)

"""Builds the step of a candidate, in the process that measures it."""

from __future__ import annotations

from dataclasses import replace

from experiments.kinds.training_step.mechanism_of import plain
from experiments.kinds.training_step.program import MicroBatch, TrainingStep
from experiments.kinds.training_step.worker import WorkerContext


# Change: what a candidate changes about the plain step, see `Mechanism` for what there is to change.
def build(context: WorkerContext) -> TrainingStep:
    """The training step over the candidate's pieces of the batch."""
    settings = context.spec.settings
    model, whole = context.model(), context.batch()
    pieces = cut(whole, int(str(settings["micro_batches"])))
    if settings["divided_by"] == "its own tokens":
        pieces = tuple(replace(piece, divisor=piece.tokens) for piece in pieces)
    mechanism = replace(plain(context), split=lambda _: pieces)
    return TrainingStep(model, whole, context.optimizer(model.network.parameters()), mechanism)


def cut(whole: MicroBatch, pieces: int) -> tuple[MicroBatch, ...]:
    """So many pieces of whole rows, each with the divisor of all."""
    inputs, targets = whole.inputs.chunk(pieces), whole.targets.chunk(pieces)
    return tuple(MicroBatch(ids, wanted, whole.divisor) for ids, wanted in zip(inputs, targets, strict=True))

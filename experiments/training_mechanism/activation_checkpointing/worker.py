"""Builds a step whose decoder layers are checkpointed, and the probe of what dropout needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils import checkpoint as torch_checkpoint

from experiments.evidence.vocabulary import JsonValue
from experiments.kinds.training_step.mechanism_of import plain
from experiments.kinds.training_step.program import TrainingStep
from experiments.kinds.training_step.worker import WorkerContext
from experiments.mechanisms.checkpoint import MATRIX_PRODUCTS, checkpoint, checkpoint_reentrant
from experiments.training_mechanism.shared.checkpointed_layers import wrap

Block = Callable[[Tensor], Tensor]
DROPOUT = 0.1


def build(context: WorkerContext) -> TrainingStep:
    """The training step with the candidate's layers checkpointed."""
    settings = context.spec.settings
    mechanism = plain(context)
    model = context.model()
    if settings["checkpoint"] != "none":
        every = int(str(settings.get("every_k", 1)))
        wrap(model, lambda number: number % every == 0, _form(settings))
    return TrainingStep(model, context.batch(), context.optimizer(model.network.parameters()), mechanism)


def _form(settings: Mapping[str, JsonValue]) -> Callable[[Block, Tensor], Tensor]:
    """How one block is run: by our own hand, or by PyTorch."""
    keep_random = settings.get("preserve_rng", True) is True
    if settings.get("form") == "reentrant":
        return lambda block, x: checkpoint_reentrant(block, x, preserve_rng=keep_random)
    if settings.get("form") == "torch":

        def by_torch(block: Block, x: Tensor) -> Tensor:
            out: Tensor = torch_checkpoint.checkpoint(block, x, use_reentrant=False, preserve_rng_state=keep_random)
            return out

        return by_torch
    keep = MATRIX_PRODUCTS if settings["checkpoint"] == "selective" else frozenset()

    def by_hand(block: Block, x: Tensor) -> Tensor:
        out: Tensor = checkpoint(block, x, preserve_rng=keep_random, keep=keep)
        return out

    return by_hand


def dropout_random_state(context: WorkerContext) -> dict[str, JsonValue]:
    """Relative L2 error of one row's gradients against no checkpointing, under dropout, random state kept and not."""
    with_dropout = replace(context, workload=replace(context.workload, dropout=DROPOUT, batch=1))
    reference = _gradients(with_dropout, None)
    kept = _error(_gradients(with_dropout, lambda block, x: checkpoint(block, x, preserve_rng=True)), reference)
    lost = _error(_gradients(with_dropout, lambda block, x: checkpoint(block, x, preserve_rng=False)), reference)
    return {"dropout": DROPOUT, "kept_error": kept, "lost_error": lost}


def _gradients(context: WorkerContext, form: Callable[[Block, Tensor], Tensor] | None) -> list[Tensor]:
    """Gradients of one step from the same weights and the same random state."""
    mechanism = plain(context)
    model = context.model()
    if form is not None:
        wrap(model, lambda number: True, form)
    parameters: list[nn.Parameter] = list(model.network.parameters())
    kept: list[Tensor] = []

    def ready(scale: Tensor) -> None:
        kept.extend(value.grad.div_(scale) for value in parameters if value.grad is not None)

    step = TrainingStep(model, context.batch(), context.optimizer(parameters), mechanism)
    torch.manual_seed(context.workload.seed)
    step.step(gradients_ready=ready)
    return kept


def _error(gradients: list[Tensor], reference: list[Tensor]) -> float:
    pairs = list(zip(gradients, reference, strict=True))
    apart = torch.stack([torch.linalg.vector_norm(mine - theirs, dtype=torch.float64) for mine, theirs in pairs])
    size = torch.stack([torch.linalg.vector_norm(theirs, dtype=torch.float64) for _, theirs in pairs])
    return float(torch.linalg.vector_norm(apart) / torch.linalg.vector_norm(size))


PROBES = {"dropout_random_state": dropout_random_state}

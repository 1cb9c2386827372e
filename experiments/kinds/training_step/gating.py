"""The gate task and the oracle task, inside a child: gradients and the update of the first step, against references.

The baseline's first process writes the reference; every other candidate, the baseline's twin among them, is compared
with it and with the float64 oracle. Errors are only measured here; whether they pass is for `findings`, in the parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from experiments.harness.finiteness import finite_or_none, not_finite
from experiments.harness.launch.outcome import EnterPhase
from experiments.kinds.training_step import dtype_watch, reference
from experiments.kinds.training_step.answers import Errors, GateAnswer, ReferenceAnswer, Underflow
from experiments.kinds.training_step.gate_bounds import SMALLEST_NORMAL
from experiments.kinds.training_step.program import Program
from experiments.kinds.training_step.worker import WorkerContext
from experiments.mechanisms import decoder_float64

TRIES = 24  # a fresh scaler may have to halve a few times before its first clean step
GRADIENTS, UPDATE, ORACLE = "gradients", "update", "oracle"


@dataclass(slots=True)
class _First:
    """What is kept of the first clean step while it happens."""

    gradient: Errors | None = None
    oracle: Errors | None = None
    not_finite: list[str] = field(default_factory=list)
    below_normal: int = 0
    zeros: int = 0
    entries: int = 0


def oracle(context: WorkerContext, scratch: Path, enter: EnterPhase) -> ReferenceAnswer:
    """Gradients of the float64 twin, written as a reference. Answers with its loss."""
    shape, model, batch = context.shape, context.model(), context.batch()
    weights = {name: value.detach().double().requires_grad_() for name, value in model.parameters().items()}
    sizes = decoder_float64.Sizes(
        layers=shape.layers,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        rope_theta=shape.rope_theta,
        norm_epsilon=shape.norm_epsilon,
    )
    enter("forward")
    loss = decoder_float64.loss(weights, sizes, batch.inputs, batch.targets, batch.divisor)
    enter("backward")
    loss.backward()
    enter("other")
    gradients = {name: value.grad for name, value in weights.items() if value.grad is not None}
    # on a card the model is large: rounding the oracle to fp32 adds 3e-8 and halves what every gate reads
    reference.write(scratch / ORACLE, gradients, torch.float64 if context.facts.kind == "cpu" else torch.float32)
    return ReferenceAnswer(loss=finite_or_none(float(loss.detach())))


def gate(context: WorkerContext, program: Program, scratch: Path, enter: EnterPhase) -> GateAnswer:
    """One clean optimizer step from the seeded weights: errors, finiteness, underflow, dtypes, and the scales tried.

    A skipped step leaves the weights as they are, so the next try sees the same gradients under half the scale.
    """
    parameters = program.parameters()
    writes = context.spec.role == "baseline"
    where = context.device.torch_device
    dtypes: dict[str, str] = {}
    scales: list[float] = []
    first = _First()

    def look(name: str, here: Tensor, there: Tensor) -> None:
        present = there != 0
        size = here.abs()
        lost = size < SMALLEST_NORMAL.get(context.spec.dtype, SMALLEST_NORMAL["float32"])
        first.below_normal += int((lost & present).sum())
        first.zeros += int(((size == 0) & present).sum())
        first.entries += int(present.sum())

    def gradients_ready(scale: Tensor) -> None:
        nonlocal first
        first = _First()
        gradients = {name: value.grad for name, value in parameters.items() if value.grad is not None}
        first.not_finite = not_finite(gradients)
        if first.not_finite:
            return
        if writes:
            reference.write(scratch / GRADIENTS, gradients, torch.float32, float(scale))
        elif reference.is_whole(scratch / GRADIENTS):
            first.gradient = reference.errors(gradients, scratch / GRADIENTS, where, float(scale), look)
        if reference.is_whole(scratch / ORACLE):
            first.oracle = reference.errors(gradients, scratch / ORACLE, where, float(scale))
        dtype_watch.of_parameters(program.model, dtypes)

    for _ in range(TRIES):
        with dtype_watch.watched(program.model, dtypes):
            result = program.step(enter, gradients_ready)
        if result.loss_scale is not None:
            scales.append(float(result.loss_scale))
        if not result.skipped:
            break
    enter("other")
    moved = _moved(context, program)
    update: Errors | None = None
    if writes and not first.not_finite:
        reference.write(scratch / UPDATE, moved, torch.float32)
    elif reference.is_whole(scratch / UPDATE) and not result.skipped:
        update = reference.errors(moved, scratch / UPDATE, where)
    return GateAnswer(
        loss=finite_or_none(float(result.loss)),
        skipped=result.skipped,
        scales=tuple(scales),
        dtypes=dict(dtypes),
        not_finite=(*first.not_finite, *not_finite(parameters)),
        gradient=first.gradient,
        oracle=first.oracle,
        update=update,
        weight_norm=finite_or_none(_norm(parameters)),
        update_norm=finite_or_none(_norm(moved)),
        underflow=Underflow(below_normal=first.below_normal, zeros=first.zeros, entries=first.entries),
        notes=program.notes(),
    )


def _moved(context: WorkerContext, program: Program) -> dict[str, Tensor]:
    """The update, on the device: the weights less those the step began with, which are built once more from the seed.

    A copy from before would be a second model on the device through the step, or two trips to the host.
    """
    program.free()  # room for it
    moved = {name: value.detach() for name, value in context.model().parameters().items()}
    for name, value in program.parameters().items():
        moved[name].neg_().add_(value.detach())
    return moved


def _norm(tensors: Mapping[str, Tensor]) -> float:
    """L2 norm of all tensors as one vector, summed in float64."""
    norms = [torch.linalg.vector_norm(value.detach(), dtype=torch.float64) for value in tensors.values()]
    return float(torch.linalg.vector_norm(torch.stack(norms)))

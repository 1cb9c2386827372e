"""Builds the step over micro-batches: plain, replayed from a CUDA graph, compiled, or in Accelerate's loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import accumulate as running_sum

from torch.optim import Optimizer

from experiments.evidence.vocabulary import JsonValue
from experiments.kinds.training_step.mechanism_of import plain
from experiments.kinds.training_step.program import MicroBatch, TrainingStep
from experiments.kinds.training_step.worker import WorkerContext
from experiments.mechanisms.accumulation import Normalise, divisors, split
from experiments.training_mechanism.gradient_accumulation.accelerate_step import AccelerateStep
from experiments.training_mechanism.gradient_accumulation.compiled_layers import compile_layers
from experiments.training_mechanism.gradient_accumulation.graph_step import GraphStep

PROBES: dict[str, Callable[[WorkerContext], Mapping[str, JsonValue]]] = {}


def build(context: WorkerContext) -> TrainingStep:
    """The training step over the candidate's micro-batches. Raises LabError where torch.compile cannot work."""
    settings = context.spec.settings
    model, whole = context.model(), context.batch()
    parts = micro_batches(context, whole)
    mechanism = replace(plain(context), split=lambda _: parts)
    if settings.get("compiled"):
        compile_layers(model, context.facts.kind)
    optimizer: Optimizer = context.optimizer(model.network.parameters())
    return _kind(settings)(model, whole, optimizer, mechanism)


def _kind(settings: Mapping[str, JsonValue]) -> Callable[..., TrainingStep]:
    if settings.get("form") == "accelerate":
        return AccelerateStep
    return GraphStep if settings.get("captured") else TrainingStep


def micro_batches(context: WorkerContext, whole: MicroBatch) -> tuple[MicroBatch, ...]:
    """The whole batch in pieces, each with the divisor the candidate's normalisation gives it."""
    settings, workload = context.spec.settings, context.workload
    sizes = split(workload.batch, int(str(settings["rows"])))
    lengths = workload.row_lengths or (workload.sequence,) * workload.batch
    ends = list(running_sum(sizes))
    counts = [sum(lengths[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    by: Normalise = "per_micro_batch" if settings["normalise"] == "per_micro_batch" else "per_token"
    return tuple(
        MicroBatch(whole.inputs[end - size : end], whole.targets[end - size : end], divisor * workload.piece_of, count)
        for size, end, divisor, count in zip(sizes, ends, divisors(counts, by), counts, strict=True)
    )

"""What a forked child has at hand to build its candidate: workload, settings, device, model and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import nn
from torch.optim import Optimizer

from experiments.harness.task_context import TaskContext
from experiments.kinds.training_step.program import MicroBatch, Program
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.models import causal_lm, registered_config
from experiments.models.batches import training_rows
from experiments.models.causal_lm import CausalLanguageModel
from experiments.models.registered_config import DecoderShape
from experiments.models.source_types import ModelAsset


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext(TaskContext[TrainingWorkload]):
    """One candidate in one child. Everything built from it is the same in every child with the same context."""

    asset: ModelAsset

    @property
    def shape(self) -> DecoderShape:
        """The model's sizes."""
        return registered_config.shape(self.asset.config)

    def model(self) -> CausalLanguageModel:
        """The model in fp32, its dropout as the workload says, weights from the workload's seed or from its files."""
        dropout = self.workload.dropout
        return causal_lm.build(self.asset, self.workload.seed, self.device.torch_device, dropout=dropout)

    def batch(self) -> MicroBatch:
        """The batch on the device. Its summed loss is divided by the tokens of the whole effective batch.

        That is this batch, or `piece_of` times as many tokens where the workload is one piece of a larger step.
        """
        workload = self.workload
        rows = training_rows(self.asset, workload.batch, workload.sequence, workload.row_lengths)
        where = self.device.torch_device
        inputs, targets = (torch.tensor(ids, dtype=torch.int64, device=where) for ids in (rows.inputs, rows.targets))
        return MicroBatch(inputs=inputs, targets=targets, divisor=rows.tokens * workload.piece_of, counted=rows.tokens)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """The workload's optimizer: plain SGD, or AdamW (fused where a card is)."""
        if self.workload.optimizer == "adamw":
            fused = self.facts.kind == "cuda"
            return torch.optim.AdamW(parameters, lr=self.workload.learning_rate, fused=fused)
        return torch.optim.SGD(parameters, lr=self.workload.learning_rate)


def builder(module: str) -> Callable[[WorkerContext], Program]:
    """The `build` of an experiment's worker module."""
    build: Callable[[WorkerContext], Program] = import_module(module).build
    return build

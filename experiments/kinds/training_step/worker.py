"""What a forked child has at hand to build its candidate: workload, settings, device, model and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import torch
from torch import nn
from torch.optim import Optimizer

from experiments.evidence.vocabulary import JsonValue
from experiments.harness.device.device import CONTEXT_GIB, GIB, Device
from experiments.harness.experiment import CandidateSpec, DeviceFacts
from experiments.kinds.training_step.program import MicroBatch, Program
from experiments.kinds.training_step.training_workload import Workload
from experiments.models import causal_lm, registered_config
from experiments.models.batches import training_rows
from experiments.models.causal_lm import CausalLanguageModel
from experiments.models.registered_config import DecoderShape
from experiments.models.source_types import ModelAsset

Probe = Callable[["WorkerContext"], Mapping[str, JsonValue]]


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """One candidate in one child. Everything built from it is the same in every child with the same context."""

    workload: Workload
    spec: CandidateSpec
    facts: DeviceFacts
    asset: ModelAsset
    cap_gib: float | None = None
    threads: int = 1
    peer_path: Path | None = None

    @property
    def device(self) -> Device:
        """The device the run is on."""
        return Device(self.facts.kind)

    @property
    def shape(self) -> DecoderShape:
        """The model's sizes."""
        return registered_config.shape(self.asset.config)

    def prepare(self) -> None:
        """Pin what must not vary: threads, seed, the fp32 matmul format, the memory cap. Call before anything else."""
        torch.set_num_threads(self.threads)
        torch.manual_seed(self.workload.seed)
        torch.set_float32_matmul_precision("highest")
        self.device.limit_memory(self.cap_gib, self.facts.context_bytes)

    def allowed_bytes(self) -> int | None:
        """Device memory this run may use, cap and context considered; None on CPU."""
        card = self.facts.card
        if card is None or card.memory_bytes is None:
            return None
        limit = card.memory_bytes if self.cap_gib is None else min(card.memory_bytes, int(self.cap_gib * GIB))
        return limit - int(self.facts.context_bytes or CONTEXT_GIB * GIB)

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


def probe(module: str, name: str) -> Probe:
    """One of its probes."""
    probes: Mapping[str, Probe] = import_module(module).PROBES
    return probes[name]

"""The step whose micro-steps are replayed from one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from experiments.harness.launch.outcome import EnterPhase
from experiments.kinds.training_step.program import TrainingStep
from experiments.mechanisms.loss_head import chunked_loss, full_loss
from experiments.mechanisms.micro_step_graph import MicroStepGraph, Run, cuda_graph


class GraphStep(TrainingStep):
    """A training step of equal micro-batches, each one a replay. The first step records, so warm up before timing.

    Forward, loss head and backward have no borders of their own inside a replay: together they are phase `other`.
    """

    def __init__(self, *given: Any, record: Callable[[Run], Run] = cuda_graph) -> None:
        super().__init__(*given)
        self._record = record
        self._graph: MicroStepGraph | None = None

    def accumulate(self, enter: EnterPhase) -> Tensor:
        """Replays the micro-step for each micro-batch; gradients stay where the recording knows them."""
        parts = self.mechanism.split(self._batch)
        if self._graph is None:
            enter("warm_up")
            scaler = self.mechanism.scaler
            how = {} if scaler is None else {"scaled": scaler.scale}
            parameters = self.model.parameters().values()
            first = parts[0]
            self._graph = MicroStepGraph(
                self._loss_sum, first.inputs, first.targets, parameters, record=self._record, **how
            )
        enter("other")
        self._graph.start()
        for part in parts:
            self._graph.add(part.inputs, part.targets, part.divisor)
        return self._graph.loss()

    def free(self) -> None:
        """The recording holds the gradients and its pool: it goes with them, and the next step records anew."""
        self._graph = None
        super().free()

    def _loss_sum(self, inputs: Tensor, targets: Tensor) -> Tensor:
        how = self.mechanism
        head = chunked_loss if how.head == "chunked" else full_loss
        low = how.autocast is not None
        with torch.autocast(inputs.device.type, dtype=how.autocast, enabled=low, cache_enabled=False):
            return head(how.hidden_states(self.model, inputs), self.model.head, targets, 1)

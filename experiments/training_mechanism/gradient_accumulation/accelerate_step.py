"""The same pieces through Accelerate's own loop: its autocast, its scaler, its accumulation, its optimizer.

`Accelerator.backward` divides every loss by the number of accumulation steps, whatever the micro-batches hold. The
per-token loss is therefore multiplied by that number first; with a plain mean per micro-batch, Accelerate's default
recipe, a token's weight would depend on the length of its neighbours.
"""

from __future__ import annotations

from typing import Any

import accelerate
import torch
from torch import Tensor

from experiments.harness.launch.outcome import EnterPhase
from experiments.kinds.training_step.answers import Notes
from experiments.kinds.training_step.program import (
    GradientsReady,
    StepResult,
    TrainingStep,
    no_look,
    no_phase,
)
from experiments.mechanisms.loss_head import chunked_loss, full_loss

MIXED_PRECISION = {None: "no", torch.bfloat16: "bf16", torch.float16: "fp16"}


class AccelerateStep(TrainingStep):
    """A training step in which Accelerate decides when to unscale, to update, and to clear gradients."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._parts = self.mechanism.split(self._batch)
        self._accelerator: Any = accelerate.Accelerator(
            gradient_accumulation_steps=len(self._parts),
            mixed_precision=MIXED_PRECISION[self.mechanism.autocast],
            cpu=self._batch.inputs.device.type == "cpu",
        )
        self._prepared: Any
        self._prepared, self._network = self._accelerator.prepare(self.optimizer, self.model.network)

    def step(self, enter: EnterPhase = no_phase, gradients_ready: GradientsReady = no_look) -> StepResult:
        """One optimizer step: Accelerate updates with the last micro-batch, and not before."""
        accelerator = self._accelerator
        scale, scale_after = None, None
        self._prepared.zero_grad()
        total = torch.zeros((), device=self._batch.inputs.device)
        for part in self._parts:
            with accelerator.accumulate(self._network):
                total += self._backward(part.inputs, part.targets, part.divisor, enter)
                if accelerator.sync_gradients:
                    scale = self._scale()
                    gradients_ready(self._one if scale is None else scale)
                    enter("optimizer")
                self._prepared.step()
        scale_after = self._scale()
        mean = total * (self._batch.divisor / self._batch.tokens)
        return StepResult(loss=mean, loss_scale=scale, scale_after=scale_after)

    def _backward(self, inputs: Tensor, targets: Tensor, divisor: int, enter: EnterPhase) -> Tensor:
        """One micro-batch's share of the loss, its gradients added."""
        enter("forward")
        with self._accelerator.autocast():
            hidden = self.mechanism.hidden_states(self.model, inputs)
            enter("loss_head")
            head = chunked_loss if self.mechanism.head == "chunked" else full_loss
            loss = head(hidden, self.model.head, targets, divisor)
        enter("backward")
        self._accelerator.backward(loss * len(self._parts))
        return loss.detach()

    def _scale(self) -> Tensor | None:
        scaler = self._accelerator.scaler
        return None if scaler is None else scaler.scale(self._one)

    def notes(self) -> Notes:
        """Which Accelerate this was."""
        return Notes(peer=f"accelerate {accelerate.__version__}")

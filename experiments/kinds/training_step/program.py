"""The step that is measured: one optimizer step, from ids to moved weights, with its phases marked.

`Program` is what the harness measures. `TrainingStep` is the plain one, with a place for each thing a mechanism may
change (`Mechanism`); an experiment whose step is built differently (a CUDA graph, another library) brings its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from experiments.evidence.vocabulary import Phase
from experiments.harness.launch.outcome import EnterPhase
from experiments.kinds.training_step.answers import Notes
from experiments.mechanisms.loss_head import chunked_loss, full_loss
from experiments.models.causal_lm import CausalLanguageModel

# Called when the gradients of the whole effective batch are complete and nothing has been moved yet: it is given the
# factor by which they are too large (the loss scale, or one) as a 0-dim tensor, and may change them in place.
GradientsReady = Callable[[Tensor], None]


def no_phase(phase: Phase) -> None:
    """For a step whose phases nobody watches: the timed ones."""


def no_look(scale: Tensor) -> None:
    """For a step whose gradients nobody looks at."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step reports, as tensors: reading a number waits for the device, so it is done after the timing."""

    loss: Tensor  # mean over the tokens of the batch, whatever it was divided by for backward
    loss_scale: Tensor | None = None  # in force when the step began; None without a scaler
    scale_after: Tensor | None = None

    @property
    def skipped(self) -> bool:
        """Whether the scaler threw the step away: it then, and only then, has lowered its scale."""
        return self.loss_scale is not None and self.scale_after is not None and bool(self.scale_after < self.loss_scale)


class Program(Protocol):
    """One candidate, built and ready to step."""

    model: CausalLanguageModel
    optimizer: Optimizer

    def parameters(self) -> Mapping[str, nn.Parameter]:
        """Every trained tensor once, by Transformers' name."""

    def step(self, enter: EnterPhase = no_phase, gradients_ready: GradientsReady = no_look) -> StepResult:
        """One optimizer step. Calls `enter` at the border of each phase."""

    def free(self) -> None:
        """Let go of gradients and of all that the next step would make again."""

    def notes(self) -> Notes:
        """What the candidate has to tell besides: bytes moved, versions of peers."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Ids and targets [rows, sequence] of one forward and backward, and what its summed loss is divided by.

    `counted` is how many targets carry a loss, known without asking the device; None: all of them.
    """

    inputs: Tensor
    targets: Tensor
    divisor: int
    counted: int | None = None

    @property
    def tokens(self) -> int:
        """How many targets carry a loss."""
        return self.targets.numel() if self.counted is None else self.counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """What a candidate changes about the plain step. The defaults change nothing."""

    autocast: torch.dtype | None = None
    scaler: torch.amp.GradScaler | None = None
    head: str = "full"
    forward_context: Callable[[], AbstractContextManager[object]] = nullcontext  # around each decoder forward
    split: Callable[[MicroBatch], Sequence[MicroBatch]] = lambda whole: (whole,)
    hidden_states: Callable[[CausalLanguageModel, Tensor], Tensor] = CausalLanguageModel.hidden_states
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None


class TrainingStep:
    """The plain step: forward, loss head, backward per micro-batch, then the optimizer."""

    def __init__(
        self, model: CausalLanguageModel, batch: MicroBatch, optimizer: Optimizer, mechanism: Mechanism | None = None
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.mechanism = mechanism or Mechanism()
        self._batch = batch
        self._one = torch.ones((), device=batch.inputs.device)

    def parameters(self) -> Mapping[str, nn.Parameter]:
        """Every trained tensor once, by Transformers' name."""
        return self.model.parameters()

    def step(self, enter: EnterPhase = no_phase, gradients_ready: GradientsReady = no_look) -> StepResult:
        """One optimizer step over the whole batch, in as many micro-batches as the mechanism makes of it."""
        total = self.accumulate(enter)
        # scale(1) is the scale as a tensor: reading it as a number would wait for the device inside a timed step
        scaler = self.mechanism.scaler
        scale = None if scaler is None else scaler.scale(self._one)
        gradients_ready(self._one if scale is None else scale)
        enter("optimizer")
        mean = total * (self._batch.divisor / self._batch.tokens)
        return StepResult(loss=mean, loss_scale=scale, scale_after=self._update(scale))

    def accumulate(self, enter: EnterPhase) -> Tensor:
        """Clears the gradients and fills them over all micro-batches. Returns the sum of their losses, each divided."""
        how = self.mechanism
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self._batch.inputs.device)
        for part in how.split(self._batch):
            enter("forward")
            with self._autocast():
                with how.forward_context():
                    hidden = how.hidden_states(self.model, part.inputs)
                enter("loss_head")
                head = chunked_loss if how.head == "chunked" else full_loss
                loss = head(hidden, self.model.head, part.targets, part.divisor)
            enter("backward")
            (loss if how.scaler is None else how.scaler.scale(loss)).backward()
            total += loss.detach()
            del hidden, loss
        return total

    def free(self) -> None:
        """Gradients go; weights and optimizer state stay."""
        self.optimizer.zero_grad(set_to_none=True)

    def notes(self) -> Notes:
        """The plain step has nothing to tell."""
        return Notes()

    def _autocast(self) -> AbstractContextManager[object]:
        if self.mechanism.autocast is None:
            return nullcontext()
        return torch.autocast(self._batch.inputs.device.type, dtype=self.mechanism.autocast)

    def _update(self, scale: Tensor | None) -> Tensor | None:
        """Step, or skip after an overflow. A scaler's step says nothing: a skip shows in its scale alone."""
        scaler, schedule = self.mechanism.scaler, self.mechanism.schedule
        if scaler is None or scale is None:
            self.optimizer.step()
            if schedule is not None:
                schedule.step()
            return None
        scaler.step(self.optimizer)
        scaler.update()
        after: Tensor = scaler.scale(self._one)
        if schedule is not None and bool(after >= scale):
            schedule.step()  # a skipped step is no step: the schedule waits (pytorch#55585)
        return after

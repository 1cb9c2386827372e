"""The memory ledger: what a training step will hold on the device, term by term and phase by phase, before it runs.

Pure arithmetic on a model's shape and a candidate's settings; no torch. It counts live tensors, which is what PyTorch
reports as allocated memory: what the allocator holds in reserve and the CUDA context come on top, and are named apart.
Where each term comes from is said where it is formed: `layers`, `head`, `step_bytes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from experiments.evidence.candidate import Prediction
from experiments.kinds.training_step.ledger.ledger_settings import LedgerSettings
from experiments.kinds.training_step.ledger.step_bytes import GIB, Step
from experiments.models.registered_config import DecoderShape

CONTEXT_BYTES = round(0.6 * GIB)  # what a CUDA process holds before its first tensor; not part of `allocated`

StepPhase = Literal["forward", "loss_head", "backward", "optimizer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What one candidate will hold, in bytes.

    `after_forward` is everything allocated when the decoder has run and the head has not; `saved` is what waits for
    the backward once the loss is known: activations, weight copies and the head's part, without weights and optimizer.
    `phases` has the highest allocation of each phase of the step, in order; the head's backward is in `backward`.
    """

    state: int  # weights and optimizer, from before the step
    gradients: int  # of all parameters, at the end of backward
    casts: int  # low-precision copies of the decoder's matrices that wait for the backward
    activations: int  # what the layers and the last norm hold on the device for the backward
    head: int  # what the loss head holds for its backward
    after_forward: int
    phases: Mapping[StepPhase, int]
    head_limited: bool  # the loss head's tower sets the peak: nothing done in the layers can lower it further
    pool: int = 0  # what a CUDA graph keeps reserved for itself beside the peak

    @property
    def saved(self) -> int:
        """What waits for the backward once the loss is known."""
        return self.activations + self.casts + self.head

    @property
    def peak(self) -> int:
        """Highest allocation of the step."""
        return max(self.phases.values())

    @property
    def peak_phase(self) -> StepPhase:
        """The phase it falls in."""
        return max(self.phases, key=lambda phase: self.phases[phase])

    @property
    def needed(self) -> int:
        """What the device must have for it: the peak, a graph's pool, and the CUDA context."""
        return self.peak + self.pool + CONTEXT_BYTES


def forecast(shape: DecoderShape, settings: LedgerSettings) -> Ledger:
    """The ledger of one candidate. Raises LabError for settings that are no step of this model."""
    settings.check(shape)
    step = Step(shape, settings)
    eager: dict[StepPhase, int] = {
        "forward": step.forward(),
        "loss_head": step.after_forward() + step.head.forward,
        "backward": max(step.head_backward(), step.layers_backward(), step.last_backward()),
        "optimizer": step.standing + step.parameters,
    }
    highest = max(eager.values())
    # replayed from a CUDA graph, all between weights and gradients lives in the graph's pool: reserved, not allocated
    captured = step.standing + step.parameters
    return Ledger(
        state=step.state(),
        gradients=step.parameters,
        casts=step.casts(),
        activations=step.activations(),
        head=step.head.kept,
        after_forward=captured if settings.captured else step.after_forward(),
        phases=dict.fromkeys(eager, captured) if settings.captured else eager,
        head_limited=not settings.captured and highest in (eager["loss_head"], step.head_backward()),
        pool=highest - captured if settings.captured else 0,
    )


def predictions(shape: DecoderShape, settings: LedgerSettings) -> tuple[Prediction, ...]:
    """The ledger's rows for a record: residency after the forward and peak, both as the harness measures them."""
    ledger = forecast(shape, settings)
    values = {"after_forward_bytes": ledger.after_forward, "peak_allocated_bytes": ledger.peak}
    return tuple(
        Prediction(quantity=quantity, formula="memory ledger", unit="bytes", predicted=float(value))
        for quantity, value in values.items()
    )

"""The measure task, inside a child: warm up, time the steps, read the peaks, then one step phase by phase.

Peaks are reset after the warm-up, so a first-use workspace is not taken for the step's own memory. The timed steps are
the bare step between two marks and a wait; whatever needs a closer look (phases, busy time) is a step of its own after
them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch

from experiments.evidence.vocabulary import Phase
from experiments.harness.device.busy_time import busy_ms
from experiments.harness.device.device import ComputeDevice
from experiments.harness.finiteness import finite_or_none, not_finite
from experiments.harness.launch.outcome import EnterPhase
from experiments.kinds.training_step.answers import MeasureAnswer, PhaseReading
from experiments.kinds.training_step.program import Program, StepResult
from experiments.kinds.training_step.training_workload import TrainingWorkload


@dataclass(slots=True)
class _PhaseLedger:
    """Peaks by phase, in the order in which phases were first entered; a phase entered again keeps its highest."""

    device: ComputeDevice
    current: Phase | None = None
    peaks: dict[Phase, int] = field(default_factory=dict)
    order: list[Phase] = field(default_factory=list)
    after_forward: int | None = None

    def enter(self, phase: Phase) -> None:
        """Close the phase before, open this one."""
        self.close()
        if self.current == "forward" and phase == "loss_head":
            allocated = self.device.memory().allocated
            if allocated is not None:
                self.after_forward = max(allocated, self.after_forward or 0)
        self.current = phase
        self.order.append(phase)
        self.device.reset_peaks()

    def close(self) -> None:
        """Write down the peak of the phase that ends."""
        peak = self.device.memory().peak_allocated
        if self.current is not None and peak is not None:
            self.peaks[self.current] = max(peak, self.peaks.get(self.current, 0))


def measure(workload: TrainingWorkload, device: ComputeDevice, program: Program, enter: EnterPhase) -> MeasureAnswer:
    """Timed steps, memory and phases of one candidate in one fresh process."""
    enter("warm_up")
    for _ in range(workload.warmup):
        program.step(enter)  # says which phase it is in: what does not fit runs out of memory here
    device.synchronise()
    device.reset_peaks()

    enter("forward")
    steps: list[StepResult] = []
    step_ms: list[float] = []
    wall_ms: list[float] = []
    for _ in range(workload.steps):
        watch, began = device.stopwatch(), time.perf_counter()
        watch.mark()
        result = program.step()
        watch.mark()
        device.synchronise()
        wall_ms.append((time.perf_counter() - began) * 1e3)
        step_ms.extend(watch.spans_ms())
        steps.append(result)
    enter("other")
    memory = device.memory(process=True)
    state = _state_bytes(program) if device.kind == "cuda" else None
    ledger, phase_ms = _one_step_by_phase(device, program)
    return MeasureAnswer(
        step_ms=tuple(step_ms),
        wall_ms=tuple(wall_ms),
        busy_ms=busy_ms(device, program.step),
        losses=tuple(finite_or_none(float(step.loss)) for step in steps),
        scales=tuple(None if step.loss_scale is None else float(step.loss_scale) for step in steps),
        skipped=tuple(step.skipped for step in steps),
        not_finite=tuple(not_finite(program.parameters())),
        peak_allocated=memory.peak_allocated,
        peak_reserved=memory.peak_reserved,
        process=memory.process,
        after_forward=ledger.after_forward,
        state=state,
        phases=tuple(
            PhaseReading(phase=phase, peak=ledger.peaks.get(phase), ms=phase_ms[phase])
            for phase in dict.fromkeys(ledger.order)
        ),
        notes=program.notes(),
    )


def _one_step_by_phase(device: ComputeDevice, program: Program) -> tuple[_PhaseLedger, dict[Phase, float]]:
    ledger, watch = _PhaseLedger(device), device.stopwatch()

    def enter(phase: Phase) -> None:
        ledger.enter(phase)
        watch.mark()

    program.step(enter)
    ledger.close()
    watch.mark()
    spans: dict[Phase, float] = {}
    for phase, span in zip(ledger.order, watch.spans_ms(), strict=True):
        spans[phase] = spans.get(phase, 0.0) + span
    return ledger, spans


def _state_bytes(program: Program) -> int:
    """Weights, their gradients and the optimizer's tensors, in bytes."""
    parameters = program.parameters().values()
    held = [*parameters, *(value.grad for value in parameters if value.grad is not None)]
    for entry in program.optimizer.state.values():
        held.extend(value for value in entry.values() if isinstance(value, torch.Tensor))
    return sum(value.numel() * value.element_size() for value in held)

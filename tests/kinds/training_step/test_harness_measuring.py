"""The measure task against a device that plays an allocator: warm-up, peaks, phases, skips, the bare step's time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from experiments.evidence.vocabulary import Phase
from experiments.harness.device.device import ComputeDevice, HostStopwatch, MemoryReading
from experiments.harness.experiment import CandidateSpec, DeviceFacts
from experiments.kinds.training_step import measuring
from experiments.kinds.training_step.answers import Notes
from experiments.kinds.training_step.program import Mechanism, StepResult, TrainingStep, no_look, no_phase
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.kinds.training_step.worker import WorkerContext
from experiments.models import registered_config

WORKLOAD = TrainingWorkload(name="w", model="tiny-qwen2", batch=1, sequence=16, steps=3, warmup=2, rounds=1)
FACTS = DeviceFacts(kind="cpu", torch=torch.__version__, bf16_native=True, tf32=False)
SPEC = CandidateSpec(name="fp32", role="baseline", settings={})


@dataclass(frozen=True)
class Allocator(ComputeDevice):
    """A card's allocator as far as the harness reads it: the program below sets what is allocated."""

    kind: str = "cuda"  # type: ignore[assignment]
    state: dict[str, int] = field(default_factory=lambda: {"allocated": 0, "peak": 0, "reserved": 0})
    process_bytes: int | None = None

    def stopwatch(self) -> HostStopwatch:  # type: ignore[override]
        return HostStopwatch()

    def synchronise(self) -> None:
        pass

    def reset_peaks(self) -> None:
        self.state["peak"] = self.state["allocated"]

    def memory(self, *, process: bool = False) -> MemoryReading:
        return MemoryReading(
            peak_allocated=self.state["peak"],
            peak_reserved=self.state["reserved"],
            allocated=self.state["allocated"],
            process=self.process_bytes if process else None,
        )

    def hold(self, amount: int) -> None:
        self.state["allocated"] = amount
        self.state["peak"] = max(self.state["peak"], amount)
        self.state["reserved"] = max(self.state["reserved"], amount)


class Script:
    """A program whose allocations are written down: forward to 40, head to 70, backward 30, 10 between steps."""

    def __init__(self, device: Allocator, first_extra: int = 0, first_pause_s: float = 0.0) -> None:
        self.device, self.first_extra, self.first_pause_s, self.steps = device, first_extra, first_pause_s, 0
        self.model = registered_tiny()
        self.optimizer = torch.optim.SGD(self.model.network.parameters(), lr=0.1)

    def parameters(self) -> Mapping[str, torch.nn.Parameter]:
        return self.model.parameters()

    def step(self, enter: Callable[[Phase], None] = no_phase, gradients_ready: object = no_look) -> StepResult:
        self.steps += 1
        extra = self.first_extra if self.steps == 1 else 0
        if self.steps == 1:
            time.sleep(self.first_pause_s)
        for phase, amount in (("forward", 40), ("loss_head", 70), ("backward", 30), ("optimizer", 20)):
            enter(phase)  # type: ignore[arg-type]
            self.device.hold(amount + extra)
        self.device.hold(10)
        return StepResult(loss=torch.tensor(1.0))

    def notes(self) -> Notes:
        return Notes()


def registered_tiny():  # type: ignore[no-untyped-def]
    return context().model()


def context(**knobs: object) -> WorkerContext:
    workload = replace(WORKLOAD, **knobs)  # type: ignore[arg-type]
    return WorkerContext(workload=workload, spec=SPEC, facts=FACTS, asset=registered_config.asset("tiny-qwen2"))


def measure(workload: TrainingWorkload, device: ComputeDevice, program: object) -> Any:
    return measuring.measure(workload, device, program, no_phase)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "busy_ms", lambda device, work: None)


def test_the_peak_of_the_warm_up_is_not_the_measurement() -> None:
    """A first-use workspace of 1000 stands in the warm-up only; the step itself peaks at 70."""
    device = Allocator()
    result = measure(WORKLOAD, device, Script(device, first_extra=1000))
    assert result.peak_allocated == 70


def test_without_a_warm_up_the_first_step_would_be_measured() -> None:
    device = Allocator()
    assert measure(replace(WORKLOAD, warmup=0), device, Script(device, first_extra=1000)).peak_allocated == 1070


def test_a_slow_first_step_is_warm_up_and_not_a_sample() -> None:
    device = Allocator()
    result = measure(WORKLOAD, device, Script(device, first_pause_s=0.3))
    assert len(result.step_ms) == WORKLOAD.steps  # type: ignore[arg-type]
    assert max(result.step_ms) < 200  # type: ignore[call-overload]


def test_each_phase_has_its_own_peak_and_after_forward_is_what_stands_then() -> None:
    device = Allocator()
    result = measure(WORKLOAD, device, Script(device))
    peaks = {entry.phase: entry.peak for entry in result.phases}  # type: ignore[union-attr,attr-defined]
    assert peaks == {"forward": 40, "loss_head": 70, "backward": 70, "optimizer": 30}
    assert result.after_forward == 40


def test_allocated_reserved_and_process_are_three_numbers() -> None:
    device = Allocator(process_bytes=12_433)
    result = measure(WORKLOAD, device, Script(device, first_extra=500))
    assert (result.peak_allocated, result.peak_reserved, result.process) == (70, 570, 12_433)


def test_on_the_cpu_memory_is_unknown_and_not_zero() -> None:
    made = context()
    program = TrainingStep(made.model(), made.batch(), made.optimizer(made.model().network.parameters()))
    result = measure(WORKLOAD, made.device, program)
    for key in ("peak_allocated", "peak_reserved", "process", "after_forward", "state", "busy_ms"):
        assert getattr(result, key) is None
    assert all(value > 0 for value in result.step_ms)  # type: ignore[union-attr]


def test_a_loss_that_is_not_a_number_is_none_and_named() -> None:
    made = context()
    model = made.model()
    with torch.no_grad():
        next(iter(model.parameters().values()))[:] = float("nan")
    program = TrainingStep(model, made.batch(), made.optimizer(model.network.parameters()))
    result = measure(WORKLOAD, made.device, program)
    assert result.losses == (None,) * WORKLOAD.steps
    assert "model.embed_tokens.weight" in result.not_finite  # type: ignore[operator]


def test_a_skipped_step_is_told_and_the_schedule_waits() -> None:
    made = context()
    model = made.model()
    optimizer = made.optimizer(model.network.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    # a scale beyond fp32's reach: every gradient overflows until it has come down
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    step = TrainingStep(
        model, made.batch(), optimizer, Mechanism(autocast=torch.float16, scaler=scaler, schedule=schedule)
    )
    before = {name: value.detach().clone() for name, value in model.parameters().items()}
    result = step.step()
    assert result.skipped
    assert schedule.last_epoch == 0
    assert all(torch.equal(value, before[name]) for name, value in model.parameters().items())
    for _ in range(200):
        if not step.step().skipped:
            break
    assert schedule.last_epoch == 1


def test_the_loss_is_the_mean_over_the_tokens_whatever_it_was_divided_by() -> None:
    losses = []
    for piece_of in (1, 8):
        made = context(piece_of=piece_of)
        model = made.model()
        program = TrainingStep(model, made.batch(), made.optimizer(model.network.parameters()))
        losses.append(float(program.step().loss))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_the_chunked_head_gives_the_same_loss_and_gradients() -> None:
    found = []
    for head in ("full", "chunked"):
        made = context(batch=2, sequence=200)
        model = made.model()
        program = TrainingStep(model, made.batch(), made.optimizer(model.network.parameters()), Mechanism(head=head))
        loss = float(program.step().loss)
        found.append((loss, model.head.grad))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)
    assert torch.allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-8)


class Bare:
    """A step that does nothing, so that whatever is seen between two of them is the loop's own."""

    def __init__(self) -> None:
        self.model = registered_tiny()
        self.optimizer = torch.optim.SGD(self.model.network.parameters(), lr=0.1)
        self.result = StepResult(loss=torch.tensor(1.0))

    def parameters(self) -> Mapping[str, torch.nn.Parameter]:
        return {}

    def step(self, enter: Callable[[Phase], None] = no_phase, gradients_ready: object = no_look) -> StepResult:
        return self.result

    def free(self) -> None:
        pass

    def notes(self) -> Notes:
        return Notes()


# What runs between the end of one timed step and the beginning of the next: the end of one time, the start of another.
BETWEEN_STEPS = (
    *("mark", "perf_counter", "append", "synchronise", "perf_counter", "append", "spans_ms", "extend", "append"),
    *("stopwatch", "__init__", "perf_counter", "mark", "perf_counter", "append"),
)


def test_nothing_but_the_clock_runs_between_two_timed_steps() -> None:
    """Counted, not timed: one call more in the loop, of Python or of C, is seen on any machine."""
    seen: list[str] = []

    def watch(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_name)
        elif event == "c_call":
            seen.append(argument.__name__)

    program = Bare()
    sys.setprofile(watch)
    try:
        measure(WORKLOAD, ComputeDevice("cpu"), program)
    finally:
        sys.setprofile(None)
    seen = [name for name in seen if name != "<listcomp>"]  # no call of its own since Python 3.12
    marks = [place for place, name in enumerate(seen) if name == "step"]
    timed = marks[WORKLOAD.warmup : WORKLOAD.warmup + WORKLOAD.steps]
    between = [tuple(seen[first + 1 : second]) for first, second in pairwise(timed)]
    assert between == [BETWEEN_STEPS] * (WORKLOAD.steps - 1)

"""An infinity put into one gradient at step k: the scaler has to go through its exact states.

PyTorch's scaler and the one written out in `mechanisms.grad_scaler` walk the same steps, one after the other, on the
small registered model (a scaler does not see the model's size), on the run's own device, with AdamW so that there is
an optimizer state to be left alone, and a schedule that must wait. The scales both went through are compared with
what the pure state machine says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from experiments.evidence.vocabulary import JsonValue
from experiments.kinds.training_step.worker import WorkerContext
from experiments.mechanisms import grad_scaler
from experiments.mechanisms.grad_scaler import ScalerState
from experiments.mechanisms.loss_head import full_loss
from experiments.models import registered_config

STEPS = 8
INJECTED_AT = 2
GROWTH_INTERVAL = 3  # short, so that the scale grows again inside the probe
INITIAL_SCALE = 65536.0


@dataclass(slots=True)
class _Walk:
    """What one scaler did over the steps."""

    scales: list[float]  # before each step, and after the last
    skipped: list[int]
    parameters_identical: bool = False
    state_identical: bool = False
    schedule_advanced: bool = True
    weights: dict[str, Tensor] | None = None


def injected_inf(context: WorkerContext) -> Mapping[str, JsonValue]:
    """The probe's answer: PyTorch's walk, whether ours and the state machine agree, and what the skip left alone."""
    small = replace(
        context,
        asset=registered_config.asset("tiny-qwen2"),
        workload=replace(context.workload, batch=2, sequence=32, optimizer="adamw", learning_rate=1e-3),
    )
    theirs, ours = _walk(small, _their_step), _walk(small, _our_step)
    expected = expected_scales()
    same_weights = None
    if context.facts.kind == "cpu" and theirs.weights is not None and ours.weights is not None:
        mine = ours.weights  # on a card sums run in no fixed order, so equal bits are asked of the CPU only
        same_weights = all(torch.equal(value, mine[name]) for name, value in theirs.weights.items())
    passed = (
        theirs.scales == expected
        and ours.scales == expected
        and theirs.skipped == [INJECTED_AT] == ours.skipped
        and all(walk.parameters_identical and walk.state_identical for walk in (theirs, ours))
        and not (theirs.schedule_advanced or ours.schedule_advanced)
        and same_weights is not False
    )
    return {
        "injected_step": INJECTED_AT,
        "scales": list(theirs.scales),
        "own_scales": list(ours.scales),
        "expected_scales": list(expected),
        "scale_before": theirs.scales[INJECTED_AT],
        "scale_after": theirs.scales[INJECTED_AT + 1],
        "skipped_steps": list(theirs.skipped),
        "skips_counted": len(theirs.skipped),
        "parameters_identical": theirs.parameters_identical and ours.parameters_identical,
        "optimizer_state_identical": theirs.state_identical and ours.state_identical,
        "schedule_advanced": theirs.schedule_advanced or ours.schedule_advanced,
        "own_weights_identical": same_weights,
        "passed": passed,
    }


def expected_scales() -> list[float]:
    """What the state machine alone says: 65536, 65536, 65536, then half, then doubled after three clean steps."""
    state = ScalerState(scale=INITIAL_SCALE, growth_interval=GROWTH_INTERVAL)
    scales = [state.scale]
    for step in range(STEPS):
        state = grad_scaler.advance(state, found_inf=step == INJECTED_AT)
        scales.append(state.scale)
    return scales


# One optimizer step of either scaler: given the loss and a call that poisons a gradient, it answers whether it skipped.
_Step = Callable[[Tensor, Callable[[], None]], bool]
_Make = Callable[[WorkerContext, torch.optim.Optimizer], tuple[_Step, Callable[[], float]]]


def _their_step(context: WorkerContext, optimizer: torch.optim.Optimizer) -> tuple[_Step, Callable[[], float]]:
    scaler = torch.amp.GradScaler(context.facts.kind, init_scale=INITIAL_SCALE, growth_interval=GROWTH_INTERVAL)

    def step(loss: Tensor, poison: Callable[[], None]) -> bool:
        scaler.scale(loss).backward()
        poison()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        return scaler.get_scale() < before

    return step, lambda: float(scaler.get_scale())


def _our_step(context: WorkerContext, optimizer: torch.optim.Optimizer) -> tuple[_Step, Callable[[], float]]:
    state = ScalerState(scale=INITIAL_SCALE, growth_interval=GROWTH_INTERVAL)

    def step(loss: Tensor, poison: Callable[[], None]) -> bool:
        nonlocal state
        grad_scaler.scale_loss(loss, state).backward()
        poison()
        state, skipped = grad_scaler.step(optimizer, state)
        return skipped

    return step, lambda: state.scale


def _walk(context: WorkerContext, make: _Make) -> _Walk:
    model, batch = context.model(), context.batch()
    parameters = model.parameters()
    optimizer = context.optimizer(parameters.values())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9)
    step, scale = make(context, optimizer)
    walk = _Walk(scales=[scale()], skipped=[])
    for number in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(context.facts.kind, dtype=torch.float16):
            hidden = model.hidden_states(batch.inputs)
            loss = full_loss(hidden, model.head, batch.targets, batch.divisor)
        poisoned = number == INJECTED_AT
        before = (_bits(parameters), _state_bits(optimizer), schedule.last_epoch) if poisoned else None
        skipped = step(loss, lambda: _poison(model.head) if poisoned else None)  # noqa: B023 - called in this turn
        if skipped:
            walk.skipped.append(number)
        else:
            schedule.step()
        if before is not None:
            walk.parameters_identical = _same(before[0], _bits(parameters))
            walk.state_identical = bool(before[1]) and _same(before[1], _state_bits(optimizer))
            walk.schedule_advanced = schedule.last_epoch != before[2]
        walk.scales.append(scale())
    walk.weights = _bits(parameters)
    return walk


def _poison(weight: torch.nn.Parameter) -> None:
    if weight.grad is not None:
        weight.grad.view(-1)[0] = float("inf")


def _bits(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in parameters.items()}


def _state_bits(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    found = {}
    for number, entry in enumerate(optimizer.state.values()):
        for key, value in entry.items():
            if isinstance(value, Tensor):
                found[f"{number}.{key}"] = value.detach().clone()
    return found


def _same(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> bool:
    return before.keys() == after.keys() and all(torch.equal(value, after[name]) for name, value in before.items())

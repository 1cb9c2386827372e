"""Page 7: mixed-precision backward against torch.autocast, and the scaler's state machine against torch's GradScaler.

The scaler multiplies and divides by powers of two and compares with infinity: nothing is rounded, so every value has to
be the same bit for bit, over any sequence of overflows.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.conformance.page import Page, PageCheck, Trial
from experiments.conformance.tolerance import Tolerance, dot
from experiments.training_mechanism.conformance.shared.residual_blocks import raises


def linear_autocast(trial: Trial) -> None:
    """A linear layer under bf16 autocast: output, gradients, and the dtype of each."""
    m = trial.mechanism("mixed_precision")
    case = trial.case
    rows, width, out = (case.integer(name, 1, 8) for name in ("rows", "width", "out"))
    bias = case.choice("bias", (True, False))
    shapes = [(2, rows, width), (out, width)] + ([(out,)] if bias else [])
    values = [case.normal(*shape, dtype=torch.float32) for shape in shapes]
    grad = case.normal(2, rows, out, dtype=torch.bfloat16)
    ours_leaves = [value.clone().requires_grad_() for value in values]
    theirs_leaves = [value.clone().requires_grad_() for value in values]
    arguments = ours_leaves if bias else [*ours_leaves, None]
    ours = m.LowPrecisionLinear.apply(*arguments, torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        theirs = F.linear(*theirs_leaves)
    trial.compare.exactly("output is bf16", ours.dtype == torch.bfloat16, theirs.dtype == torch.bfloat16)
    inner = 1 + math.ceil(max(dot(2 * rows), dot(width), dot(out)) * 2.0**-16)  # fp32 sums, then one rounding to bf16
    tolerance = Tolerance("bfloat16", 2 * inner, "fp32 sums and one rounding; a second for the bias")
    trial.compare.agree("output", ours, theirs, tolerance, magnitude=16.0 * width + 4)
    mine = torch.autograd.grad(ours, ours_leaves, grad)
    others = torch.autograd.grad(theirs, theirs_leaves, grad)
    sizes = (16.0 * out, 16.0 * 2 * rows, 4.0 * 2 * rows)
    for name, left, right, size in zip(("x", "weight", "bias"), mine, others, sizes, strict=False):
        trial.compare.exactly(f"gradient of {name} is fp32", left.dtype == torch.float32, right.dtype == torch.float32)
        trial.compare.agree(f"gradient of {name}", left, right, tolerance, magnitude=size)
        low = left.bfloat16().float()
        trial.compare.exactly(f"gradient of {name} was computed in bf16", left if name != "bias" else low, low)


def linear_exact(trial: Trial) -> None:
    """The same layer against float64 on the rounded inputs: fp16 and bf16, off by their roundings and no more."""
    m = trial.mechanism("mixed_precision")
    case = trial.case
    dtype = case.choice("dtype", (torch.bfloat16, torch.float16))
    rows, width, out = (case.integer(name, 1, 6) for name in ("rows", "width", "out"))
    leaves = [
        case.normal(*shape, dtype=torch.float32).requires_grad_() for shape in ((rows, width), (out, width), (out,))
    ]
    grad = case.normal(rows, out, dtype=dtype)
    output = m.LowPrecisionLinear.apply(*leaves, dtype)
    wide = [leaf.detach().to(dtype).double().requires_grad_() for leaf in leaves]
    theirs = F.linear(*wide)
    name = str(dtype).removeprefix("torch.")
    tolerance = Tolerance(name, max(rows, width, out) + 2, "sums that may run in the low precision", "float64")
    trial.compare.agree("output", output, theirs, tolerance, magnitude=16.0 * width + 4)
    others = torch.autograd.grad(theirs, wide, grad.double())
    for label, left, right, size in zip(
        ("x", "weight", "bias"), torch.autograd.grad(output, leaves, grad), others, (out, rows, rows), strict=True
    ):
        trial.compare.agree(f"gradient of {label}", left, right, tolerance, magnitude=16.0 * size)


def lost_gradients(trial: Trial) -> None:
    """Counts of what fp16 and bf16 lose, against the exponents; scaling by a power of two brings it back exactly."""
    m = trial.mechanism("mixed_precision")
    scaler = trial.mechanism("grad_scaler")
    dtype, smallest = trial.case.choice("dtype", ((torch.float16, -14), (torch.bfloat16, -126)))
    exponents = trial.case.integers(smallest - 12, smallest + 6, 40)
    values = torch.ldexp(torch.ones(40, dtype=torch.float64), exponents)
    values[:5] = 0.0
    nonzero, lost = m.underflow(values, dtype)
    trial.compare.exactly("nonzero entries", nonzero, 35)
    trial.compare.exactly("entries lost", lost, int((exponents[5:] < smallest).sum()))
    state = scaler.ScalerState(scale=2.0**16)
    survived = scaler.scale_loss(torch.tensor(2.0**-26), state).half().float()
    parameter = nn.Parameter(torch.zeros(()))
    parameter.grad = survived.clone()
    scaler.unscale([parameter], state)
    trial.compare.exactly("a gradient of 2^-26 through fp16, scaled", parameter.grad, 2.0**-26)
    trial.compare.exactly("the same without scaling", torch.tensor(2.0**-26).half(), 0.0)


def master_weights(trial: Trial) -> None:
    """bf16 weights with an fp32 copy train like the fp32 copy alone; updates below bf16's spacing are not lost."""
    m = trial.mechanism("mixed_precision")
    start = trial.case.normal(4, dtype=torch.float32) + 1.0
    low = [nn.Parameter(start.bfloat16()), nn.Parameter(torch.ones(2, dtype=torch.bfloat16))]
    master = m.MasterWeights(low)
    straight = nn.Parameter(start.bfloat16().float())
    ours, theirs = torch.optim.SGD(master.copies, lr=2.0**-12), torch.optim.SGD([straight], lr=2.0**-12)
    for step in range(trial.case.integer("steps", 1, 20)):
        gradient = trial.case.normal(4, dtype=torch.bfloat16).abs()
        low[0].grad, straight.grad = gradient.clone(), gradient.float()
        master.take_gradients()
        trial.compare.exactly("gradient left on the parameter", low[0].grad, None)
        trial.compare.exactly("gradient of a parameter without one", master.copies[1].grad, None)
        ours.step()
        theirs.step()
        master.publish()
        trial.compare.exactly(f"fp32 copy after step {step}", master.copies[0], straight)
        trial.compare.exactly(f"bf16 weight after step {step}", low[0], straight.bfloat16())


def _optimizer(kind: str, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=0.125, momentum=0.5)
    return torch.optim.AdamW(parameters, lr=0.125)


def _flat(optimizer: torch.optim.Optimizer) -> Tensor:
    """Every tensor of the optimizer's state, in order."""
    states = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    return torch.cat([value.flatten().float() for value in states]) if states else torch.zeros(0)


def state_machine(trial: Trial) -> None:
    """Any sequence of clean steps, infinities and NaNs, then clean ones: scale, weights and state after each, exact."""
    m = trial.mechanism("grad_scaler")
    kind = trial.case.choice("optimizer", ("sgd", "adamw"))
    interval, scale = trial.case.integer("growth_interval", 1, 3), 2.0 ** trial.case.integer("log2 scale", 0, 16)
    growth, backoff = trial.case.choice("factors", ((2.0, 0.5), (4.0, 0.25)))
    start = trial.case.normal(3, dtype=torch.float32)
    sides: list[tuple[list[nn.Parameter], torch.optim.Optimizer]] = []
    for _ in range(2):
        parameters = [nn.Parameter(start.clone()), nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(1))]
        sides.append((parameters, _optimizer(kind, parameters)))
    theirs = torch.amp.GradScaler(
        "cpu", init_scale=scale, growth_factor=growth, backoff_factor=backoff, growth_interval=interval
    )
    state = m.ScalerState(scale=scale, growth_factor=growth, backoff_factor=backoff, growth_interval=interval)
    skipped = 0
    drawn = trial.case.integer("steps", 1, 8)
    for step in range(drawn + 2 * interval):  # clean to the end, for the scale to grow twice whatever came before
        bad = trial.case.choice(f"step {step}", (None, math.inf, math.nan, -math.inf)) if step < drawn else None
        gradient = trial.case.normal(3, dtype=torch.float32)
        target = 1.0 if bad is None else bad
        (ours_parameters, ours_optimizer), (their_parameters, their_optimizer) = sides
        for parameters, optimizer in sides:
            optimizer.zero_grad()
            loss = (parameters[0] * gradient).sum() + parameters[2].sum()  # parameters[1] never gets a gradient
            (m.scale_loss(loss, state) if parameters is ours_parameters else theirs.scale(loss)).backward()
            parameters[0].grad[1] *= target  # type: ignore[index]
        before = theirs.get_scale()
        theirs.step(their_optimizer)
        theirs.update()
        state, was_skipped = m.step(ours_optimizer, state)
        skipped += theirs.get_scale() < before
        trial.compare.exactly(f"skipped at step {step}", was_skipped, theirs.get_scale() < before)
        trial.compare.exactly(f"scale after step {step}", state.scale, theirs.get_scale())
        trial.compare.exactly(f"skips counted by step {step}", state.skipped, skipped)
        for place in range(3):
            name = f"weight {place} after step {step}"
            trial.compare.exactly(name, ours_parameters[place], their_parameters[place])
        trial.compare.exactly(f"optimizer state after step {step}", _flat(ours_optimizer), _flat(their_optimizer))


def edges(trial: Trial) -> None:
    """A scale that would grow past fp32 stays; fp16 gradients are refused; defaults are torch's."""
    m = trial.mechanism("grad_scaler")
    theirs = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1)
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    theirs.scale(torch.ones(()))
    parameter.grad = torch.zeros(1)
    theirs.step(optimizer)
    theirs.update()
    grown = m.advance(m.ScalerState(scale=2.0**127, growth_interval=1), False)
    trial.compare.exactly("scale that cannot grow", grown.scale, theirs.get_scale())
    defaults, fresh = torch.amp.GradScaler("cpu"), m.ScalerState()
    trial.compare.exactly("initial scale", fresh.scale, defaults.get_scale())
    trial.compare.exactly("growth factor", fresh.growth_factor, defaults.get_growth_factor())
    trial.compare.exactly("backoff factor", fresh.backoff_factor, defaults.get_backoff_factor())
    trial.compare.exactly("growth interval", fresh.growth_interval, defaults.get_growth_interval())
    half = nn.Parameter(torch.ones(1, dtype=torch.float16))
    half.grad = torch.ones(1, dtype=torch.float16)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    refused = raises(ValueError, lambda: scaler.unscale_(torch.optim.SGD([half], lr=0.1)))
    trial.compare.exactly("refuses fp16 gradients", raises(ValueError, lambda: m.unscale([half], fresh)), refused)


def accelerate_schedule(trial: Trial) -> None:
    """Accelerate's optimizer reports a skipped step and its schedule does not move then; no more does ours."""
    from accelerate import Accelerator
    from accelerate.optimizer import AcceleratedOptimizer
    from accelerate.scheduler import AcceleratedScheduler
    from accelerate.state import AcceleratorState, GradientState

    m = trial.mechanism("grad_scaler")
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    Accelerator(cpu=True)
    rates = []
    parameters = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizers = [torch.optim.SGD([parameter], lr=1.0) for parameter in parameters]
    schedules = [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) for optimizer in optimizers]
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    wrapped: Any = AcceleratedOptimizer(optimizers[1], scaler=scaler)
    schedule: Any = AcceleratedScheduler(schedules[1], wrapped)
    state = m.ScalerState(scale=4.0)
    for step in range(trial.case.integer("steps", 1, 6)):
        overflow = trial.case.choice(f"step {step}", (False, True))
        for parameter, value in ((parameters[0], 4.0), (parameters[1], 4.0)):
            parameter.grad = torch.full((2,), math.inf if overflow else value)
        state, was_skipped = m.step(optimizers[0], state)
        if not was_skipped:
            schedules[0].step()
        scaler.scale(torch.ones(()))
        wrapped.step()
        schedule.step()
        rates.append((optimizers[0].param_groups[0]["lr"], optimizers[1].param_groups[0]["lr"]))
        trial.compare.exactly(f"skip reported at step {step}", was_skipped, bool(wrapped.step_was_skipped))
        trial.compare.exactly(f"learning rate after step {step}", *rates[-1])
        trial.compare.exactly(f"weights after step {step}", parameters[0], parameters[1])


LINEAR, SCALER = "mixed_precision.LowPrecisionLinear", "grad_scaler.step"
CHECKS = (
    PageCheck("linear_autocast", linear_autocast, LINEAR, "torch.autocast"),
    PageCheck("linear_exact", linear_exact, LINEAR, "torch.nn.functional.linear in float64", examples=12),
    PageCheck("lost_gradients", lost_gradients, "mixed_precision.underflow", "the exponents themselves", examples=8),
    PageCheck("master_weights", master_weights, "mixed_precision.MasterWeights", "torch.optim.SGD in fp32", examples=8),
    PageCheck("state_machine", state_machine, SCALER, "torch.amp.GradScaler"),
    PageCheck("edges", edges, "grad_scaler", "torch.amp.GradScaler", examples=1),
    PageCheck(
        "accelerate_schedule", accelerate_schedule, SCALER, "accelerate.optimizer.AcceleratedOptimizer",
        ("accelerate",), 8,
    ),
)  # fmt: skip

PAGE = Page("mixed_precision_backward", ("mixed_precision", "grad_scaler"), CHECKS)

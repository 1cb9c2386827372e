"""Page 10: AdamW and clipping against torch and Accelerate, schedules against Transformers and torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from experiments.conformance.page import Page, PageCheck, Trial
from experiments.conformance.tolerance import ELEMENTARY, Tolerance, dot
from experiments.training_mechanism.conformance.shared.residual_blocks import raises

BOUND = 4.0
ONE_UPDATE = 2 * ELEMENTARY + 14
"""Roundings of one AdamW update of p, m and v: their products and sums, b^t, a root and two divisions."""


def _updates(trial: Trial, dtype: torch.dtype, **options: Any) -> None:
    """Parameters, m and v after every one of N steps, against torch.optim.AdamW with `options`."""
    m = trial.mechanism("adamw")
    case = trial.case
    beta1, beta2 = case.choice("betas", ((0.9, 0.999), (0.9, 0.95), (0.0, 0.9)))
    settings = m.Settings(
        rate=case.choice("rate", (1e-3, 0.1)), beta1=beta1, beta2=beta2,
        epsilon=case.choice("epsilon", (1e-8, 1e-3)), decay=case.choice("decay", (0.0, 0.01, 0.5)),
    )  # fmt: skip
    start = case.normal(case.integer("size", 1, 5), dtype=dtype, bound=BOUND)
    ours, theirs, idle = start.clone(), nn.Parameter(start.clone()), nn.Parameter(torch.ones(2, dtype=dtype))
    state, idle_state = m.State.like(ours), m.State.like(idle.detach())
    optimizer = torch.optim.AdamW(
        [theirs, idle], lr=settings.rate, betas=(beta1, beta2), eps=settings.epsilon, weight_decay=settings.decay,
        **options,
    )  # fmt: skip
    name = str(dtype).removeprefix("torch.")
    steps = case.integer("steps", 1, 8)
    # |m| <= max |g|; sqrt(v corrected) >= the smallest weight of a past square times max |g|, so their ratio is bounded
    ratio = math.sqrt((1.0 - beta2**steps) / ((1.0 - beta2) * beta2 ** (steps - 1)))
    for step in range(1, steps + 1):
        size = case.choice(f"gradient {step}", (1.0, 1e-4, 0.0))
        gradient = case.normal(*start.shape, dtype=dtype, bound=BOUND) * size
        theirs.grad = gradient.clone()
        optimizer.step()
        m.step(ours, gradient, state, settings)
        m.step(idle.detach(), None, idle_state, settings)
        tolerance = Tolerance(name, ONE_UPDATE * step, f"{ONE_UPDATE} roundings an update")
        reached = BOUND + settings.rate * ratio * step
        trial.compare.agree(f"parameter after step {step}", ours, theirs, tolerance, magnitude=reached)
        trial.compare.agree(
            f"m after step {step}", state.mean, optimizer.state[theirs]["exp_avg"], tolerance, magnitude=BOUND
        )
        square = optimizer.state[theirs]["exp_avg_sq"]
        trial.compare.agree(f"v after step {step}", state.square, square, tolerance, magnitude=BOUND**2)
        trial.compare.exactly(f"count after step {step}", state.steps, optimizer.state[theirs]["step"])
    trial.compare.exactly("parameter without a gradient", idle, torch.ones(2))
    trial.compare.exactly("count without a gradient", idle_state.steps, 0)


def adamw_float64(trial: Trial) -> None:
    """torch's plain AdamW in float64, zero and tiny gradients included."""
    _updates(trial, torch.float64, foreach=False, fused=False)


def adamw_foreach(trial: Trial) -> None:
    """torch's multi-tensor and fused forms, in fp32."""
    fused = trial.case.choice("form", ("foreach", "fused")) == "fused"
    _updates(trial, torch.float32, foreach=not fused, fused=fused)


def _gradients(trial: Trial) -> list[nn.Parameter]:
    """Parameters with drawn gradients, one of them without."""
    case = trial.case
    parameters = []
    for place in range(case.integer("tensors", 1, 3)):
        parameter = nn.Parameter(torch.zeros(case.integer(f"size {place}", 1, 6), dtype=torch.float64))
        parameter.grad = case.normal(*parameter.shape, bound=BOUND) * case.choice("gradients", (1.0, 0.01, 0.0))
        parameters.append(parameter)
    return [*parameters, nn.Parameter(torch.zeros(2, dtype=torch.float64))]


def _clip(trial: Trial, clip: Callable[[list[nn.Parameter], float, float], Tensor]) -> None:
    m = trial.mechanism("clipping")
    limit, order = trial.case.choice("limit", (1.0, 0.05, 100.0)), trial.case.choice("order", (2.0, math.inf, 1.0))
    parameters = _gradients(trial)
    twins = [nn.Parameter(parameter.detach().clone()) for parameter in parameters]
    for parameter, twin in zip(parameters, twins, strict=True):
        twin.grad = None if parameter.grad is None else parameter.grad.clone()
    entries = sum(parameter.numel() for parameter in parameters)
    tolerance = Tolerance("float64", 2 * dot(entries) + 2 * ELEMENTARY + 4, "a norm of norms, a division, a product")
    trial.compare.agree("norm", m.clip_by_norm(parameters, limit, order), clip(twins, limit, order), tolerance)
    for place, (ours, theirs) in enumerate(zip(parameters, twins, strict=True)):
        trial.compare.agree(f"gradient {place}", ours.grad, theirs.grad, tolerance)


def clip_torch(trial: Trial) -> None:
    """torch's clip_grad_norm_ for the 2-, maximum and 1-norm, above and below the limit, and for zero gradients."""
    _clip(trial, lambda parameters, limit, order: nn.utils.clip_grad_norm_(parameters, limit, order))


def clip_accelerate(trial: Trial) -> None:
    """Accelerate's clip_grad_norm_, which a training loop calls in its place."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True)
    _clip(trial, accelerator.clip_grad_norm_)


def clip_edges(trial: Trial) -> None:
    """Clipping by value; no gradient at all; a norm that is not finite is refused, as torch does when asked to."""
    m = trial.mechanism("clipping")
    parameters = _gradients(trial)
    limit = trial.case.choice("limit", (0.5, 2.0))
    expected = [None if parameter.grad is None else parameter.grad.clone() for parameter in parameters]
    twins = [nn.Parameter(parameter.detach().clone()) for parameter in parameters]
    for twin, gradient in zip(twins, expected, strict=True):
        twin.grad = gradient
    nn.utils.clip_grad_value_(twins, limit)
    m.clip_by_value(parameters, limit)
    for place, (ours, theirs) in enumerate(zip(parameters, twins, strict=True)):
        trial.compare.exactly(f"gradient {place} by value", ours.grad, theirs.grad)
    bare = [nn.Parameter(torch.zeros(2))]
    trial.compare.exactly("norm of nothing", m.clip_by_norm(bare, 1.0), nn.utils.clip_grad_norm_(bare, 1.0))
    bare[0].grad = torch.tensor([1.0, trial.case.choice("entry", (math.inf, math.nan))])
    theirs_refuses = raises(RuntimeError, lambda: nn.utils.clip_grad_norm_(bare, 1.0, error_if_nonfinite=True))
    trial.compare.exactly(
        "refuses a norm that is not finite", raises(ValueError, lambda: m.clip_by_norm(bare, 1.0)), theirs_refuses
    )


def _factors(make: Callable[[torch.optim.Optimizer], Any], updates: int) -> list[float]:
    """The learning rates a framework's schedule sets on an optimizer of base rate 1, update by update."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = make(optimizer)
    found = []
    for _ in range(updates):
        found.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        schedule.step()
    return found


SCHEDULE = Tolerance(
    "float64", math.ceil(3 * math.pi * 5) + ELEMENTARY + 8, "an angle up to 5 pi, its cosine, six more"
)


def schedules_transformers(trial: Trial) -> None:
    """Transformers' linear, cosine and WSD schedules at every update, past their ends, warm-up of 0 included."""
    from transformers import optimization

    m = trial.mechanism("schedules")
    case = trial.case
    warmup, length = case.integer("warmup", 0, 6), case.integer("updates after warm-up", 0, 9)
    total, floor = warmup + length, case.choice("floor", (0.0, 0.1))
    updates = total + 4
    stable, decay = case.integer("stable", 0, 5), case.integer("decay", 0, 6)
    shapes = ("linear", "cosine", "1-sqrt")
    rise, fall = case.choice("rise", shapes), case.choice("fall", shapes)
    pairs: list[tuple[str, Callable[[int], float], Callable[[torch.optim.Optimizer], Any]]] = [
        (
            "linear", lambda s: m.linear(s, warmup, total),
            lambda o: optimization.get_linear_schedule_with_warmup(o, warmup, total),
        ),
        (
            "cosine", lambda s: m.cosine(s, warmup, total),
            lambda o: optimization.get_cosine_schedule_with_warmup(o, warmup, total),
        ),
        (
            "cosine with a floor", lambda s: m.cosine(s, warmup, total, floor),
            lambda o: optimization.get_cosine_with_min_lr_schedule_with_warmup(o, warmup, total, min_lr_rate=floor),
        ),
        (
            "wsd", lambda s: m.wsd(s, warmup, stable, decay, floor, rise, fall),
            lambda o: optimization.get_wsd_schedule(
                o, warmup, decay, num_stable_steps=stable, warmup_type=rise, decay_type=fall, min_lr_ratio=floor
            ),
        ),
    ]  # fmt: skip
    for name, ours, make in pairs:
        count = updates if name != "wsd" else warmup + stable + decay + 3
        theirs = _factors(make, count)
        mine = [ours(update) for update in range(count)]
        trial.compare.agree(f"{name} by update", mine, theirs, SCHEDULE, magnitude=1.0)


def schedules_torch(trial: Trial) -> None:
    """torch's CosineAnnealingLR up to its end, and LinearLR's fall."""
    m = trial.mechanism("schedules")
    total = trial.case.integer("total", 1, 12)
    pairs: list[tuple[str, Callable[[int], float], Callable[[torch.optim.Optimizer], Any]]] = [
        ("cosine", lambda s: m.cosine(s, 0, total), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, total)),
        (
            "linear", lambda s: m.linear(s, 0, total),
            lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.0, total_iters=total),
        ),
    ]  # fmt: skip
    for name, ours, make in pairs:
        theirs = _factors(make, total + 1)
        mine = [ours(update) for update in range(total + 1)]
        # torch goes from each rate to the next, so roundings add up over the updates, and near the end it divides
        # by a small rate: an error of the size of the first rate's roundings, once an update
        tolerance = Tolerance("float64", (math.ceil(9 * math.pi) + 10) * (total + 1), "the recursion's updates")
        trial.compare.agree(f"{name} by update", mine, theirs, tolerance, magnitude=1.0)


ADAMW, CLIP = "adamw.step", "clipping.clip_by_norm"
CHECKS = (
    PageCheck("adamw_float64", adamw_float64, ADAMW, "torch.optim.AdamW"),
    PageCheck("adamw_foreach", adamw_foreach, ADAMW, "torch.optim.AdamW, foreach and fused", examples=12),
    PageCheck("clip_torch", clip_torch, CLIP, "torch.nn.utils.clip_grad_norm_"),
    PageCheck("clip_edges", clip_edges, "clipping", "torch.nn.utils", examples=8),
    PageCheck("schedules_torch", schedules_torch, "schedules", "torch.optim.lr_scheduler", examples=8),
    PageCheck("clip_accelerate", clip_accelerate, CLIP, "accelerate.Accelerator.clip_grad_norm_", ("accelerate",), 6),
    PageCheck(
        "schedules_transformers", schedules_transformers, "schedules", "transformers.optimization", ("transformers",)
    ),
)

PAGE = Page("optimizer", ("adamw", "clipping", "schedules"), CHECKS)

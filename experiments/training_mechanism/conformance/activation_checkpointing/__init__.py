"""Page 8: activation checkpointing against the plain step, torch.utils.checkpoint, and Transformers' own switch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import checkpoint as torch_checkpoint

from experiments.conformance.page import Page, PageCheck, Trial
from experiments.training_mechanism.conformance.shared.residual_blocks import (
    Block,
    CountProducts,
    CountSaved,
    draw_stack,
    plain,
    raises,
    run,
    same,
)
from experiments.training_mechanism.conformance.shared.tiny_qwen2 import tiny_qwen2


def _ours(trial: Trial, **options: Any) -> Callable[[Block, Tensor], Tensor]:
    """Every k-th block through the hand-written checkpoint; k is drawn."""
    m = trial.mechanism("checkpoint")
    every = trial.case.integer("every", 1, 2)
    seen = 0

    def call(block: Block, x: Tensor) -> Tensor:
        nonlocal seen
        seen += 1
        return m.checkpoint(block, x, **options) if seen % every == 0 else block(x)  # type: ignore[no-any-return]

    return call


def _torchs(**options: Any) -> Callable[[Block, Tensor], Tensor]:
    """Every block through torch's checkpoint."""
    options.setdefault("use_reentrant", False)
    return partial(torch_checkpoint.checkpoint, **options)


def against_plain(trial: Trial) -> None:
    """Loss, gradients and the random state after the step are those of the step without checkpointing."""
    stack = draw_stack(trial)
    early = trial.case.choice("early_stop", (True, False))
    seed = trial.case.integer("dropout seed", 0, 9)
    same(trial, run(stack, _ours(trial, early_stop=early), seed=seed), run(stack, plain, seed=seed))


def against_torch(trial: Trial) -> None:
    """torch's non-reentrant form gives the same; outside a gradient there is nothing to do in either."""
    m = trial.mechanism("checkpoint")
    stack = draw_stack(trial)
    same(trial, run(stack, m.checkpoint), run(stack, _torchs()))
    with torch.no_grad():
        torch.default_generator.manual_seed(0)
        ours = stack(m.checkpoint)
        torch.default_generator.manual_seed(0)
        trial.compare.exactly("loss without gradients", ours, stack(_torchs()))
        trial.compare.exactly("whether it needs a gradient", ours.requires_grad, False)


def random_numbers_not_preserved(trial: Trial) -> None:
    """Without preserved random state the second run draws new numbers, the very ones torch's draws."""
    m = trial.mechanism("checkpoint")
    stack = draw_stack(trial, dropout=0.5)
    ours = run(stack, lambda block, x: m.checkpoint(block, x, preserve_rng=False))
    same(trial, ours, run(stack, _torchs(preserve_rng_state=False)))


def what_is_saved(trial: Trial) -> None:
    """Outer hooks, such as offload's, see the inputs of the blocks and nothing from inside, as under torch's."""
    m = trial.mechanism("checkpoint")
    stack = draw_stack(trial, dropout=0.0)
    counts = []
    for call in (m.checkpoint, _torchs()):
        saved = CountSaved()
        run(stack, call, context=saved.hooks())
        counts.append(saved)
    trial.compare.exactly("saved tensors", counts[0].tensors, counts[1].tensors)
    trial.compare.exactly("saved bytes", counts[0].bytes, counts[1].bytes)


def what_is_computed_again(trial: Trial) -> None:
    """Matrix products of a step, as many as under torch's: the second run stops after the last tensor it saves."""
    m = trial.mechanism("checkpoint")
    stack = draw_stack(trial, dropout=0.0)
    early = trial.case.choice("early_stop", (True, False))
    ours, theirs = CountProducts(), CountProducts()
    with ours:
        run(stack, lambda block, x: m.checkpoint(block, x, early_stop=early))
    with theirs, torch_checkpoint.set_checkpoint_early_stop(early):
        run(stack, _torchs())
    trial.compare.exactly("matrix products", ours.count, theirs.count)


def selective(trial: Trial) -> None:
    """With the outputs of matrix products kept nothing changes but their number: none runs twice, as in torch's."""
    m = trial.mechanism("checkpoint")
    stack = draw_stack(trial)
    keeping = lambda block, x: m.checkpoint(block, x, keep=m.MATRIX_PRODUCTS)  # noqa: E731
    same(trial, run(stack, keeping), run(stack, plain))
    contexts = partial(torch_checkpoint.create_selective_checkpoint_contexts, list(m.MATRIX_PRODUCTS))
    ours, theirs = CountProducts(), CountProducts()
    with ours:
        run(stack, keeping)
    with theirs:
        run(stack, _torchs(context_fn=contexts))
    trial.compare.exactly("matrix products", ours.count, theirs.count)


def kept_and_changed(trial: Trial) -> None:
    """An output that is kept and then changed in place is refused in backward, by torch's selective form as well.

    A product of three dimensions is handed on under another version counter: torch's form does not notice that one.
    """
    m = trial.mechanism("checkpoint")
    size = trial.case.integer("size", 1, 5)
    weight = trial.case.normal(size, size).requires_grad_()
    flat = trial.case.choice("dimensions", (2, 3)) == 2
    x = trial.case.normal(*((3, size) if flat else (2, 3, size))).requires_grad_()

    def block(x: Tensor) -> Tensor:
        hidden = x @ weight
        hidden.add_(1.0)
        return torch.sin(hidden) @ weight

    contexts = partial(torch_checkpoint.create_selective_checkpoint_contexts, list(m.MATRIX_PRODUCTS))
    kept = partial(torch_checkpoint.checkpoint, use_reentrant=False, context_fn=contexts)
    theirs = raises(RuntimeError, lambda: kept(block, x).sum().backward()) if flat else True
    ours = raises(m.CheckpointError, lambda: m.checkpoint(block, x, keep=m.MATRIX_PRODUCTS).sum().backward())
    trial.compare.exactly("refuses a kept output changed in place", ours, theirs)


def reentrant(trial: Trial) -> None:
    """The older form agrees with the plain step and with torch's, dropout included."""
    m = trial.mechanism("checkpoint")
    stack = draw_stack(trial)
    theirs = run(stack, _torchs(use_reentrant=True))
    same(trial, theirs, run(stack, plain))
    same(trial, run(stack, m.checkpoint_reentrant), theirs)


def reentrant_without_gradient(trial: Trial) -> None:
    """No input needs a gradient: torch leaves the parameters without one in silence, ours refuses (report 11)."""
    m = trial.mechanism("checkpoint")
    stack = draw_stack(trial, dropout=0.0)
    block, x = stack.blocks[0], stack.x.detach()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        output = torch_checkpoint.checkpoint(block, x, use_reentrant=True)
    trial.compare.exactly("whether torch's output needs a gradient", output.requires_grad, False)
    refused = raises(m.CheckpointError, lambda: m.checkpoint_reentrant(block, x))
    trial.compare.holds("no input needs a gradient", refused, "an output without gradients", "a refusal")
    m.checkpoint(block, x).sum().backward()
    ours = [parameter.grad for parameter in block.parameters()]
    stack.zero_grad()
    block(x).sum().backward()
    for mine, parameter in zip(ours, block.parameters(), strict=True):
        trial.compare.exactly("gradient of a parameter, non-reentrant", mine, parameter.grad)


def autocast(trial: Trial) -> None:
    """Under bf16 autocast the second run casts again, though backward runs outside the context."""
    m = trial.mechanism("checkpoint")
    stack = draw_stack(trial, dtype=torch.float32)
    form = trial.case.choice("form", ("checkpoint", "checkpoint_reentrant"))
    amp = partial(torch.autocast, "cpu", torch.bfloat16)
    theirs = run(stack, _torchs(use_reentrant=form != "checkpoint"), context=amp())
    same(trial, theirs, run(stack, plain, context=amp()))
    same(trial, run(stack, getattr(m, form), context=amp()), theirs)


def another_second_run(trial: Trial) -> None:
    """A block that saves other tensors the second time, or a changed input, is refused by both."""
    m = trial.mechanism("checkpoint")
    kind = trial.case.choice("difference", ("shape", "fewer", "dead", "more", "input"))
    size = trial.case.integer("size", 1, 4)

    def build() -> tuple[Callable[[Tensor], Tensor], Tensor]:
        x = torch.full((size,), 0.5, dtype=torch.float64, requires_grad=True) * 1.0
        runs = 0

        def block(value: Tensor) -> Tensor:
            nonlocal runs
            runs += 1
            if kind == "shape" and runs == 2:
                return torch.cat((value, value)).sin().cos()
            if (kind, runs) in (("fewer", 2), ("more", 1)):
                return value.sin()
            if kind == "dead":  # the last tensor saved belongs to a node nobody keeps, and the second run skips one
                result = value.sin() if runs == 2 else value.sin().cos()
                result.exp()
                return result
            return value.sin().cos()

        return block, x

    theirs = partial(torch_checkpoint.checkpoint, use_reentrant=False)
    early = kind != "more"  # only a run to the end can see what comes after the last slot
    ours = partial(m.checkpoint, early_stop=early)
    outcomes = []
    for call, error in ((ours, m.CheckpointError), (theirs, torch_checkpoint.CheckpointError)):
        block, x = build()
        with torch_checkpoint.set_checkpoint_early_stop(early):
            output = call(block, x)
        if kind == "input":
            x.add_(1.0)
            error = RuntimeError  # autograd's own, from its version check
        outcomes.append(raises(error, output.sum().backward))
    trial.compare.exactly(f"refuses a second run with another {kind}", outcomes[0], outcomes[1])


def nested_and_twice(trial: Trial) -> None:
    """Checkpoints inside checkpoints; a second backward through a retained graph; a gradient of a gradient."""
    m = trial.mechanism("checkpoint")
    stack = draw_stack(trial, dropout=0.0)
    block, x = stack.first, stack.x
    nested = m.checkpoint(lambda value: m.checkpoint(block, m.checkpoint(block, value)), x).square().sum()
    straight = block(block(x)).square().sum()
    for name, ours, theirs in (("nested", nested, straight), ("backward again", nested, straight)):
        mine = torch.autograd.grad(ours, list(block.parameters()), retain_graph=True)
        other = torch.autograd.grad(theirs, list(block.parameters()), retain_graph=True)
        for left, right in zip(mine, other, strict=True):
            trial.compare.exactly(f"gradient, {name}", left, right)
    second = []
    for call in (m.checkpoint, plain):
        (slope,) = torch.autograd.grad(call(block, x).square().sum(), x, create_graph=True)
        second.append(torch.autograd.grad(slope.square().sum(), x)[0])
    trial.compare.exactly("gradient of the gradient", second[0], second[1])


def transformers_switch(trial: Trial) -> None:
    """A Qwen2 with its layers wrapped here, and one with Transformers' own switch on: same loss, same gradients."""
    m = trial.mechanism("checkpoint")
    seed = trial.case.integer("weights", 0, 3)
    ids = trial.case.integers(0, 32, trial.case.integer("batch", 1, 2), trial.case.integer("sequence", 2, 8))
    models = [tiny_qwen2(seed, layers=2, attention_dropout=0.2) for _ in range(2)]
    for layer in models[0].model.layers:
        layer.forward = partial(_wrapped, m.checkpoint, layer.forward)
    switch = getattr(models[1], "activation_checkpointing_enable", None) or models[1].gradient_checkpointing_enable
    switch()
    found = []
    for model in models:
        torch.manual_seed(1)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        found.append((loss, {name: parameter.grad for name, parameter in model.named_parameters()}))
    trial.compare.exactly("loss", found[0][0], found[1][0])
    for name, gradient in found[1][1].items():
        trial.compare.exactly(f"gradient of {name}", found[0][1][name], gradient)


def _wrapped(call: Callable[..., Any], forward: Callable[..., Any], hidden: Tensor, *rest: Any, **named: Any) -> Any:
    """A decoder layer's forward through a checkpoint; only the hidden states count as an input."""
    return call(lambda states: forward(states, *rest, **named), hidden)


OURS, OLD = "checkpoint.checkpoint", "checkpoint.checkpoint_reentrant"
TORCH = "torch.utils.checkpoint.checkpoint"
SELECTIVE = "torch.utils.checkpoint.create_selective_checkpoint_contexts"
CHECKS = (
    PageCheck("against_plain", against_plain, OURS, "torch.autograd without checkpointing"),
    PageCheck("against_torch", against_torch, OURS, TORCH, examples=10),
    PageCheck("random_numbers_not_preserved", random_numbers_not_preserved, OURS, TORCH, examples=10),
    PageCheck("what_is_saved", what_is_saved, OURS, TORCH, examples=6),
    PageCheck("what_is_computed_again", what_is_computed_again, OURS, TORCH, examples=8),
    PageCheck("selective", selective, OURS, SELECTIVE, examples=10),
    PageCheck("kept_and_changed", kept_and_changed, OURS, SELECTIVE, examples=3),
    PageCheck("reentrant", reentrant, OLD, TORCH, examples=10),
    PageCheck("reentrant_without_gradient", reentrant_without_gradient, OLD, TORCH, examples=3),
    PageCheck("autocast", autocast, OURS, TORCH, examples=10),
    PageCheck("another_second_run", another_second_run, OURS, TORCH, examples=12),
    PageCheck("nested_and_twice", nested_and_twice, OURS, "torch.autograd without checkpointing", examples=5),
    PageCheck(
        "transformers_switch", transformers_switch, OURS, "transformers gradient checkpointing", ("transformers",), 4
    ),
)

PAGE = Page("activation_checkpointing", ("checkpoint",), CHECKS)

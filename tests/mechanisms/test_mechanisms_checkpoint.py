"""Checkpointing beyond what the conformance page holds: memory that is really freed, errors, odd arguments."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from experiments.mechanisms.checkpoint import MATRIX_PRODUCTS, CheckpointError, checkpoint, checkpoint_reentrant


def test_what_a_block_saves_is_freed_until_backward() -> None:
    seen: list[weakref.ref[Tensor]] = []

    def block(x: Tensor) -> Tensor:
        inside = torch.sin(x)
        seen.append(weakref.ref(inside))
        return torch.cos(inside)

    x = torch.ones(4, requires_grad=True)
    y = checkpoint(block, x * 1.0)
    assert seen[0]() is None
    y.sum().backward()
    assert len(seen) == 2


def test_an_error_in_the_second_run_is_the_block_s_own() -> None:
    runs = []

    def block(x: Tensor) -> Tensor:
        runs.append(1)
        if len(runs) == 2:
            raise KeyError("out of luck")
        return torch.sin(x).cos()

    y = checkpoint(block, torch.ones(3, requires_grad=True))
    with pytest.raises(KeyError, match="out of luck"):
        y.sum().backward()


def test_arguments_that_are_no_tensors_and_outputs_in_a_tuple() -> None:
    def block(x: Tensor, scale: float, flag: bool, nothing: None) -> tuple[Tensor, Tensor]:
        assert flag
        assert nothing is None
        return (x * scale).sin(), (x * scale).cos()

    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    first, second = checkpoint(block, x, 2.0, True, None)
    (ours,) = torch.autograd.grad((first * second).sum(), x)
    a, b = block(x, 2.0, True, None)
    (plain,) = torch.autograd.grad((a * b).sum(), x)
    assert torch.equal(ours, plain)


def test_an_input_that_needs_no_gradient_gets_none() -> None:
    layer = nn.Linear(3, 3)
    x = torch.ones(2, 3)
    checkpoint(layer, x).sum().backward()
    assert x.grad is None
    assert layer.weight.grad is not None


def test_kept_outputs_serve_a_second_backward() -> None:
    layer = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 3)).double()
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    y = checkpoint(layer, x, keep=MATRIX_PRODUCTS).square().sum()
    grads = [torch.autograd.grad(y, x, retain_graph=True)[0] for _ in range(2)]
    (plain,) = torch.autograd.grad(layer(x).square().sum(), x)
    assert torch.equal(grads[0], plain)
    assert torch.equal(grads[1], plain)


def test_no_cycle_keeps_a_graph_alive() -> None:
    x = torch.ones(2, 3, requires_grad=True) * 1.0
    y = checkpoint(nn.Linear(3, 3), x, keep=MATRIX_PRODUCTS)
    held = StorageWeakRef(x.untyped_storage())
    gc.disable()
    try:
        del x
        assert not held.expired()
        del y
        assert held.expired(), "freed by reference counts alone"
    finally:
        gc.enable()


def test_the_reentrant_form_says_what_to_do() -> None:
    with pytest.raises(CheckpointError, match="requires_grad_"):
        checkpoint_reentrant(nn.Linear(2, 2), torch.ones(1, 2))
    with torch.no_grad():
        assert checkpoint_reentrant(nn.Linear(2, 2), torch.ones(1, 2)).shape == (1, 2)

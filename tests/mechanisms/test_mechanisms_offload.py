"""Offload beyond what the conformance page holds: accounting over steps, errors inside the context, dropped graphs."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from experiments.mechanisms.offload import CHANGED, HostPool, Offload, synchronous

CPU = torch.device("cpu")


def test_an_error_in_the_forward_leaves_the_next_step_sound() -> None:
    layer = nn.Linear(8, 8)
    offload = Offload(layer.parameters(), CPU, minimum_bytes=0, in_flight_bytes=0)
    with pytest.raises(RuntimeError, match="shapes"), offload.saving():
        layer(torch.sin(torch.ones(2, 8, requires_grad=True)) @ torch.ones(3, 3))
    x = torch.ones(2, 8, requires_grad=True)
    with offload.saving():
        loss = torch.sin(layer(torch.sin(x))).sum()
    (ours,) = torch.autograd.grad(loss, x)
    (plain,) = torch.autograd.grad(torch.sin(layer(torch.sin(x))).sum(), x)
    assert torch.equal(ours, plain)


def test_a_dropped_graph_gives_its_host_buffers_back() -> None:
    offload = Offload([], CPU, minimum_bytes=0, in_flight_bytes=0)
    x = torch.ones(64, requires_grad=True)
    for _ in range(50):
        with offload.saving():
            torch.sin(torch.sin(torch.sin(x * 2.0)))
    gc.collect()
    assert offload.pool.allocated_bytes == 1 << 26, "one slab served fifty steps"


def test_no_cycle_keeps_a_graph_alive() -> None:
    offload = Offload([], CPU, minimum_bytes=0, in_flight_bytes=1 << 20)
    x = torch.ones(64, requires_grad=True)
    with offload.saving():
        inner = torch.exp(x)  # exp saves its own output
        outer = torch.exp(inner)
    held = StorageWeakRef(inner.untyped_storage())
    gc.disable()
    try:
        del inner
        assert not held.expired()
        del outer
        assert held.expired(), "freed by reference counts alone"
    finally:
        gc.enable()


def test_the_message_of_a_changed_tensor() -> None:
    offload = Offload([], CPU, minimum_bytes=0, in_flight_bytes=1 << 20)
    x = torch.ones(4, requires_grad=True)
    with offload.saving():
        hidden = x * 2.0
        loss = torch.sin(hidden).sum()
    with torch.no_grad():
        hidden.add_(1.0)
    with pytest.raises(RuntimeError, match=CHANGED):
        loss.backward()


def test_a_slab_holds_many_buffers_and_a_larger_one_gets_its_own() -> None:
    pool = HostPool(pin=False, slab_bytes=4096)
    small = [pool.take(100)[0] for _ in range(8)]
    assert pool.allocated_bytes == 4096
    assert all(buffer.data_ptr() % 8 == 0 for buffer in small)
    large, _ = pool.take(10_000)
    assert large.numel() == 10_000
    assert pool.allocated_bytes == 4096 + 10_000


def test_integers_and_half_precision_travel_bit_for_bit() -> None:
    values = torch.randn(32, dtype=torch.float16, generator=torch.Generator().manual_seed(0)).requires_grad_()
    index = torch.arange(31, -1, -1)

    def forward() -> torch.Tensor:
        return (values * 1.0)[index].float().sin().sum() + values.float().sin().sum()

    for context in (Offload([], CPU, minimum_bytes=0, in_flight_bytes=0).saving(), synchronous()):
        with context:
            loss = forward()
        (ours,) = torch.autograd.grad(loss, values)
        (plain,) = torch.autograd.grad(forward(), values)
        assert torch.equal(ours, plain)

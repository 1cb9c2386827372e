"""Checkpointing and offload where streams, events and pinned memory are real: on a CUDA card. Skipped without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from experiments.mechanisms.checkpoint import MATRIX_PRODUCTS, checkpoint, checkpoint_reentrant  # noqa: E402
from experiments.mechanisms.offload import Offload, synchronous  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card"),
]

MIB = 1 << 20
ROWS, WIDTH = 4096, 1024  # one fp32 activation is 16 MiB


def build(layers: int = 8, dropout: float = 0.1) -> nn.Sequential:
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm(WIDTH))
        for _ in range(layers)
    ]
    return nn.Sequential(*blocks).cuda()


@pytest.fixture(name="x")
def fixture_x() -> Iterator[Tensor]:
    yield torch.randn(ROWS, WIDTH, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    torch.cuda.empty_cache()


def step(
    model: nn.Sequential,
    x: Tensor,
    context: AbstractContextManager[Any],
    call: Callable[..., Tensor] | None = None,
    between: Callable[[], object] = lambda: None,
) -> list[Tensor]:
    """Loss and gradients of one step under fp16 autocast whose dropout starts at a fixed seed."""
    model.zero_grad()
    torch.manual_seed(2)
    with context, torch.autocast("cuda", torch.float16):
        hidden = x
        for block in model:
            hidden = block(hidden) if call is None else call(block, hidden)
    loss = hidden.float().square().mean()
    between()
    loss.backward()
    return [loss.detach().clone(), *(parameter.grad.clone() for parameter in model.parameters())]


def overwrite_free_memory() -> None:
    """Hands the allocator's free blocks out, fills them with NaN, and gives them back, all without waiting."""
    for size in (16, 8, 32, 16):
        junk = [torch.full((size * MIB // 4,), float("nan"), device="cuda") for _ in range(12)]
        del junk


def same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("in_flight", [0, 24 * MIB, 64 * MIB, 1024 * MIB])
def test_overlapped_offload_changes_nothing_and_survives_overwritten_memory(x: Tensor, in_flight: int) -> None:
    model = build()
    expected = step(model, x, nullcontext())
    offload = Offload(model.parameters(), x.device, in_flight_bytes=in_flight)
    pinned = []
    for _ in range(4):
        same(step(model, x, offload.saving(), between=overwrite_free_memory), expected)
        overwrite_free_memory()
        pinned.append(offload.pool.allocated_bytes)
    assert offload.traffic.moved > 10
    assert len(set(pinned)) == 1, "host memory is pinned in the first step only"


def test_a_graph_dropped_without_backward_disturbs_nobody(x: Tensor) -> None:
    model = build()
    expected = step(model, x, nullcontext())
    offload = Offload(model.parameters(), x.device, in_flight_bytes=32 * MIB)
    for _ in range(3):
        with offload.saving(), torch.autocast("cuda", torch.float16):
            model(x)  # dropped at once, with copies under way
        overwrite_free_memory()
        same(step(model, x, offload.saving(), between=overwrite_free_memory), expected)


def test_host_buffers_are_pinned_and_the_device_holds_less_after_the_forward(x: Tensor) -> None:
    model = build(dropout=0.0)
    held = {}
    for name in ("plain", "offload"):
        offload = Offload(model.parameters(), x.device, in_flight_bytes=32 * MIB)
        before = torch.cuda.memory_allocated()
        with offload.saving() if name == "offload" else nullcontext():
            loss = model(x).square().mean()
        torch.cuda.synchronize()
        held[name] = torch.cuda.memory_allocated() - before
        loss.backward()
        model.zero_grad()
        if name == "offload":
            assert offload.pool.take(512)[0].is_pinned()
            assert offload.traffic.back_bytes > 0
    # what is under way, the last tensor, and half as much again for statistics and the loss
    assert held["offload"] < 32 * MIB + 2 * 16 * MIB + 16 * MIB
    assert held["plain"] > 300 * MIB


@pytest.mark.parametrize("pin", [False, True])
def test_the_short_form_changes_nothing(x: Tensor, pin: bool) -> None:
    model = build(layers=3)
    same(step(model, x, synchronous(pin)), step(model, x, nullcontext()))


@pytest.mark.parametrize("form", ["plain", "selective", "reentrant"])
def test_checkpointing_repeats_random_numbers_and_autocast(x: Tensor, form: str) -> None:
    model = build()
    calls: dict[str, Callable[..., Tensor]] = {
        "plain": checkpoint,
        "selective": lambda block, value: checkpoint(block, value, keep=MATRIX_PRODUCTS),
        "reentrant": checkpoint_reentrant,
    }
    leaf = x.clone().requires_grad_()
    expected = step(model, leaf, nullcontext())
    same(step(model, leaf, nullcontext(), calls[form]), expected)


def test_layer_inputs_alone_travel_under_checkpointing(x: Tensor) -> None:
    model = build()
    expected = step(model, x, nullcontext())
    offload = Offload(model.parameters(), x.device, in_flight_bytes=16 * MIB)
    for _ in range(3):
        same(step(model, x, offload.saving(), checkpoint, overwrite_free_memory), expected)
        assert offload.traffic.moved <= len(model) + 2

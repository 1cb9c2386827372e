"""Page 9: activation offload against the plain step and torch's save_on_cpu; what moves, what stays, what is noticed.

The overlapped form runs here on CPU: the same code with copies that simply happen. What only a card can show (streams,
events, pinned memory) is checked where one is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from experiments.conformance.page import Page, PageCheck, Trial
from experiments.training_mechanism.conformance.shared.residual_blocks import draw_stack, plain, raises, run, same
from experiments.training_mechanism.conformance.shared.tiny_qwen2 import tiny_qwen2

CPU = torch.device("cpu")


def _offload(trial: Trial, module: nn.Module, *, bound: int | None = None, minimum: int = 0) -> Any:
    """An Offload that keeps the parameters of `module`; how much may be under way is drawn."""
    m = trial.mechanism("offload")
    limit = trial.case.choice("in_flight_bytes", (0, 256, 1 << 20)) if bound is None else bound
    return m.Offload(module.parameters(), CPU, minimum_bytes=minimum, in_flight_bytes=limit)


def synchronous(trial: Trial) -> None:
    """The short form is torch's save_on_cpu: same results, everything saved goes through it."""
    m = trial.mechanism("offload")
    stack = draw_stack(trial)
    theirs = run(stack, plain, context=torch.autograd.graph.save_on_cpu())
    same(trial, theirs, run(stack, plain))
    same(trial, run(stack, plain, context=m.synchronous()), theirs)


def several_steps(trial: Trial) -> None:
    """Loss, gradients and random state of three steps through one Offload are those of plain steps."""
    stack = draw_stack(trial)
    offload = _offload(trial, stack)
    for seed in range(3):
        same(trial, run(stack, plain, seed=seed, context=offload.saving()), run(stack, plain, seed=seed))


def chain(x: Tensor, length: int) -> tuple[Tensor, list[Tensor]]:
    """sin(sin(... x)): each link saves its input, all of one size. Returns the result and the inputs saved."""
    saved = []
    for _ in range(length):
        saved.append(x)
        x = torch.sin(x)
    return x, saved


def freed_memory(trial: Trial) -> None:
    """The device memory of what has left is overwritten before backward, and no gradient notices."""
    leaf = trial.case.normal(trial.case.integer("size", 1, 9)).requires_grad_()
    length = trial.case.integer("length", 2, 6)
    (theirs,) = torch.autograd.grad(chain(leaf * 1.0, length)[0].sum(), leaf)
    with _offload(trial, nn.Identity(), bound=0).saving():
        result, saved = chain(leaf * 1.0, length)
    for left in saved[:-1]:
        left.data.fill_(float("nan"))  # `.data` has a version counter of its own: autograd sees no change
    (ours,) = torch.autograd.grad(result.sum(), leaf)
    trial.compare.exactly("gradient after freed memory was overwritten", ours, theirs)


def bounded(trial: Trial) -> None:
    """After the forward the device holds what may be under way and the last tensor; backward fetches as far ahead."""
    size, length = trial.case.integer("size", 1, 9), trial.case.integer("length", 1, 9)
    ahead = trial.case.integer("tensors under way", 0, 3)
    leaf = trial.case.normal(size).requires_grad_()
    offload = _offload(trial, nn.Identity(), bound=ahead * 8 * size)
    with offload.saving() as traffic:
        result, saved = chain(leaf * 1.0, length)
    references = [StorageWeakRef(tensor.untyped_storage()) for tensor in saved]
    fetched: dict[int, int] = {}
    for place, tensor in enumerate(saved):  # the gradient of x_k is there once the link that saved x_k has run
        tensor.register_hook(lambda _, place=place: fetched.update({place: traffic.back_bytes}))
    del saved, tensor
    gone = max(length - 1 - ahead, 0)
    expected_gone = [int(place < gone) for place in range(length)]
    trial.compare.exactly("gone from the device", [int(one.expired()) for one in references], expected_gone)
    trial.compare.exactly("tensors sent", traffic.moved, length - 1)
    trial.compare.exactly("bytes sent", traffic.out_bytes, (length - 1) * 8 * size)
    result.sum().backward()
    for place in range(length):
        back = max(gone - max(place - ahead, 0), 0)
        trial.compare.exactly(f"bytes fetched by the time tensor {place} is used", fetched[place], back * 8 * size)


def once_each(trial: Trial) -> None:
    """A storage saved several times, under several views, travels once; parameters and small tensors do not travel."""
    rows, columns = trial.case.integer("rows", 1, 4), trial.case.integer("columns", 2, 5)
    weight = nn.Parameter(trial.case.normal(columns, columns))
    leaf = trial.case.normal(rows, columns).requires_grad_()
    module = nn.Module()
    module.weight = weight
    minimum = trial.case.choice("minimum_bytes", (0, 8 * rows * columns, 8 * rows * columns + 1))

    def forward() -> Tensor:
        shared = leaf * 1.0
        views = [torch.sin(shared), torch.cos(shared.t()).t(), torch.exp(shared.view(-1)).view(rows, columns)]
        part = torch.sin(torch.cat([shared] * 3).detach().requires_grad_()[:1])  # a third of its storage: stays
        mixed = (views[0] @ weight.t() + views[1] @ weight + views[2]).tanh()
        return mixed.sum() + part.sum()

    theirs = torch.autograd.grad(forward(), [leaf, weight])
    offload = _offload(trial, module, bound=0, minimum=minimum)
    with offload.saving() as traffic:
        loss = forward()
    ours = torch.autograd.grad(loss, [leaf, weight])
    trial.compare.exactly("gradient of the input", ours[0], theirs[0])
    trial.compare.exactly("gradient of the weight", ours[1], theirs[1])
    # shared, exp's result, and the two factors of the products; tanh's result is last and stays
    trial.compare.exactly("storages sent", traffic.moved, 4 if minimum <= 8 * rows * columns else 0)
    if minimum <= 8 * rows * columns:
        trial.compare.exactly("saved again without travelling", traffic.repeated, 1)


class _InPlace(torch.autograd.Function):
    """leaf * factor, written into memory that is given: each call makes a new storage at an address known before."""

    @staticmethod
    def forward(ctx: Any, leaf: Tensor, factor: float, memory: Any) -> Tensor:
        ctx.factor = factor
        memory[:] = (leaf.detach() * factor).numpy()
        return torch.from_numpy(memory)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad * ctx.factor, None, None


def address_in_use_again(trial: Trial) -> None:
    """A storage that was dropped and whose address now holds another tensor is not taken for the same one.

    Two pieces of memory take turns: the newest tensor stays until the next one comes, the one before has left. Whether
    an allocator hands out an address again is its own affair, and no check can wait for it.
    """
    leaf = trial.case.normal(trial.case.integer("size", 1000, 2000)).requires_grad_()
    count = 24
    memory = [leaf.detach().clone().numpy() for _ in range(2)]

    def forward(product_of: Callable[[int], Tensor]) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for factor in range(1, count + 1):
            product = product_of(factor)
            addresses.append(product.data_ptr())
            total = total + torch.sin(product).sum()
            del product  # nothing but the graph keeps it
        return total

    addresses: list[int] = []
    (theirs,) = torch.autograd.grad(forward(lambda factor: leaf * float(factor)), leaf)
    addresses.clear()
    with _offload(trial, nn.Identity(), bound=0).saving() as traffic:
        loss = forward(lambda n: _InPlace.apply(leaf, float(n), memory[n % 2]))  # type: ignore[no-untyped-call]
    trial.compare.holds("an address used again", len(set(addresses)) < count, "none: nothing was freed", "some")
    (ours,) = torch.autograd.grad(loss, leaf)
    trial.compare.exactly("gradient", ours, theirs)
    trial.compare.exactly("storages sent", traffic.moved, count - 1)


def changed_in_place(trial: Trial) -> None:
    """A saved tensor that is changed in place while it is still here is an error in backward, as without offload."""
    kind = trial.case.choice("changed", ("activation", "parameter", "sent activation"))
    outcomes = []
    for use_offload in (True, False):
        weight = nn.Parameter(trial.case.normal(3, 3))
        x = trial.case.normal(2, 3).requires_grad_()
        module = nn.Module()
        module.weight = weight
        offload = _offload(trial, module, bound=1 << 20)
        with offload.saving() if use_offload else torch.enable_grad():
            hidden = x @ weight
            result = torch.sin(hidden)
            if kind == "sent activation":
                result = torch.cos(result)
        with torch.no_grad():
            (weight if kind == "parameter" else hidden).add_(1.0)
        outcomes.append(raises(RuntimeError, result.sum().backward))
    trial.compare.exactly(f"refuses a changed {kind}", outcomes[0], outcomes[1])


def changed_while_leaving(trial: Trial) -> None:
    """A change in place between saving and leaving is noticed, even though the tensor is gone before backward."""
    x = trial.case.normal(4).requires_grad_()
    outcomes = []
    for use_offload in (True, False):
        offload = _offload(trial, nn.Identity(), bound=0)
        with offload.saving() if use_offload else torch.enable_grad():
            hidden = x * 2.0
            result = torch.sin(hidden)
            with torch.no_grad():
                hidden.add_(1.0)
            result = torch.cos(torch.exp(result))  # now `hidden` leaves, with the change in it
        outcomes.append(raises(RuntimeError, result.sum().backward))
    trial.compare.exactly("refuses what was changed before it left", outcomes[0], outcomes[1])


def autocast_copies(trial: Trial) -> None:
    """The bf16 copies autocast makes of parameters are state: they stay. The input's copy is an activation and goes."""
    size = trial.case.integer("size", 1, 6)
    linear = nn.Linear(size, size)
    x = trial.case.normal(3, size, dtype=torch.float32).requires_grad_()

    def forward() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.cos(torch.sin(linear(x))).float().sum()

    theirs = torch.autograd.grad(forward(), [x, linear.weight, linear.bias])
    with _offload(trial, linear, bound=0).saving() as traffic:
        loss = forward()
    for mine, other in zip(torch.autograd.grad(loss, [x, linear.weight, linear.bias]), theirs, strict=True):
        trial.compare.exactly("gradient", mine, other)
    trial.compare.exactly("tensors left", traffic.left, 1)
    trial.compare.exactly("bytes sent", traffic.out_bytes, 2 * (3 * size + 3 * size))  # the input and the product


def several_backwards(trial: Trial) -> None:
    """Two graphs alive at once, a retained graph walked twice, a gradient of a gradient."""
    stack = draw_stack(trial, dropout=0.0)
    block, x = stack.first, stack.x
    offload = _offload(trial, stack)
    losses = []
    for _ in range(2):
        with offload.saving():
            losses.append(block(block(x)).square().sum())
    straight = block(block(x)).square().sum()
    (theirs,) = torch.autograd.grad(straight, x, create_graph=True)
    for name in ("second graph", "retained", "first graph", "retained again"):
        loss = losses[1] if name in ("second graph", "retained") else losses[0]
        (ours,) = torch.autograd.grad(loss, x, retain_graph=True)
        trial.compare.exactly(f"gradient, {name}", ours, theirs)
    with offload.saving():
        (slope,) = torch.autograd.grad(losses[0], x, create_graph=True)
    (ours,) = torch.autograd.grad(slope.square().sum(), x)
    (theirs,) = torch.autograd.grad(theirs.square().sum(), x)
    trial.compare.exactly("gradient of the gradient", ours, theirs)


def buffers_are_reused(trial: Trial) -> None:
    """Host memory is taken in the first step and not again; nothing is lent twice at the same time."""
    pool = trial.mechanism("offload").HostPool(pin=False, slab_bytes=4096)
    sizes = [trial.case.integer(f"size {place}", 1, 3000) for place in range(trial.case.integer("buffers", 1, 6))]
    first = [pool.take(size)[0] for size in sizes]
    for place, buffer in enumerate(first):
        buffer.fill_(place)
    for place, buffer in enumerate(first):
        trial.compare.exactly(f"bytes of buffer {place}", buffer, torch.full((sizes[place],), place, dtype=torch.uint8))
    taken = pool.allocated_bytes
    for buffer in first:
        pool.give(buffer, None)
    again = [pool.take(size)[0] for size in sizes]
    trial.compare.exactly("host bytes allocated in the second step", pool.allocated_bytes - taken, 0)
    lent = sorted(buffer.data_ptr() for buffer in again)
    trial.compare.exactly("distinct buffers", len(set(lent)), len(sizes))
    pool.take(sizes[0])
    trial.compare.holds("a buffer in use", pool.take(sizes[0])[0].data_ptr() not in lent, "it again", "another")


def with_checkpointing(trial: Trial) -> None:
    """Checkpointed blocks under offload: only their inputs travel, and nothing in the results changes."""
    checkpoint = trial.mechanism("checkpoint").checkpoint
    stack = draw_stack(trial)
    theirs = run(stack, plain)
    offload = _offload(trial, stack.blocks, bound=0)
    same(trial, run(stack, checkpoint, context=offload.saving()), theirs)
    trial.compare.exactly("storages sent", offload.traffic.moved, len(stack.blocks))
    expected = len(stack.blocks) * stack.x.numel() * stack.x.element_size()
    trial.compare.exactly("bytes sent", offload.traffic.out_bytes, expected)


def transformers_model(trial: Trial) -> None:
    """A Qwen2 step under Offload and under save_on_cpu has the plain step's gradients; its parameters do not move."""
    ids = trial.case.integers(0, 32, trial.case.integer("batch", 1, 2), trial.case.integer("sequence", 2, 8))
    found = []
    for context in ("plain", "ours", "save_on_cpu"):
        model = tiny_qwen2(0, layers=2, attention_dropout=0.2)
        offload = _offload(trial, model, bound=1024)
        contexts = {"plain": torch.enable_grad, "ours": offload.saving, "save_on_cpu": torch.autograd.graph.save_on_cpu}
        torch.manual_seed(1)
        with contexts[context]():
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        found.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in found[2].items():
        trial.compare.exactly(f"gradient of {name}, save_on_cpu", gradient, found[0][name])
        trial.compare.exactly(f"gradient of {name}", found[1][name], gradient)


OURS, AUTOGRAD = "offload.Offload", "torch.autograd without offload"
SAVE_ON_CPU = "torch.autograd.graph.save_on_cpu"
CHECKS = (
    PageCheck("synchronous", synchronous, "offload.synchronous", SAVE_ON_CPU, examples=10),
    PageCheck("several_steps", several_steps, OURS, AUTOGRAD),
    PageCheck("freed_memory", freed_memory, OURS, AUTOGRAD, examples=10),
    PageCheck("bounded", bounded, OURS, "the bound's own definition"),
    PageCheck("once_each", once_each, OURS, AUTOGRAD, examples=10),
    PageCheck("address_in_use_again", address_in_use_again, OURS, AUTOGRAD, examples=4),
    PageCheck("changed_in_place", changed_in_place, OURS, AUTOGRAD, examples=6),
    PageCheck("changed_while_leaving", changed_while_leaving, OURS, AUTOGRAD, examples=2),
    PageCheck("autocast_copies", autocast_copies, OURS, AUTOGRAD, examples=5),
    PageCheck("several_backwards", several_backwards, OURS, AUTOGRAD, examples=8),
    PageCheck("buffers_are_reused", buffers_are_reused, "offload.HostPool", "a pool's own definition", examples=10),
    PageCheck("with_checkpointing", with_checkpointing, OURS, AUTOGRAD, examples=8),
    PageCheck("transformers_model", transformers_model, OURS, SAVE_ON_CPU, ("transformers",), 4),
)

PAGE = Page("activation_offload", ("offload", "checkpoint"), CHECKS)

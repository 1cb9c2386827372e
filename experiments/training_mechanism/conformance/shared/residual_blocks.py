"""A small stack of residual blocks with dropout, in float64: what checkpointing and offload are checked against.

Both mechanisms only move or repeat work: on CPU the same operations run on the same values, so their results have to be
the plain ones bit for bit, and these checks allow no difference at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.conformance.page import Trial

Gradients = dict[str, Tensor | None]


class Block(nn.Module):
    """x + dropout(W2 gelu(W1 x)): saves activations, draws random numbers, ends in a matrix product and a sum."""

    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """[rows, width] to [rows, width]."""
        hidden = nn.functional.gelu(self.up(x))
        out: Tensor = x + self.down(nn.functional.dropout(hidden, self.dropout))
        return out


class Stack(nn.Module):
    """Blocks behind an input that needs a gradient; `call` decides how each block is run."""

    def __init__(self, blocks: list[Block], x: Tensor) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.x = nn.Parameter(x)

    @property
    def first(self) -> Block:
        """The first block."""
        block = self.blocks[0]
        assert isinstance(block, Block)
        return block

    def forward(self, call: Callable[[Block, Tensor], Tensor]) -> Tensor:
        """The scalar loss."""
        hidden: Tensor = self.x
        for block in self.blocks:
            assert isinstance(block, Block)
            hidden = call(block, hidden)
        return hidden.float().square().mean() if hidden.dtype != torch.float64 else hidden.square().mean()


def draw_stack(trial: Trial, *, dropout: float | None = None, dtype: torch.dtype = torch.float64) -> Stack:
    """One to three blocks of drawn sizes and values."""
    case = trial.case
    width, inner = case.integer("width", 1, 6), case.integer("inner", 1, 9)
    rate = case.choice("dropout", (0.0, 0.3)) if dropout is None else dropout
    blocks = [Block(width, inner, rate) for _ in range(case.integer("blocks", 1, 3))]
    stack = Stack(blocks, case.normal(case.integer("rows", 1, 5), width))
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.copy_(case.normal(*parameter.shape, bound=2.0))
    return stack.to(dtype)


def plain(block: Block, x: Tensor) -> Tensor:
    """The block as it is."""
    return block(x)  # type: ignore[no-any-return]


def run(stack: Stack, call: Callable[[Block, Tensor], Tensor], *, seed: int = 0, context: Any = None) -> Gradients:
    """Loss and every gradient of one step whose random numbers start at `seed`; gradients are cleared before."""
    stack.zero_grad()
    torch.default_generator.manual_seed(seed)  # torch's own would format three stacks for cards that are not there
    if context is None:
        loss = stack(call)
    else:
        with context:
            loss = stack(call)
    loss.backward()
    found: Gradients = {"loss": loss.detach()}
    for name, parameter in stack.named_parameters():
        found[f"gradient of {name}"] = None if parameter.grad is None else parameter.grad.clone()
    found["next random number"] = torch.rand(())  # the step must leave the generator where a plain one does
    return found


def same(trial: Trial, ours: Gradients, theirs: Gradients) -> None:
    """Every value of one step, bit for bit."""
    for name, value in theirs.items():
        trial.compare.exactly(name, ours[name], value)


class CountProducts(TorchDispatchMode):
    """Counts matrix products that really run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator."""
        if operator in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default):
            self.count += 1
        return operator(*args, **(kwargs or {}))


class CountSaved:
    """Counts saved tensors and their bytes as outer hooks see them."""

    def __init__(self) -> None:
        self.tensors, self.bytes = 0, 0

    def hooks(self) -> torch.autograd.graph.saved_tensors_hooks:
        """A context that counts and changes nothing."""

        def pack(tensor: Tensor) -> Tensor:
            self.tensors += 1
            self.bytes += tensor.numel() * tensor.element_size()
            return tensor.detach()

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)


def raises(kinds: type[BaseException] | tuple[type[BaseException], ...], call: Callable[[], object]) -> bool:
    """Whether the call ends in one of these errors."""
    try:
        call()
    except kinds:
        return True
    return False

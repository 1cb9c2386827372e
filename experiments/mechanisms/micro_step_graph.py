"""A micro-step in a CUDA graph: forward, loss and backward recorded once, then replayed for each micro-batch.

A micro-batch of one row keeps a card busy for a few microseconds per kernel, less than Python and the launch of that
kernel take: the card waits. A graph holds all launches of one micro-step; replaying it is one launch. What a recording
needs is that nothing moves between replays:

    ids and targets   live in two fixed tensors; each micro-batch is copied into them
    divisor           a number on the card, not one written into the graph: the next window may hold other tokens
    gradients         are allocated before the recording, so that it adds to them; they are zeroed in place, never freed
    loss              is added to one fixed tensor, read once per update
    memory            between weights and gradients lives in the graph's own pool, held as long as the graph

Shapes are fixed too, so a remainder of another size needs a recording of its own. Autocast must not cache its weight
copies (`cache_enabled=False`): a cached copy made while recording would be taken for a copy of today's weights later.

Source: torch.cuda.graphs; the order of warm-up and recording is that of PyTorch's notes on CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

Run = Callable[[], None]
WARM_UPS = 3  # libraries choose kernels and take workspaces in the first runs, which a recording cannot hold


def cuda_graph(run: Run) -> Run:
    """`run`, recorded as a CUDA graph: each call of the result does on the card what `run` did there.

    Both the warm-up and the recording take place on one side stream: autograd's nodes stay on the stream they were
    born on. `run` is called WARM_UPS + 1 times, and what it adds up while warming up has to be cleared by the caller.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        run()
    return graph.replay


class MicroStepGraph:
    """Gradients of micro-batches of one shape, added up in `.grad` by replaying one recording.

    `loss_sum(inputs, targets)` is the loss summed over the targets; `scaled` is a gradient scaler's `scale`, if any.
    `record` turns a function into its replay.
    """

    def __init__(
        self,
        loss_sum: Callable[[Tensor, Tensor], Tensor],
        inputs: Tensor,
        targets: Tensor,
        parameters: Iterable[Tensor],
        *,
        scaled: Callable[[Tensor], Tensor] = lambda loss: loss,
        record: Callable[[Run], Run] = cuda_graph,
    ) -> None:
        self._loss_sum, self._scaled = loss_sum, scaled
        self._inputs, self._targets = inputs.clone(), targets.clone()
        self._divisor = torch.ones((), device=inputs.device)
        self._loss = torch.zeros((), device=inputs.device)
        self._parameters = list(parameters)
        self._gradients = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._attach()
        self._replay = record(self._micro_step)

    def _micro_step(self) -> None:
        loss = self._loss_sum(self._inputs, self._targets) / self._divisor
        self._scaled(loss).backward()
        self._loss += loss.detach()

    def _attach(self) -> None:
        """A replay adds to the gradients it was recorded with, whatever `.grad` says meanwhile: hold both together."""
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient

    def start(self) -> None:
        """Begin a window: gradients and loss are zero again, in the memory the recording knows."""
        self._attach()
        torch._foreach_zero_(self._gradients)
        self._loss.zero_()

    def add(self, inputs: Tensor, targets: Tensor, divisor: int) -> None:
        """One micro-batch: adds the gradients of its summed loss over `divisor`. Raises ValueError for other shapes."""
        if inputs.shape != self._inputs.shape:
            raise ValueError(f"recorded for {tuple(self._inputs.shape)}, asked to replay {tuple(inputs.shape)}")
        self._inputs.copy_(inputs)
        self._targets.copy_(targets)
        self._divisor.fill_(divisor)
        self._replay()

    def loss(self) -> Tensor:
        """The window's loss so far, a copy: the recording goes on writing into its own."""
        return self._loss.clone()

"""Gradient accumulation: one optimizer update from several micro-batches, each with its own backward.

Gradients add up, so the update of a big batch can be had in pieces, provided each piece is divided by what the whole
is divided by. With s_i the summed loss of micro-batch i, n_i its target tokens, and N = n_1 + ... + n_M of the window

    per token             L = sum_i s_i / N             every token weighs the same: the big batch's own loss
    per micro-batch mean  L = sum_i s_i / (n_i M)       a token in a short micro-batch weighs more: the wrong control

The two agree only where all n_i are equal. M is the number of micro-batches that are really there: the last window of
an epoch is often shorter than the others, and dividing it by the full count makes its update too small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

import torch
from torch import Tensor

Batch = TypeVar("Batch")
Normalise = Literal["per_token", "per_micro_batch"]


def windows(micro_batches: Iterable[Batch], steps: int) -> Iterator[list[Batch]]:
    """Groups of `steps` consecutive micro-batches, one update each; the last group is what remains."""
    if steps < 1:
        raise ValueError(f"accumulation steps must be at least 1, got {steps}")
    window: list[Batch] = []
    for batch in micro_batches:
        window.append(batch)
        if len(window) == steps:
            yield window
            window = []
    if window:
        yield window


def divisors(token_counts: Sequence[int], normalise: Normalise = "per_token") -> list[int]:
    """What each micro-batch's summed loss is divided by. Raises ValueError where a loss would be 0 / 0.

    Per token a micro-batch without targets is harmless: it adds nothing. As a mean of its own it has no value.
    """
    if normalise == "per_token":
        found = [sum(token_counts)] * len(token_counts)
    else:
        found = [count * len(token_counts) for count in token_counts]
    if not found or min(found) == 0:
        raise ValueError(f"no target token to average over in micro-batches with {list(token_counts)} targets")
    return found


def accumulate(
    window: Sequence[Batch],
    loss_sum: Callable[[Batch], Tensor],
    token_counts: Sequence[int],
    normalise: Normalise = "per_token",
) -> Tensor:
    """Adds the window's gradient to each parameter's `.grad`, one micro-batch at a time; returns the loss, detached.

    `loss_sum` gives the loss of a micro-batch summed over its targets. Each micro-batch's graph is freed by its
    backward before the next one is built: that is where the memory is saved. Nothing here waits for the device.
    """
    total: Tensor | None = None
    for batch, divisor in zip(window, divisors(token_counts, normalise), strict=True):
        loss = loss_sum(batch) / divisor
        loss.backward()
        total = loss.detach() if total is None else total + loss.detach()
    assert total is not None  # divisors() has refused an empty window
    return total


def updates(
    micro_batches: Iterable[Batch],
    steps: int,
    optimizer: torch.optim.Optimizer,
    loss_sum: Callable[[Batch], Tensor],
    count: Callable[[Batch], int],
    normalise: Normalise = "per_token",
    after_update: Callable[[], object] = lambda: None,
) -> list[Tensor]:
    """Trains over all micro-batches, one update per window; returns the loss of each update.

    `after_update` runs once per update: a schedule counts updates, not micro-batches.
    """
    losses = []
    for window in windows(micro_batches, steps):
        optimizer.zero_grad()
        losses.append(accumulate(window, loss_sum, [count(batch) for batch in window], normalise))
        optimizer.step()
        after_update()
    return losses


def split(effective_batch: int, micro_batch: int) -> list[int]:
    """Micro-batch sizes that add up to the effective batch; the last one takes the remainder."""
    if effective_batch < 1 or micro_batch < 1:
        raise ValueError(f"batch sizes must be at least 1, got {effective_batch} in pieces of {micro_batch}")
    full, remainder = divmod(effective_batch, micro_batch)
    return [micro_batch] * full + ([remainder] if remainder else [])


def split_smaller(sizes: Sequence[int]) -> list[int]:
    """The same effective batch in pieces half as large: what to try when `sizes` ran out of memory.

    Halving the piece without more pieces would train on another batch. Raises ValueError when single rows do not fit.
    """
    largest = max(sizes)
    if largest == 1:
        raise ValueError("a micro-batch of one row does not fit: shorten the sequence")
    return split(sum(sizes), largest // 2)


class WideGradients:
    """Sums low-precision gradients in fp32: `add` after each micro-batch, `take` before the update.

    In bf16 a sum stops growing once it is 256 times a term (8 bits of significand), so late micro-batches are lost.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)
        self._sums: list[Tensor | None] = [None] * len(self._parameters)

    def add(self) -> None:
        """Moves each parameter's `.grad` into its fp32 sum and clears it."""
        for index, parameter in enumerate(self._parameters):
            if parameter.grad is None:
                continue
            wide, previous = parameter.grad.to(torch.float32), self._sums[index]
            self._sums[index] = wide.clone() if previous is None else previous.add_(wide)
            parameter.grad = None

    def take(self) -> list[Tensor | None]:
        """The sums, in the parameters' order, None where no gradient came; starts the next window from nothing."""
        sums, self._sums = self._sums, [None] * len(self._parameters)
        return sums

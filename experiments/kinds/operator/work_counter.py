"""Counts what one call really does, from below: every operation that PyTorch dispatches, and every tensor it reads.

A candidate that says it multiplies int8 weights and was quietly replaced by a dense product gives the same numbers,
perhaps faster. It reads other bytes, though, and that is seen here without asking it.

    flops           2 x the multiply-adds of matrix products, by PyTorch's own formulas (torch.utils.flop_counter)
    weight_bytes    storage that was there before the call, its input aside, and that an operation read
    int8_read       int8 values among it that were read, once for each operation that reads them
    scaled_before   entries written by multiplications before the first matrix product: weights that were dequantised
    scaled_after    the same after it: outputs that were scaled
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from experiments.kinds.operator.operation import Operation


class _WorkCounter(TorchDispatchMode):
    """Sums up what is dispatched inside it. A product for which PyTorch has no formula counts no flops."""

    def __init__(self, given: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._own = {_place(given)}  # storage that is no weight: the input, and what the call itself made
        self._weights: dict[int, int] = {}
        self._kept: list[Tensor] = []  # what the call made outlives it: no two storages have one address
        self.flops = self.int8_read = self.scaled_before = self.scaled_after = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import its compiler at the first operation, which takes seconds in every process."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if any(value.alias_info is not None and not value.alias_info.is_write for value in func._schema.returns):
            return out  # a view: nothing is read
        self._read([leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)])
        made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self._own.update(_place(tensor) for tensor in made if _place(tensor) not in self._weights)
        self._kept.extend(made)
        packet = func._overloadpacket
        if packet in flop_registry:
            self.flops += int(flop_registry[packet](*args, **(kwargs or {}), out_val=out))
        elif packet in (torch.ops.aten.mul, torch.ops.aten.mul_):
            entries = sum(tensor.numel() for tensor in made)
            if self.flops:
                self.scaled_after += entries
            else:
                self.scaled_before += entries
        return out

    def _read(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            if tensor.numel() and _place(tensor) not in self._own:
                self._weights[_place(tensor)] = tensor.untyped_storage().nbytes()
                self.int8_read += tensor.numel() if tensor.dtype == torch.int8 else 0

    def counted(self) -> dict[str, int]:
        """Each sum by its word."""
        words = ("flops", "int8_read", "scaled_before", "scaled_after")
        return {**{word: getattr(self, word) for word in words}, "weight_bytes": sum(self._weights.values())}


def count(operation: Operation) -> tuple[Tensor, dict[str, int]]:
    """The output of one call, and what was counted while it ran."""
    counter = _WorkCounter(operation.given)
    with counter:
        out = operation()
    return out, counter.counted()


def _place(tensor: Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())

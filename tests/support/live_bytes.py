"""Counts the bytes of live tensors after every operation, on the CPU, the way a device's allocator would count them.

A dispatch mode sees each operation of forward and backward and notes the storage of what it returns; a storage counts
until it is gone. What an operation allocates and frees inside itself is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Run a step inside it and call `enter` at the border of each phase.

    `before` holds the tensors that are there already (weights, ids, optimizer state), counted from the beginning.
    Tensors given to `leave_out` are never counted: they stand for host memory. `peaks` is the highest count of each
    phase, `at_entry` the count when it was last entered.
    """

    def __init__(self, before: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}
        self._standing = 0
        self._left_out: dict[int, StorageWeakRef] = {}
        self.peaks: dict[str, int] = {}
        self.at_entry: dict[str, int] = {}
        self._phase = "before"
        kept = {tensor.untyped_storage()._cdata: tensor for tensor in before}
        self._kept = tuple(kept.values())  # they outlive the step, so they need no watching
        self._standing = sum(tensor.untyped_storage().nbytes() for tensor in self._kept)
        for tensor in self._kept:
            self._left_out[tensor.untyped_storage()._cdata] = StorageWeakRef(tensor.untyped_storage())

    def leave_out(self, tensor: torch.Tensor) -> None:
        """Count this tensor's storage as being elsewhere."""
        storage = tensor.untyped_storage()
        self._live.pop(storage._cdata, None)
        self._left_out[storage._cdata] = StorageWeakRef(storage)

    def enter(self, phase: str) -> None:
        """Begin a phase; one entered again keeps its highest peak and its last entry."""
        self._phase = phase
        self.at_entry[phase] = self.now()
        self._rise(self.at_entry[phase])

    def now(self) -> int:
        """Bytes of the storages that are still there."""
        for key in [key for key, (storage, _) in self._live.items() if storage.expired()]:
            del self._live[key]
        return self._standing + sum(size for _, size in self._live.values())

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._note(leaf)
        count = self.now()
        self._rise(count)
        return result

    def _rise(self, count: int) -> None:
        self.peaks[self._phase] = max(count, self.peaks.get(self._phase, 0))

    def _note(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        elsewhere = self._left_out.get(storage._cdata)
        if elsewhere is not None and not elsewhere.expired():
            return
        known = self._live.get(storage._cdata)
        if known is None or known[0].expired():
            self._live[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())

"""Activation offload by hand: what the forward saves goes to host memory and comes back before backward needs it.

`synchronous` is the mechanism in a few lines: every saved tensor is copied out and back, each copy waited for.
`Offload` hides the copies behind the computation, on side streams:

    forward   pack    start copying out what was packed before; keep it on the device until more than `in_flight_bytes`
                      are on the way, then let the compute stream wait for the oldest copy and drop that tensor
    backward  unpack  hand out the tensor; start copying back what was packed before it, up to `in_flight_bytes`

Nothing is deleted while a copy still reads or writes it: the compute stream, on which memory is handed out again, first
waits for that copy's event, so the next owner of the memory comes after it. What has not left when the backward begins
is used where it is, and the last tensor packed never leaves: it is the first one needed. Host buffers are pinned and
return to a pool; the next copy into one waits for the last one out of it.

Left where they are: parameters, their transposes and their autocast copies (they are state, and stay anyway), small
tensors, and parts of a storage too large to move for them. A storage saved several times travels once. It is recognised
by its identity, held by a weak reference, and by its version: an address may be in use again by then. A tensor changed
in place while it is still here is an error in backward, as it is without offload.

On CPU the same code runs without streams: the copies simply happen. Source of the hooks: torch.autograd.graph.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

CHANGED = "a tensor saved for backward was changed in place after it was saved"
ALIGNMENT = 512  # bytes; every dtype may start there
RESHAPES = {"ToCopyBackward0", "TBackward0", "TransposeBackward0", "ViewBackward0", "PermuteBackward0"}


def synchronous(pin: bool = False) -> saved_tensors_hooks:
    """Every saved tensor to host memory and back, one blocking copy each; the context torch calls save_on_cpu."""

    def pack(tensor: Tensor) -> tuple[torch.device, Tensor]:
        host = torch.empty_like(tensor, device="cpu", pin_memory=pin)  # strides too
        host.copy_(tensor)
        return tensor.device, host

    def unpack(packed: tuple[torch.device, Tensor]) -> Tensor:
        device, host = packed
        return host.to(device, non_blocking=pin)

    return saved_tensors_hooks(pack, unpack)


@dataclass(slots=True)
class Traffic:
    """What one step moved, in bytes and tensors."""

    out_bytes: int = 0
    back_bytes: int = 0
    moved: int = 0  # storages copied out
    repeated: int = 0  # saved again while already on the way: no second copy
    left: int = 0  # saved tensors that stay on the device


class HostPool:
    """Host buffers by size, reused across steps: pinning memory costs far more than copying into it.

    Carved from slabs of `slab_bytes`, since the allocator rounds each pinned block up to a power of two.
    """

    def __init__(self, pin: bool, slab_bytes: int = 1 << 26) -> None:
        self._pin, self._slab_bytes = pin, slab_bytes
        self._slab, self._used = torch.empty(0, dtype=torch.uint8), 0
        self._free: dict[int, list[tuple[Tensor, torch.cuda.Event | None]]] = {}
        self.allocated_bytes = 0

    def take(self, size: int) -> tuple[Tensor, torch.cuda.Event | None]:
        """A uint8 buffer of `size` bytes, and the event after which it may be written."""
        free = self._free.get(size)
        if free:
            return free.pop()
        if self._used + size > self._slab.numel():
            self._slab = torch.empty(max(size, self._slab_bytes), dtype=torch.uint8, pin_memory=self._pin)
            self._used = 0
            self.allocated_bytes += self._slab.numel()
        start = self._used
        self._used += -(-size // ALIGNMENT) * ALIGNMENT
        return self._slab[start : start + size], None

    def give(self, buffer: Tensor, last_read: torch.cuda.Event | None) -> None:
        """Takes a buffer back; whoever gets it next waits for `last_read`."""
        self._free.setdefault(buffer.numel(), []).append((buffer, last_read))


class _Lane:
    """A side stream for copies in one direction; on CPU the caller's own order is all there is."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def copy(self, target: Tensor, source: Tensor, *after: torch.cuda.Event | None) -> torch.cuda.Event | None:
        """Copies once everything queued so far, and each event in `after`, is done. Returns the event of its end."""
        if self._stream is None:
            target.copy_(source)
            return None
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        for event in after:
            if event is not None:
                self._stream.wait_event(event)
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)
            ended: torch.cuda.Event = self._stream.record_event()
        return ended


class _Parcel:
    """One storage on its way: on the device, in a host buffer, or both. Lives as long as a graph node needs it."""

    def __init__(self, tensor: Tensor, order: list[weakref.ref[_Parcel]], pool: HostPool) -> None:
        storage = tensor.untyped_storage()
        self.identity = StorageWeakRef(storage)  # while this is held, no other storage gets the same identity
        self.device, self.size = tensor.device, storage.nbytes()
        self.order, self.position = order, len(order)
        self.resident: Tensor | None = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        self.witness: Tensor | None = tensor.detach()  # shares the version counter, while the original is here
        self.version, self.torn = tensor._version, False
        self.pool, self.buffer = pool, torch.empty(0, dtype=torch.uint8)
        self.left: torch.cuda.Event | None = None  # the copy out has ended
        self.arrived: torch.cuda.Event | None = None  # the copy back has ended
        self.awaited = True  # the compute stream has been told to wait for `arrived`

    def send(self, lane: _Lane) -> None:
        """Starts the copy out."""
        self.look()
        assert self.resident is not None
        self.buffer, free = self.pool.take(self.size)
        self.left = lane.copy(self.buffer, self.resident, free)

    def drop(self) -> None:
        """Lets go of the device memory once the copy out has read it."""
        self._wait(self.left)
        self.look()
        self.resident = self.witness = None

    def look(self) -> None:
        """Notes whether the original has been changed in place since it was saved."""
        self.torn = self.torn or (self.witness is not None and self.witness._version != self.version)

    def await_arrival(self) -> Tensor:
        """The bytes on the device, safe for the compute stream to read."""
        self.look()
        if self.torn:
            raise RuntimeError(CHANGED)
        assert self.resident is not None
        if not self.awaited:
            self._wait(self.arrived)
            self.awaited = True
        return self.resident

    def _wait(self, event: torch.cuda.Event | None) -> None:
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)

    def __del__(self) -> None:
        if not self.awaited:
            self._wait(self.arrived)  # fetched and never used: its memory must not be handed out under the copy
        if self.buffer.numel():
            self.pool.give(self.buffer, self.arrived)


@dataclass(frozen=True, slots=True)
class _Saved:
    """One saved tensor: a view of a parcel."""

    parcel: _Parcel
    dtype: torch.dtype
    size: torch.Size
    stride: tuple[int, ...]
    offset: int


class _Left(NamedTuple):
    """One saved tensor that stays on the device, and its version when it was saved."""

    tensor: Tensor
    version: int


class Offload:
    """Offloads what is saved under `saving()`; keep one for all steps, so that its host buffers are reused.

    `parameters` are never moved. `in_flight_bytes` bounds what is held on the device only because a copy is under way,
    in each direction: more hides more, and costs that much memory.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        device: torch.device,
        *,
        minimum_bytes: int = 1 << 16,
        in_flight_bytes: int = 1 << 29,
        pin: bool | None = None,
    ) -> None:
        self._parameters, self._device = list(parameters), device
        self._minimum, self._in_flight = minimum_bytes, in_flight_bytes
        self.pool = HostPool(device.type == "cuda" if pin is None else pin)
        self._out, self._back = _Lane(device), _Lane(device)
        self._leaving: deque[tuple[weakref.ref[_Parcel], int]] = deque()  # copies on the way out, oldest first
        self._leaving_bytes = 0
        self._start()

    def _start(self) -> None:
        self.traffic = Traffic()
        self._state = {parameter.untyped_storage()._cdata for parameter in self._parameters}
        self._known: weakref.WeakValueDictionary[tuple[int, int], _Parcel] = weakref.WeakValueDictionary()
        self._order: list[weakref.ref[_Parcel]] = []
        self._newest: _Parcel | None = None

    @contextmanager
    def saving(self) -> Iterator[Traffic]:
        """Run the forward under this, the backward after it. Yields the step's traffic; backward goes on counting."""
        self._start()
        try:
            with saved_tensors_hooks(self._pack, self._unpack):
                yield self.traffic
        finally:
            self._newest = None  # the graph alone keeps it from here on

    def _pack(self, tensor: Tensor) -> _Left | _Saved:
        if self._stays(tensor):
            self.traffic.left += 1
            return _Left(tensor.detach(), tensor._version)  # an output that held itself would never be freed
        storage = tensor.untyped_storage()
        key = (storage._cdata, tensor._version)
        parcel = self._known.get(key)
        if parcel is None:
            parcel = self._known[key] = _Parcel(tensor, self._order, self.pool)
            self._order.append(weakref.ref(parcel))
            if self._newest is not None:
                self._send(self._newest)
            self._newest = parcel
        else:
            self.traffic.repeated += 1
        return _Saved(parcel, tensor.dtype, tensor.size(), tensor.stride(), int(tensor.storage_offset()))

    def _stays(self, tensor: Tensor) -> bool:
        if tensor.device.type != self._device.type or tensor.layout != torch.strided:
            return True
        storage = tensor.untyped_storage()
        if storage.nbytes() < self._minimum or 2 * tensor.numel() * tensor.element_size() < storage.nbytes():
            return True
        return storage._cdata in self._state or self._is_copy_of_parameter(tensor)

    def _is_copy_of_parameter(self, tensor: Tensor) -> bool:
        """Whether a chain of casts and reshapes leads from a parameter to this tensor."""
        node = tensor.grad_fn
        while node is not None and node.name() in RESHAPES:
            node = node.next_functions[0][0]
        leaf = getattr(node, "variable", None)  # only AccumulateGrad has one
        return leaf is not None and leaf.untyped_storage()._cdata in self._state

    def _send(self, parcel: _Parcel) -> None:
        """Starts the copy out, and drops the oldest parcels until what is under way fits the bound."""
        parcel.send(self._out)
        self._leaving.append((weakref.ref(parcel), parcel.size))
        self._leaving_bytes += parcel.size
        self.traffic.moved += 1
        self.traffic.out_bytes += parcel.size
        while self._leaving_bytes > self._in_flight:
            oldest, size = self._leaving.popleft()
            self._leaving_bytes -= size
            gone = oldest()
            if gone is not None:
                gone.drop()

    def _unpack(self, saved: _Left | _Saved) -> Tensor:
        if isinstance(saved, _Left):
            if saved.tensor._version != saved.version:
                raise RuntimeError(CHANGED)
            return saved.tensor
        self._fetch(saved.parcel)
        self._fetch_before(saved.parcel)
        storage = saved.parcel.await_arrival().untyped_storage()
        view = torch.empty(0, dtype=saved.dtype, device=self._device)
        return view.set_(storage, saved.offset, saved.size, saved.stride)

    def _fetch(self, parcel: _Parcel) -> None:
        if parcel.resident is not None:
            return
        parcel.resident = torch.empty(parcel.size, dtype=torch.uint8, device=self._device)
        parcel.arrived = self._back.copy(parcel.resident, parcel.buffer, parcel.left)
        parcel.awaited = parcel.arrived is None
        self.traffic.back_bytes += parcel.size

    def _fetch_before(self, current: _Parcel) -> None:
        """Starts what backward will ask for next: it walks through the forward from its end."""
        ahead = 0
        for position in range(current.position - 1, -1, -1):
            parcel = current.order[position]()
            if parcel is None:
                continue
            ahead += parcel.size
            if ahead > self._in_flight:
                return
            self._fetch(parcel)

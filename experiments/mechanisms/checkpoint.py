"""Activation checkpointing by hand: keep a block's inputs, compute its inside again when the backward needs it.

Autograd asks for a saved tensor through two hooks. In the forward of a block `pack` keeps an empty slot instead of the
tensor. The first `unpack` in the backward runs the block again from its inputs; the tensors it saves this time come in
the same order and fill the slots. Memory falls from everything inside the block to its inputs, at the price of one more
forward of the block, less whatever comes after the last tensor it saves: the second run stops there.

The second run has to be the same run: the same inputs (autograd itself notices an in-place change of a saved input),
the same random state for dropout, the same autocast. Selective checkpointing keeps some outputs, those of matrix
products say, and hands them back in the second run instead of computing them.

`checkpoint_reentrant` is the older form, one autograd node per block that calls the backward from inside its own.

Sources: Chen et al. 2016 (arXiv:1604.06174); the hooks are torch.autograd.graph.saved_tensors_hooks.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

MATRIX_PRODUCTS = frozenset({torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default})
"""Operators whose outputs are worth keeping: dear to compute, cheap to hold."""


class CheckpointError(RuntimeError):
    """The second run of a block was not the first run again, so its gradients would be wrong."""


def checkpoint(
    block: Callable[..., Any],
    *inputs: Any,
    preserve_rng: bool = True,
    keep: Collection[Any] = (),
    early_stop: bool = True,
) -> Any:
    """block(*inputs), without what it saves for backward. Inputs that are tensors are kept; so is everything else.

    `keep` names operators (torch.ops.aten...) whose outputs are kept; `preserve_rng` repeats the random numbers.
    Raises CheckpointError in the backward where the second run saves other tensors than the first.
    """
    if not torch.is_grad_enabled():
        return block(*inputs)
    frame = _Frame(block, inputs, preserve_rng, keep, early_stop)
    with saved_tensors_hooks(frame.pack, frame.unpack), frame.kept.recording():
        return block(*inputs)


class _Slot:
    """Stands for one saved tensor. Lives as long as the autograd node that saved it, and so does its content."""

    def __init__(self, index: int, tensor: Tensor) -> None:
        self.index = index
        self.shape, self.dtype, self.device = tensor.shape, tensor.dtype, tensor.device
        self.content: Tensor | None = None


class _EndOfRunError(Exception):
    """Ends the second run once every slot is filled. Never leaves this module."""


class _Frame:
    """One checkpointed call: its inputs, its surroundings, and the slots its first run left behind."""

    def __init__(
        self, block: Callable[..., Any], inputs: tuple[Any, ...], preserve_rng: bool, keep: Collection[Any], stop: bool
    ) -> None:
        self.block = block
        self.inputs = _Inputs(inputs)
        self.random = _RandomState(inputs) if preserve_rng else None
        self.autocast = _autocast_state()
        self.kept = _KeptOutputs(keep)
        self.early_stop = stop
        self.slots: list[weakref.ref[_Slot]] = []
        self.found = 0  # tensors the second run has saved so far

    def pack(self, tensor: Tensor) -> _Slot:
        slot = _Slot(len(self.slots), tensor)
        self.slots.append(weakref.ref(slot))
        return slot

    def unpack(self, slot: _Slot) -> Tensor:
        if slot.content is None:
            self.run_again()
        if slot.content is None:
            raise CheckpointError(f"the second run saved {self.found} tensors, the first {len(self.slots)}")
        return slot.content

    def run_again(self) -> None:
        """Fills the slots whose nodes are still alive."""
        self.found = 0
        with ExitStack() as surroundings:
            surroundings.enter_context(self.random.restored() if self.random else nullcontext())
            for device, settings in self.autocast.items():
                surroundings.enter_context(torch.autocast(device, **settings))
            surroundings.enter_context(torch.enable_grad())
            surroundings.enter_context(saved_tensors_hooks(self.fill, _never_unpacked))
            surroundings.enter_context(self.kept.replaying())
            try:
                self.block(*self.inputs.restored())
            except _EndOfRunError:
                return
        if self.found != len(self.slots):
            raise CheckpointError(f"the second run saved {self.found} tensors, the first {len(self.slots)}")

    def fill(self, tensor: Tensor) -> None:
        """The second run's `pack`: the n-th tensor saved belongs to the n-th slot."""
        if self.found == len(self.slots):
            raise CheckpointError(f"the second run saves more than the {len(self.slots)} tensors of the first")
        slot = self.slots[self.found]()
        self.found += 1
        if slot is not None:
            was, now = (slot.shape, slot.dtype, slot.device), (tensor.shape, tensor.dtype, tensor.device)
            if was != now:
                raise CheckpointError(f"saved tensor {slot.index} was {was} in the first run, now it is {now}")
            slot.content = tensor.detach()
        if self.early_stop and self.found == len(self.slots):
            raise _EndOfRunError


def _never_unpacked(_: None) -> Tensor:
    raise CheckpointError("a backward through the second run itself is not defined")


class _Inputs:
    """Keeps a call's arguments; tensors through autograd, so that offload hooks around the block see them too."""

    def __init__(self, inputs: tuple[Any, ...]) -> None:
        self._inputs = [None if isinstance(value, Tensor) else value for value in inputs]
        self._places = [place for place, value in enumerate(inputs) if isinstance(value, Tensor)]
        anchor = torch.empty(0, requires_grad=True)  # makes autograd record the node even if no input needs a gradient
        tensors = [inputs[place] for place in self._places]
        self._saver: Tensor = _SaveTensors.apply(anchor, *tensors)  # type: ignore[no-untyped-call]
        self._needs_grad = [inputs[place].requires_grad for place in self._places]

    def restored(self) -> list[Any]:
        """The arguments again, tensors as leaves that need a gradient where the originals did."""
        inputs = list(self._inputs)
        node: Any = self._saver.grad_fn
        for place, tensor, needs in zip(self._places, node.saved_tensors, self._needs_grad, strict=True):
            inputs[place] = tensor.detach().requires_grad_(needs)
        return inputs


class _SaveTensors(torch.autograd.Function):
    """Does nothing but hold tensors the way every autograd node does: hooks and version checks included."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return anchor.new_empty(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        raise AssertionError("this node is never part of a backward")


class _RandomState:
    """The generators a block may draw from: the CPU's, and each CUDA device's among its inputs."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._devices = sorted({value.get_device() for value in inputs if isinstance(value, Tensor) and value.is_cuda})
        self._cpu = torch.get_rng_state()
        self._cuda = [torch.cuda.get_rng_state(device) for device in self._devices]

    @contextmanager
    def restored(self) -> Iterator[None]:
        """As it was then; afterwards as it is now."""
        with torch.random.fork_rng(devices=self._devices):
            torch.set_rng_state(self._cpu)
            for device, state in zip(self._devices, self._cuda, strict=True):
                torch.cuda.set_rng_state(state, device)
            yield


def _autocast_state() -> dict[str, dict[str, Any]]:
    """Autocast of each device type as it stands: backward runs outside the context in which the forward ran."""
    return {
        device: {
            "enabled": torch.is_autocast_enabled(device),
            "dtype": torch.get_autocast_dtype(device),
            "cache_enabled": torch.is_autocast_cache_enabled(),
        }
        for device in (("cpu", "cuda") if torch.cuda.is_available() else ("cpu",))
    }


class _KeptOutputs:
    """Selective checkpointing: outputs of chosen operators, kept in the first run, handed out in the second."""

    def __init__(self, operators: Collection[Any]) -> None:
        self.operators = operators
        self.outputs: list[tuple[Tensor, int]] = []  # with the version each had when it was kept
        self.disguises: dict[int, tuple[Tensor, int]] = {}  # the same memory under another version counter

    def recording(self) -> Any:
        return _Recorder(self) if self.operators else nullcontext()

    def replaying(self) -> Any:
        return _Replayer(self) if self.operators else nullcontext()

    def disguised(self, view: Tensor) -> None:
        """Watch the other face of what was kept last.

        A product of three dimensions comes as a matrix and is handed on by `_unsafe_view`, which counts versions anew:
        a change in place of what the block sees would not show in what was kept.
        """
        if self.outputs and self.outputs[-1][0].untyped_storage()._cdata == view.untyped_storage()._cdata:
            self.disguises[len(self.outputs) - 1] = _alias(view), view._version


class _Recorder(TorchDispatchMode):
    def __init__(self, kept: _KeptOutputs) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._kept = kept

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = operator(*args, **(kwargs or {}))
        if operator in self._kept.operators:
            self._kept.outputs.append((_alias(output), output._version))
        elif operator is torch.ops.aten._unsafe_view.default:
            self._kept.disguised(output)
        return output


class _Replayer(TorchDispatchMode):
    def __init__(self, kept: _KeptOutputs) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._kept, self._next = kept, 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator not in self._kept.operators:
            return operator(*args, **(kwargs or {}))
        if self._next == len(self._kept.outputs):
            raise CheckpointError(f"the second run calls {operator} more often than the first")
        output, version = self._kept.outputs[self._next]
        disguise, seen = self._kept.disguises.get(self._next, (output, output._version))
        self._next += 1
        if output._version != version:
            raise CheckpointError(f"an output of {operator} was kept and then changed in place")
        if disguise._version != seen:
            raise CheckpointError(f"an output of {operator} was kept and then changed in place, in another shape")
        return _alias(output)


def _alias(output: Tensor) -> Tensor:
    """The same memory and version counter without the graph that will hang on `output`."""
    guard = torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.ADInplaceOrView, False)
    with guard:  # below autograd a detached alias would otherwise count its in-place changes on its own
        return output.detach()


def checkpoint_reentrant(block: Callable[..., Tensor], *inputs: Tensor, preserve_rng: bool = True) -> Tensor:
    """The older form: the block runs without a graph, and its node's backward builds the graph and walks it.

    The node hangs on the inputs alone. If none of them needs a gradient there is no node, and the block's parameters
    would stay without gradients in silence: that raises CheckpointError here.
    """
    if torch.is_grad_enabled() and not any(value.requires_grad for value in inputs):
        raise CheckpointError(
            "no input of the block needs a gradient, so its parameters would get none: "
            "call requires_grad_() on an input, or use the non-reentrant form"
        )
    output: Tensor = _Reentrant.apply(block, preserve_rng, *inputs)  # type: ignore[no-untyped-call]
    return output


class _Reentrant(torch.autograd.Function):
    """One node for a whole block."""

    @staticmethod
    def forward(ctx: Any, block: Callable[..., Tensor], preserve_rng: bool, *inputs: Tensor) -> Tensor:
        ctx.block, ctx.autocast = block, _autocast_state()
        ctx.random = _RandomState(inputs) if preserve_rng else None
        ctx.save_for_backward(*inputs)
        return block(*inputs)  # a Function's forward builds no graph

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        leaves = [
            value.detach().requires_grad_(needs)
            for value, needs in zip(ctx.saved_tensors, ctx.needs_input_grad[2:], strict=True)
        ]
        with ExitStack() as surroundings:
            surroundings.enter_context(ctx.random.restored() if ctx.random else nullcontext())
            for device, settings in ctx.autocast.items():
                surroundings.enter_context(torch.autocast(device, **settings))
            surroundings.enter_context(torch.enable_grad())
            output = ctx.block(*leaves)
        torch.autograd.backward(output, grad)  # parameters accumulate into their .grad from in here
        return None, None, *(leaf.grad for leaf in leaves)

"""Builds a step whose saved tensors are offloaded in the candidate's way, and counts what travelled."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from torch import Tensor
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

from experiments.evidence.vocabulary import JsonValue
from experiments.kinds.training_step.answers import Notes
from experiments.kinds.training_step.mechanism_of import plain
from experiments.kinds.training_step.program import TrainingStep
from experiments.kinds.training_step.worker import WorkerContext
from experiments.mechanisms.checkpoint import checkpoint
from experiments.mechanisms.offload import Offload
from experiments.training_mechanism.shared.checkpointed_layers import wrap
from tools.environments.errors import LabError

PROBES: dict[str, Callable[[WorkerContext], Mapping[str, JsonValue]]] = {}
PEER_FILE = "activation_offloading.py"


class OffloadedStep(TrainingStep):
    """The training step, able to say how many bytes its last step moved, both ways together."""

    moved: Callable[[], int] = staticmethod(lambda: 0)
    peer: str | None = None

    def notes(self) -> Notes:
        """Bytes between card and host in one step, and the peer's version where one took part."""
        return Notes(peer=self.peer or None, transferred_bytes=self.moved() or None)


def build(context: WorkerContext) -> OffloadedStep:
    """The training step with the candidate's saved tensors offloaded. Raises LabError for a peer that is not there."""
    settings = context.spec.settings
    model = context.model()
    if settings["checkpoint"] == "all":
        wrap(model, lambda number: True, _recomputed)
    saving, moved = _saving(context, list(model.network.parameters()))
    mechanism = plain(context)
    if saving is not None:
        mechanism = replace(mechanism, forward_context=saving)
    step = OffloadedStep(model, context.batch(), context.optimizer(model.network.parameters()), mechanism)
    step.moved = moved
    if settings.get("form") == "trl":
        step.peer = _peer_name(context)
    return step


def _recomputed(block: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    out: Tensor = checkpoint(block, x)
    return out


Saving = Callable[[], AbstractContextManager[object]]


def _saving(context: WorkerContext, parameters: list[Tensor]) -> tuple[Saving | None, Callable[[], int]]:
    """The context around the forward, and a question for the bytes its last use has moved."""
    settings = context.spec.settings
    if settings.get("form") == "save_on_cpu":
        counted = _Counted(settings["pinned"] is True)
        return counted.saving, lambda: counted.bytes
    if settings.get("form") == "trl":
        peer = _peer(context)
        return (lambda: peer.OffloadActivations(use_pin_memory=True, use_streams=True)), lambda: 0
    if settings["offload"] == "none":
        return None, lambda: 0
    offload = Offload(parameters, context.device.torch_device, in_flight_bytes=int(str(settings["in_flight_bytes"])))
    return offload.saving, lambda: offload.traffic.out_bytes + offload.traffic.back_bytes


class _Counted:
    """PyTorch's own save_on_cpu with its hooks counted: every tensor saved travels out once and back once."""

    def __init__(self, pinned: bool) -> None:
        self._hooks = save_on_cpu(pin_memory=pinned)
        self.bytes = 0

    def saving(self) -> AbstractContextManager[object]:
        """The hooks of one forward; counting starts anew."""
        self.bytes = 0

        def pack(tensor: Tensor) -> object:
            self.bytes += 2 * tensor.numel() * tensor.element_size()
            return self._hooks.pack_hook(tensor)

        return saved_tensors_hooks(pack, self._hooks.unpack_hook)


def _peer_path(context: WorkerContext) -> Path:
    path = context.peer_path or Path()
    file = path / PEER_FILE if path.is_dir() else path
    if not file.is_file():
        raise LabError(
            wanted=f"TRL's {PEER_FILE}, or the folder it lies in",
            found=f"no such file: {file.name}",
            next="unpack a trl wheel outside this environment and give --peer-path .../trl/models",
            where="--peer-path",
        )
    return file


def _peer(context: WorkerContext) -> ModuleType:
    """The peer's one module, loaded from its file: the package itself never enters this environment."""
    file = _peer_path(context)
    found = importlib.util.spec_from_file_location("peer_activation_offloading", file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


def _peer_name(context: WorkerContext) -> str:
    """Its version from the wheel's metadata beside it, else a digest of the file."""
    import hashlib

    file = _peer_path(context)
    for folder in (file.parent, *file.parents[:3]):
        for metadata in sorted(folder.glob("trl-*.dist-info")):
            return metadata.name.removesuffix(".dist-info").replace("-", " ")
    return "trl, file sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()[:12]

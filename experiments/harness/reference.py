"""Tensors on disk, so that processes that never met can be compared entry by entry.

What a reference or the baseline computed (gradients, moved weights, an output) is written once per run as flat files.
What is large is read back a slice at a time through one buffer, pinned where a card is: exact, never a second copy of
the model on the device, and as fast as the page cache (a memory map would fault in every page of every file in every
process). A single output is read whole.
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import torch
from torch import Tensor

from experiments.harness.tensor_errors import Errors

SLICE = 2**24  # entries compared at a time: bounds the device memory a comparison takes
# Called with the name, a slice of the tensor as it was given (scaled), and the same slice of the reference.
Look = Callable[[str, Tensor, Tensor], None]


def write(folder: Path, tensors: Mapping[str, Tensor], dtype: torch.dtype, scale: float = 1.0) -> None:
    """Write tensors, divided by `scale`, as flat files in `folder`. Raises OSError, with its errno.

    `index.json` comes last, and gets its name when it is whole: a folder without it is not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.json").unlink(missing_ok=True)
    index: dict[str, object] = {}
    for number, (name, tensor) in enumerate(tensors.items()):
        flat = tensor.detach().to(device="cpu", dtype=dtype).contiguous().view(-1)
        if scale != 1.0:
            flat = flat / scale
        # not ndarray.tofile: on a full disk it raises an OSError that says how much was written and has no errno
        with (folder / f"{number}.bin").open("wb", buffering=0) as stream:
            _write_all(stream, flat)
        index[name] = {"file": f"{number}.bin", "shape": list(tensor.shape)}
    text = json.dumps({"dtype": str(dtype).removeprefix("torch."), "tensors": index})
    half = folder / "index.half"
    half.write_text(text, encoding="utf-8")
    half.replace(folder / "index.json")


def _write_all(stream: FileIO, flat: Tensor) -> None:
    """All of a flat tensor. A short write is followed by another, which then says why it was short."""
    view = flat.numpy().data.cast("B") if flat.numel() else memoryview(b"")  # an empty view cannot be cast
    while view:
        written = stream.write(view)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view = view[written:]


def is_whole(folder: Path) -> bool:
    """Whether a reference was written to its end."""
    return (folder / "index.json").is_file()


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor on disk."""

    file: Path
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def entries(self) -> int:
        """How many numbers it is."""
        return math.prod(self.shape)

    def slices(self, device: torch.device, buffer: Tensor) -> Iterator[Tensor]:
        """The flat tensor on `device`, as many entries at a time as `buffer` (of its dtype, on the host) holds.

        Raises OSError, or ValueError where the file is shorter than the index says.
        """
        with self.file.open("rb", buffering=0) as stream:
            for begin in range(0, self.entries, buffer.numel()):
                part = buffer[: min(buffer.numel(), self.entries - begin)]
                view = part.numpy().data.cast("B")
                while view:
                    read = stream.readinto(view)
                    if not read:
                        raise ValueError(f"{self.file.name} ends early")
                    view = view[read:]
                yield part.to(device, copy=True)  # waits: the buffer is read into again


def each(folder: Path) -> tuple[torch.dtype, dict[str, Stored]]:
    """The dtype, and each tensor by name. Raises OSError or ValueError for a broken folder."""
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    dtype: torch.dtype = getattr(torch, index["dtype"])
    return dtype, {
        name: Stored(folder / str(entry["file"]), tuple(int(side) for side in entry["shape"]), dtype)
        for name, entry in index["tensors"].items()
    }


def read(folder: Path, name: str, shape: Sequence[int]) -> Tensor:
    """One tensor, whole, on the CPU. Raises OSError, or ValueError where it is not there whole, or of another shape."""
    stored = each(folder)[1].get(name)
    if stored is None or stored.shape != tuple(shape):
        found = "none" if stored is None else f"shape {list(stored.shape)}"
        raise ValueError(f"{folder.name}: {name} of shape {list(shape)} is wanted, found {found}")
    buffer = torch.empty(max(1, stored.entries), dtype=stored.dtype)
    parts = list(stored.slices(torch.device("cpu"), buffer))
    return (parts[0] if parts else buffer[:0]).view(tuple(shape))


def errors(
    found: Mapping[str, Tensor], folder: Path, device: torch.device, scale: float = 1.0, look: Look | None = None
) -> Errors:
    """Compare tensors, divided by `scale`, with a reference: ||found - reference|| / ||reference||, summed in float64.

    The sums run on `device`, a slice at a time, and `look` sees each slice. A tensor that is missing among `found`
    counts as zero.
    """
    dtype, references = each(folder)
    buffer = torch.empty(SLICE, dtype=dtype, pin_memory=device.type == "cuda")
    apart, norm = 0.0, 0.0
    worst: tuple[float, str] | None = None
    bad: list[str] = []
    for name, stored in references.items():
        square, base = _squares(name, found.get(name), stored.slices(device, buffer), device, scale, look)
        if not math.isfinite(square):
            bad.append(name)
            continue
        apart, norm = apart + square, norm + base
        if base > 0 and (worst is None or square / base > worst[0]):
            worst = (square / base, name)
    overall = None if bad or norm == 0 else math.sqrt(apart / norm)
    return Errors(
        overall=overall,
        worst=None if bad or worst is None else math.sqrt(worst[0]),
        worst_name=bad[0] if bad else (worst[1] if worst else ""),
        tensors=len(references),
        not_finite=tuple(bad),
        reference_norm=math.sqrt(norm),
    )


def _squares(
    name: str, mine: Tensor | None, reference: Iterator[Tensor], device: torch.device, scale: float, look: Look | None
) -> tuple[float, float]:
    """Squared norms of the difference and of the reference, over one tensor."""
    flat = None if mine is None else mine.detach().reshape(-1)
    apart = torch.zeros((), dtype=torch.float64, device=device)
    norm = torch.zeros((), dtype=torch.float64, device=device)
    begin = 0
    for there in reference:
        wanted = there.double()
        norm += wanted.square().sum()
        if flat is None:
            apart += wanted.square().sum()
            continue
        here = flat[begin : begin + there.numel()].to(device)
        begin += there.numel()
        apart += here.double().div_(scale).sub_(wanted).square_().sum()
        if look is not None:
            look(name, here, there)
    return float(apart), float(norm)

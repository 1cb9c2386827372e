"""What a safetensors file says about itself: names, types, shapes, and whether all its bytes are there.

The format (huggingface.co/docs/safetensors): 8 bytes length, a JSON header of that length, then the tensors at the
offsets the header gives. Reading the header needs no torch, and shows a file cut short before anything loads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from tools.environments.errors import LabError

LENGTH_BYTES = 8
HEADER_LIMIT = 100_000_000  # bytes; the format's own limit
FLOATS = ("F64", "F32", "BF16", "F16")  # narrower types mean nothing without scales, which nothing here reads


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a file: its type word ("F32", "BF16") and shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


def read(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a file. Raises LabError for one that is cut short, too long, no safetensors, or not of floats."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        if not 2 <= length <= min(size - LENGTH_BYTES, HEADER_LIMIT):
            raise _broken(path, f"{size} bytes that hold no header")
        text = stream.read(length)
    try:
        header = json.loads(text)
        tensors = {name: _tensor(entry) for name, entry in header.items() if name != "__metadata__"}
        end = max((_end(entry) for name, entry in header.items() if name != "__metadata__"), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _broken(path, "a header that cannot be read") from error
    expected = LENGTH_BYTES + length + end
    if expected != size:
        raise _broken(path, f"{size} bytes where its header speaks of {expected}")
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS:
            raise LabError(
                wanted=f"{path.name}: weights in {', '.join(FLOATS)}",
                found=f"{ascii(name)[:60]} in {ascii(tensor.dtype)[:20]}",
                next="use the model's weights as they were before they were quantised",
                where=path.name,
            )
    return tensors


def read_all(paths: Iterable[Path]) -> dict[str, StoredTensor]:
    """The tensors of all files of a model together. Raises LabError as `read` does."""
    found: dict[str, StoredTensor] = {}
    for path in paths:
        found.update(read(path))
    return found


def count(tensors: Mapping[str, StoredTensor], *, tied: bool) -> int:
    """Parameters in the files, a loss head that is `tied` to the embedding not counted twice."""
    return sum(tensor.elements for name, tensor in tensors.items() if not (tied and name == "lm_head.weight"))


def _tensor(entry: Mapping[str, object]) -> StoredTensor:
    shape, dtype = entry["shape"], entry["dtype"]
    if not isinstance(dtype, str) or not isinstance(shape, list):
        raise TypeError("dtype is a word and shape a list")
    if not all(isinstance(width, int) and width >= 0 for width in shape):
        raise ValueError("a width is a whole number")
    return StoredTensor(dtype=dtype, shape=tuple(shape))


def _end(entry: Mapping[str, object]) -> int:
    offsets = entry["data_offsets"]
    if not isinstance(offsets, list) or not all(isinstance(offset, int) for offset in offsets):
        raise TypeError("data_offsets are two whole numbers")
    return int(offsets[1])


def _broken(path: Path, found: str) -> LabError:
    return LabError(
        wanted=f"{path.name}: a whole safetensors file",
        found=found,
        next="copy or download the file again",
        where=path.name,
    )

"""One output on disk, so that processes that never met can be compared entry by entry: flat float64, which is exact."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import torch
from torch import Tensor


def write(out: Tensor, path: Path) -> None:
    """Write an output. It gets its name when it is whole. Raises OSError, with its errno."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".half")
    view = out.detach().to(device="cpu", dtype=torch.float64).contiguous().view(-1).numpy().data.cast("B")
    with half.open("wb", buffering=0) as stream:
        while view:  # a short write is followed by another, which then says why it was short
            written = stream.write(view)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            view = view[written:]
    half.replace(path)


def read(path: Path, shape: torch.Size) -> Tensor:
    """The output [rows, out_features] in float64, on the CPU. Raises OSError, or ValueError for one of another size."""
    held = bytearray(path.read_bytes())
    if len(held) != 8 * shape.numel():
        raise ValueError(f"{path.name} has {len(held)} bytes, an output of shape {list(shape)} {8 * shape.numel()}")
    return torch.frombuffer(held, dtype=torch.float64).view(shape)


def is_whole(path: Path) -> bool:
    """Whether an output was written to its end."""
    return path.is_file()

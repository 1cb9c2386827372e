"""Decoder layers compiled by torch.compile, one program for all of them."""

from __future__ import annotations

import os
import shutil
from typing import Any

from experiments.harness.experiment import DeviceKind
from experiments.models.causal_lm import CausalLanguageModel
from tools.environments.errors import LabError

COMPILERS = ("cc", "gcc", "clang")


class CompilerMissingError(LabError):
    """torch.compile has nothing to compile with."""


def compile_layers(model: CausalLanguageModel, device: DeviceKind) -> None:
    """Every decoder layer runs compiled from its next call on. Layers are alike, so only the first is compiled anew.

    Whole models compile for minutes, and this happens in every fresh process. Raises LabError without a compiler.
    """
    require_compiler(device)
    layers: Any = model.decoder.layers
    for layer in layers:
        layer.compile(dynamic=False)


def require_compiler(device: DeviceKind) -> None:
    """Inductor writes Triton kernels for a card, C++ for a CPU; both want a C compiler. Raises LabError without."""
    if device == "cuda":
        from torch.utils._triton import has_triton

        if not has_triton():
            raise CompilerMissingError(
                wanted="Triton, in which torch.compile writes its kernels, on a card that it supports",
                found="no Triton that works here",
                next="install the profile's own torch wheel, which brings it (compute capability 7.0 or more)",
                where="torch.compile",
            )
    if not any(shutil.which(name) for name in (os.environ.get("CC", ""), *COMPILERS) if name):
        raise CompilerMissingError(
            wanted="a C compiler: torch.compile and Triton build their launchers with it",
            found=f"none of {', '.join(COMPILERS)} on PATH",
            next="install one (apt install gcc), or set CC to it",
            where="torch.compile",
        )

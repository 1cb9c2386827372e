"""The ten pages by id, title and place in the tutorial, readable without torch; the checks load only when asked for."""

from __future__ import annotations

import difflib
import importlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.conformance.page import Mutant
from tools.environments.errors import EXIT_USAGE, LabError

if TYPE_CHECKING:
    from experiments.conformance.page import Page


@dataclass(frozen=True, slots=True)
class Entry:
    """A page before it is loaded. `part` is its place in the tutorial where it has a number of its own."""

    id: str
    title: str
    title_zh: str
    part: str | None = None


ENTRIES = (
    Entry("autograd", "Autograd and the computational graph", "自动求导与计算图"),
    Entry("activations", "Activation and loss backward", "激活函数与损失的反向"),
    Entry("cross_entropy", "Causal-LM cross-entropy", "因果语言模型交叉熵"),
    Entry("attention", "Attention backward", "注意力反向"),
    Entry("norm_rope", "RMSNorm and RoPE backward", "RMSNorm 与 RoPE 反向"),
    Entry("gradient_accumulation", "Gradient accumulation", "梯度累积", "Part 02 · 11"),
    Entry("mixed_precision_backward", "Mixed-precision backward and the gradient scaler", "混合精度反向与梯度缩放"),
    Entry("activation_checkpointing", "Activation checkpointing", "激活检查点", "Part 02 · 19"),
    Entry("activation_offload", "Activation offload", "激活卸载", "Part 02 · 42"),
    Entry("optimizer", "AdamW, clipping and schedules", "AdamW、裁剪与学习率计划"),
)

IDS = tuple(entry.id for entry in ENTRIES)


def find(page: str) -> Entry:
    """The entry of one page id. Raises LabError (usage) that offers the nearest ids."""
    for entry in ENTRIES:
        if entry.id == page:
            return entry
    near = difflib.get_close_matches(page, IDS, n=3, cutoff=0.4) or list(IDS)
    raise LabError("a conformance page", repr(page)[:60], f"--page {' | '.join(near)}", "--page", EXIT_USAGE)


def mutants(page: str) -> tuple[Mutant, ...]:
    """The faults of one page, from mutants/PAGE.toml: a table per fault, its name the table's."""
    text = (Path(__file__).parent / "mutants" / f"{find(page).id}.toml").read_text(encoding="utf-8")
    return tuple(Mutant(name=name, **fields) for name, fields in tomllib.loads(text).items())


def load(page: str) -> Page:
    """The page's checks and mutants; this imports torch."""
    module = importlib.import_module(f"experiments.training_mechanism.conformance.{find(page).id}")
    loaded: Page = module.PAGE
    return loaded

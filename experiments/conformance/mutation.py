"""Turns a mutant from data into code: the mechanism's source with one replacement, compiled into a module of its own.

The real module is never touched, and nothing has to be put back. A mutant whose text no longer stands exactly once in
the source is an error of the matrix, not a survivor: the source moved on and the fault has to be stated anew.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from experiments.conformance.page import Mutant, Page

PACKAGE = "experiments.mechanisms"


def originals(page: Page) -> dict[str, ModuleType]:
    """The real mechanism modules of a page, by their short names."""
    return {name: importlib.import_module(f"{PACKAGE}.{name}") for name in page.modules}


def source(module: str) -> str:
    """The text of the module experiments.mechanisms.MODULE."""
    return file_of(module).read_text(encoding="utf-8")


def file_of(module: str) -> Path:
    """Where the module experiments.mechanisms.MODULE lies. Raises LookupError for one that is not there."""
    try:
        spec = importlib.util.find_spec(f"{PACKAGE}.{module}")
    except ModuleNotFoundError:  # the folder of `folder.module`
        spec = None
    if spec is None or spec.origin is None:
        raise LookupError(f"no mechanism module {module!r}")
    return Path(spec.origin)


def mutate(text: str, mutant: Mutant) -> str:
    """`text` with the fault in it. Raises LookupError unless the text to replace stands there exactly once."""
    count = text.count(mutant.old)
    if count != 1:
        raise LookupError(f"mutant {mutant.name!r}: its text stands {count} times in {mutant.module}, not once")
    return text.replace(mutant.old, mutant.new)


def build(mutant: Mutant) -> ModuleType:
    """The mutated module, compiled and executed under a name of its own."""
    return compiled(mutate(source(mutant.module), mutant), f"{PACKAGE}.{mutant.module}__{mutant.name}")


def compiled(text: str, name: str) -> ModuleType:
    """A module made of source text."""
    module = ModuleType(name)
    sys.modules[name] = module  # dataclasses look their own module up while they are made
    try:
        exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    finally:
        del sys.modules[name]
    return module


def with_mutant(modules: Mapping[str, ModuleType], mutant: Mutant) -> dict[str, ModuleType]:
    """The page's modules with the mutated one in its place."""
    return {**modules, mutant.module: build(mutant)}

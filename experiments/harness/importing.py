"""Imports of large frameworks, without the collector going over what they make.

torch and transformers make some hundred thousand objects that live as long as the process. Python's cyclic collector
looks at them again and again while they are made, a sixth of the time that importing takes, and finds nothing to free.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No collection inside the block; afterwards as it was, also where the block raises."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()

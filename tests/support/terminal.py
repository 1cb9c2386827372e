"""A terminal of one's own, on machines that have one to give: a container without devpts has none."""

from __future__ import annotations

import contextlib
import os
import pty
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def pair() -> Iterator[tuple[int, int]]:
    """Our end and theirs, closed at the end. Skips the test where no terminal is to be had, and says why."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminal to be had here: {error}")
    try:
        yield ours, theirs
    finally:
        for end in (ours, theirs):
            with contextlib.suppress(OSError):  # closed already, so that reading comes to its end
                os.close(end)

"""The command line in a child process, its events told line by line.

A run forks a process per measurement, and its parent may never have touched CUDA. A notebook's kernel is no such
parent: it has threads, and its reader may have asked torch for the card. So a page starts what a terminal would start,
with the kernel's own interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.evidence import labels
from tools.environments.errors import EXIT_INTERRUPTED, EXIT_OK
from tools.environments.layout import ROOT

Hear = Callable[[dict[str, Any]], None]
HEARD_S = 5.0  # a run that heard the interrupt has ended its measuring processes by then, and left its interpreter
PATIENCE_S = 20.0  # one that had to be told has ended by then


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command ended: its exit code, and what it wrote to standard error (findings)."""

    code: int
    errors: str


def experiments(arguments: Sequence[str], hear: Hear) -> Ended:
    """Run `python -m experiments ARGUMENTS` from the repository root; every JSON line it prints goes to `hear`.

    An interrupt of the kernel becomes one of the run: it keeps what is finished, and `code` is 130 however it ended.
    """
    command = [sys.executable, "-m", "experiments", *arguments]
    environment = {**os.environ, labels.RUNS_VARIABLE: str(labels.runs_folder().resolve())}
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
        ) as child,
    ):
        assert child.stdout is not None
        try:
            for line in child.stdout:
                hear(json.loads(line))
            code = child.wait()
        except KeyboardInterrupt:
            code = _end(child)
        errors.seek(0)
        return Ended(code, errors.read().strip())


def _end(child: subprocess.Popen[str]) -> int:
    """Jupyter interrupts a kernel's whole process group; where only the kernel heard it, the child is told here."""
    for tell, patience in ((None, HEARD_S), (child.terminate, PATIENCE_S), (child.kill, None)):
        if tell is not None:
            tell()
        try:
            ended = child.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            continue
        return EXIT_OK if ended == EXIT_OK else EXIT_INTERRUPTED
    return EXIT_INTERRUPTED

"""One call in a fork of its own while this process goes on with another: a preflight beside the import of torch.

A fork and no thread: what is begun here imports, waits and starts children, and must not meet a half-done import.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from tools.environments.errors import LabError

T = TypeVar("T")
PATIENCE_S = 10.0  # for what was interrupted to end its own children


class Aside(Generic[T]):
    """`with Aside(call) as begun: ...; begun.result()`. What it still does when the block is left is interrupted."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._answer, answering = multiprocessing.Pipe(duplex=False)

        def work() -> None:
            try:
                said: tuple[bool, T | LabError] = (True, call())
            except LabError as error:
                said = (False, error)
            except KeyboardInterrupt:
                return
            answering.send(said)

        self._process = multiprocessing.get_context("fork").Process(target=work, daemon=False)
        with warnings.catch_warnings():
            # Python 3.12 warns of threads at fork. Imported libraries keep idle ones; no lock of ours is held here.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        answering.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, signal.SIGINT)
            self._process.join(PATIENCE_S)
            self._process.kill()
        self._process.join()
        self._answer.close()

    def result(self) -> T:
        """What the call returned; waits for it. Raises its LabError, and one where it came to no end of its own."""
        try:
            held, value = self._answer.recv()
        except EOFError:
            self._process.join()
            raise LabError(
                wanted="an answer of the process that looks at this machine",
                found=f"it ended with {self._process.exitcode}",
                next="try again; if it ends so twice: python tools/environment_preflight.py",
                where="preflight",
            ) from None
        self._process.join()
        if not held:
            raise value
        result: T = value
        return result

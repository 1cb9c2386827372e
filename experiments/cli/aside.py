"""One call in a fork of its own while this process goes on with another: a preflight beside the import of torch.

A fork and no thread: what is begun here imports, waits and starts children, and must not meet a half-done import.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import wait
from types import TracebackType
from typing import Generic, Self, TypeVar

from experiments.harness.process_group import ProcessGroup
from tools.environments.errors import LabError

T = TypeVar("T")
PATIENCE_S = 10.0  # for what was interrupted to clean up


class Aside(Generic[T]):
    """`with Aside(call) as begun: ...; begun.result()`. What it still does when the block is left is interrupted."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._answer, self._answering = multiprocessing.Pipe(duplex=False)
        self._group = ProcessGroup()
        self._left = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as left, self._answering:
            left.enter_context(self._answer)
            left.enter_context(self._group)
            self._member = self._group.start(self._work)
            left.callback(self._group.interrupt, self._member, PATIENCE_S)
            self._left = left.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.close()

    def result(self) -> T:
        """What the call returned; waits for it. Raises its LabError, and one where it came to no end of its own."""
        try:
            if self._answer not in wait([self._answer, *self._member.watched]):
                raise EOFError  # it is dead, and something it has forked holds the pipe
            held, value = self._answer.recv()
        except EOFError:
            raise LabError(
                wanted="an answer of the process that looks at this machine",
                found=f"it ended with {self._group.wait(self._member)}",
                next="try again; if it ends so twice: python tools/environment_preflight.py",
                where="preflight",
            ) from None
        self._group.wait(self._member)
        if not held:
            raise value
        result: T = value
        return result

    def _work(self) -> int:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # an interrupted preflight removes its folders
        self._answer.close()
        try:
            said: tuple[bool, T | LabError] = (True, self._call())
        except LabError as error:
            said = (False, error)
        self._answering.send(said)
        return 0

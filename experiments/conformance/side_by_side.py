"""Pages in forks of their own, as many at a time as there are cores.

What hypothesis draws under a seed depends on the modules that are loaded, so a page that ran behind others would draw
other cases than by itself. A fork of a process that has imported the frameworks and run no page finds the same in any
order and on any number of cores. The frameworks were not used before it, so no thread of theirs is lost in it.
"""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from experiments.conformance.results import PageResult
from tools.environments.errors import LabError

Run = Callable[[str], PageResult]


@dataclass(frozen=True, slots=True)
class _Helper:
    page: str
    process: ForkProcess
    answer: Connection


def run(pages: Sequence[str], one: Run, at_once: int, done: Callable[[PageResult], object]) -> list[PageResult]:
    """`one(page)` for each page, in their order; `done` is told each as soon as all before it are finished.

    LabError where `one` raised it, or a fork ended without a result; what else it raised is shown by the fork itself.
    """
    waiting = list(reversed(pages))
    running: dict[Connection, _Helper] = {}
    found: dict[str, PageResult] = {}
    told = 0
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                helper = _start(waiting.pop(), one)
                running[helper.answer] = helper
            for answer in (ready for ready in wait([*running]) if isinstance(ready, Connection)):
                helper = running[answer]
                found[helper.page] = _result(helper)
                del running[answer]
            while told < len(pages) and pages[told] in found:
                done(found[pages[told]])
                told += 1
    finally:
        for helper in running.values():
            helper.process.kill()
            helper.process.join()
    return [found[page] for page in pages]


def _start(page: str, one: Run) -> _Helper:
    answer, answering = multiprocessing.Pipe(duplex=False)

    def work() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
        answer.close()
        try:
            answering.send(one(page))
        except LabError as error:  # a page that is broken: the parent says so
            answering.send(error)

    process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    with warnings.catch_warnings():
        # Python 3.12 warns of threads at fork. Imported libraries keep idle ones; no lock of ours is held here.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    answering.close()
    return _Helper(page, process, answer)


def _result(helper: _Helper) -> PageResult:
    try:
        result: PageResult | LabError = helper.answer.recv()
    except EOFError:
        helper.process.join()
        raise LabError(
            wanted="a page that comes to an end",
            found=f"its process ended with {helper.process.exitcode} and without a result",
            next=f"run it by itself: python tools/test_framework_conformance.py --page {helper.page} --try-here",
            where=helper.page,
        ) from None
    helper.process.join()
    helper.answer.close()
    if isinstance(result, LabError):
        raise result
    return result

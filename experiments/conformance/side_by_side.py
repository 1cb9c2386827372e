"""Pages in forks of their own, as many at a time as there are cores.

What hypothesis draws under a seed depends on the modules that are loaded, so a page that ran behind others would draw
other cases than by itself. A fork of a process that has imported the frameworks and run no page finds the same in any
order and on any number of cores. The frameworks were not used before it, so no thread of theirs is lost in it.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

from experiments.conformance.check_results import PageResult
from experiments.harness.process_group import Member, ProcessGroup
from tools.environments.errors import LabError

Run = Callable[[str], PageResult]


@dataclass(frozen=True, slots=True)
class _Helper:
    page: str
    process: Member
    answer: Connection

    def has_ended(self, ready: Sequence[object]) -> bool:
        """Whether its answer, or word of its death, is among what is ready."""
        return self.answer in ready or any(one in ready for one in self.process.watched)


def run(
    pages: Sequence[str],
    one: Run,
    at_once: int,
    done: Callable[[PageResult], object],
    meanwhile: Callable[[], object] = lambda: None,
) -> list[PageResult]:
    """`one(page)` for each page, in their order; `done` is told each as soon as all before it are finished.

    `meanwhile` is called once behind the start of the first page: what it imports, the later ones find imported.
    LabError where `one` raised it, or a fork ended without a result; what else it raised is shown by the fork itself.
    """
    waiting = list(reversed(pages))
    running: list[_Helper] = []
    found: dict[str, PageResult] = {}
    told = 0
    with ProcessGroup() as group:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_start(group, waiting.pop(), one))
                if running[-1].page == pages[0]:
                    meanwhile()
            deaths = [death for helper in running for death in helper.process.watched]
            ready = wait([*(helper.answer for helper in running), *deaths])
            for helper in [helper for helper in running if helper.has_ended(ready)]:
                found[helper.page] = _result(group, helper)
                running.remove(helper)
            while told < len(pages) and pages[told] in found:
                done(found[pages[told]])
                told += 1
    return [found[page] for page in pages]


def _start(group: ProcessGroup, page: str, one: Run) -> _Helper:
    answer, answering = multiprocessing.Pipe(duplex=False)

    def work() -> int:
        answer.close()
        try:
            answering.send(one(page))
        except LabError as error:  # a page that is broken: the parent says so
            answering.send(error)
        return 0

    with answering:
        return _Helper(page, group.start(work), answer)


def _result(group: ProcessGroup, helper: _Helper) -> PageResult:
    try:
        if not helper.answer.poll():
            raise EOFError  # it is dead, and something it has forked holds the pipe
        result: PageResult | LabError = helper.answer.recv()
    except EOFError:
        raise LabError(
            wanted="a page that comes to an end",
            found=f"its process ended with {group.wait(helper.process)} and without a result",
            next=f"run it by itself: python tools/test_framework_conformance.py --page {helper.page} --try-here",
            where=helper.page,
        ) from None
    finally:
        helper.answer.close()
    group.wait(helper.process)
    if isinstance(result, LabError):
        raise result
    return result

"""Pages in forks of their own: the same results however many run at once, in order, and a lost one is named."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from experiments.conformance import running, side_by_side
from experiments.conformance.results import PageResult, RunResult
from tools.environments.errors import LabError

PAGES = ("cross_entropy", "autograd", "attention")


def bare(result: RunResult) -> list[PageResult]:
    """The pages without what differs from run to run: seconds, and addresses in messages of faults."""
    return [
        replace(
            page,
            seconds=0.0,
            checks=tuple(replace(check, seconds=0.0) for check in page.checks),
            mutants=tuple(replace(mutant, seconds=0.0, how="") for mutant in page.mutants),
        )
        for page in result.pages
    ]


@pytest.mark.slow
def test_pages_find_the_same_in_any_company_and_are_told_in_order() -> None:
    frameworks = running.prepare({})
    told: list[str] = []
    two = running.run(PAGES, frameworks, seed=20, at_once=3, done=lambda page: told.append(page.page))
    assert told == list(PAGES)
    other_way = running.run(PAGES[::-1], frameworks, seed=20, at_once=1)
    assert bare(two) == bare(other_way)[::-1]
    assert sum(check.cases for page in two.pages for check in page.checks) > 0


def page_of(name: str) -> PageResult:
    return PageResult(name, (), (), {"process": str(os.getpid())})


def test_every_page_has_a_process_of_its_own() -> None:
    found = side_by_side.run(["a", "b", "c", "d"], page_of, 2, lambda page: None)
    processes = {page.versions["process"] for page in found}
    assert [page.page for page in found] == ["a", "b", "c", "d"]
    assert len(processes) == 4
    assert str(os.getpid()) not in processes


def test_a_page_whose_process_dies_is_named_and_the_others_are_ended(capfd: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()

    def one(page: str) -> PageResult:
        if page == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if page == "raises":
            raise ZeroDivisionError("a defect")
        os.write(writing, b"%d\n" % os.getpid())
        signal.pause()
        raise AssertionError

    for page, words in (("dies", "ended with -9"), ("raises", "ended with 1")):
        with pytest.raises(LabError, match=words) as lost:
            side_by_side.run(["waits", page], one, 2, lambda page: None)
        assert lost.value.where == page
        waited = int(os.read(reading, 20))
        with pytest.raises(ProcessLookupError):
            os.kill(waited, 0)
    assert "ZeroDivisionError: a defect" in capfd.readouterr().err

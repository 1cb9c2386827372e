"""Pages in forks of their own: the same results however many run at once, in order, and a lost one is named."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from experiments.conformance import running, side_by_side
from experiments.conformance.check_results import PageResult, RunResult
from tools.environments.errors import LabError

PAGES = ("cross_entropy", "gradient_accumulation")


def bare(result: RunResult) -> list[PageResult]:
    """The pages without what differs from run to run: seconds."""
    return [
        replace(page, seconds=0.0, checks=tuple(replace(check, seconds=0.0) for check in page.checks))
        for page in result.pages
    ]


def test_pages_find_the_same_in_any_company_and_are_told_in_order() -> None:
    frameworks = running.prepare("training_mechanism", {})
    told: list[str] = []
    two = running.run(PAGES, frameworks, seed=20, mutants=False, at_once=2, done=lambda page: told.append(page.page))
    assert told == list(PAGES)
    other_way = running.run(PAGES[::-1], frameworks, seed=20, mutants=False, at_once=1)
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


def test_what_is_wrong_with_a_page_is_told_by_the_run() -> None:
    broken = LabError("a page that imports and exposes PAGE", "ImportError", "look at it", "a/page", 7)

    def one(page: str) -> PageResult:
        raise broken

    with pytest.raises(LabError) as told:
        side_by_side.run(["broken", "other"], one, 1, lambda page: None)
    assert told.value.args == broken.args

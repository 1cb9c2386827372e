"""Runs pages: every check over drawn cases, then every mutant against the checks until one of them notices it.

Cases come from hypothesis under a fixed seed, so a run repeats itself. A failing check of the real mechanism is shrunk
to its simplest case; mutants are not shrunk, since that costs a hundred times the run and says nothing more. Few cases
show most mutants; one that they do not show is looked for in many, so that a seed does not decide who survives.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from experiments.conformance import catalogue, mutation, side_by_side
from experiments.conformance.check_results import CheckResult, MutantResult, PageResult, RunResult, Status
from experiments.conformance.comparison import Comparer, ComparisonLedger, MismatchError
from experiments.conformance.drawing import Case, HypothesisSource
from experiments.conformance.frameworks import Framework, survey
from experiments.conformance.page import Mutant, Page, PageCheck, Trial
from experiments.harness.importing import uncollected
from tools.environments.errors import LabError

FEW = 8  # cases of a check that is asked because it may notice a mutant
MANY = 400  # of the check that is there to notice it, and of all before it counts as a survivor
AHEAD = ("hypothesis.strategies", "torch._dynamo")  # and then those that the topic names
THREADS = 1  # pinned: the tensors are small, and one thread adds in one order


def prepare(topic: str, ranges: Mapping[str, str]) -> dict[str, Framework]:
    """Finds the frameworks that a topic's pages use, imports them, and pins torch's threads."""
    with uncollected():
        frameworks = survey(catalogue.find_topic(topic).frameworks, ranges)
        import torch

    torch.set_num_threads(THREADS)
    return frameworks


def named(frameworks: Mapping[str, Framework]) -> str:
    """`torch 2.13.0+cpu, transformers 5.24.0`; what cannot be used is left out."""
    return ", ".join(f"{one.name} {one.version}" for one in frameworks.values() if not one.missing)


def run(
    pages: Sequence[str],
    frameworks: Mapping[str, Framework],
    *,
    seed: int,
    mutants: bool = True,
    done: Callable[[PageResult], object] = lambda page: None,
    at_once: int = 1,
) -> RunResult:
    """All of `pages`, of one topic, `at_once` of them side by side; `done` is told each one in their order."""

    def one(page: str) -> PageResult:
        return run_page(catalogue.load(page), frameworks, seed=seed, mutants=mutants)

    if len(pages) == 1:
        results = [one(pages[0])]
        done(results[0])
    else:
        topic = catalogue.find_topic(catalogue.find(pages[0]).topic)
        ahead = functools.partial(_import_ahead, (*AHEAD, *topic.import_ahead))
        results = side_by_side.run(pages, one, at_once, done, ahead)
    return RunResult(tuple(results), versions(frameworks), seed)


def _import_ahead(names: Sequence[str]) -> None:
    """Import what most pages come to need, once here instead of in each one's fork. None of it has to be there."""
    with uncollected():
        for name in names:
            with contextlib.suppress(Exception):  # the page that needs it says what is wrong with it
                importlib.import_module(name)


def versions(frameworks: Mapping[str, Framework]) -> dict[str, str]:
    """Versions of the frameworks that can serve as oracles."""
    return {name: found.version for name, found in frameworks.items() if found.version and not found.missing}


def run_page(page: Page, frameworks: Mapping[str, Framework], *, seed: int, mutants: bool = True) -> PageResult:
    """All checks of `page`, then its mutants, unless the mechanism itself already failed a check."""
    started = time.perf_counter()
    modules = mutation.originals(page)
    checks = tuple(_run_check(check, modules, frameworks, seed) for check in page.checks)
    runnable = [check for check, result in zip(page.checks, checks, strict=True) if result.status != "skipped"]
    killed: tuple[MutantResult, ...] = ()
    if mutants and all(result.status != "failed" for result in checks):
        faults = catalogue.mutants(page.id)
        _refuse_unknown_checks(page, faults)
        killed = tuple(_run_mutants(faults, runnable, modules, seed))
    return PageResult(page.id, checks, killed, versions(frameworks), time.perf_counter() - started)


def _run_check(
    check: PageCheck, modules: Mapping[str, ModuleType], frameworks: Mapping[str, Framework], seed: int
) -> CheckResult:
    """One check of the real mechanism; skipped, with the reason, where a framework it needs cannot be used."""
    started = time.perf_counter()
    for name in check.needs:
        missing = frameworks[name].missing if name in frameworks else None
        if missing:
            return CheckResult(check.name, check.ours, check.theirs, "skipped", missing)
    ledger = ComparisonLedger()
    try:
        examples = explore(check, modules, ledger, seed=seed, examples=check.examples, shrink=True)
    except MismatchError as mismatch:
        return _result(check, "failed", str(mismatch), ledger, 0, started)
    except Exception as error:  # a framework that changed its interface is this page's finding, not a crash
        return _result(check, "failed", f"{type(error).__name__}: {_first_line(error)}", ledger, 0, started)
    if not ledger.comparisons:
        return _result(check, "failed", "compared nothing", ledger, examples, started)
    return _result(check, "passed", "", ledger, examples, started)


def _run_mutants(
    mutants: Sequence[Mutant], checks: list[PageCheck], modules: Mapping[str, ModuleType], seed: int
) -> Iterator[MutantResult]:
    for mutant in mutants:
        started = time.perf_counter()
        killer, how = _first_to_notice(_asked(mutant, checks), mutation.with_mutant(modules, mutant), seed)
        seconds = time.perf_counter() - started
        yield MutantResult(mutant.name, mutant.module, mutant.fault, killer, how, mutant.report, seconds)


def _refuse_unknown_checks(page: Page, faults: Sequence[Mutant]) -> None:
    names = [check.name for check in page.checks]
    for fault in faults:
        if fault.noticed_by is not None and fault.noticed_by not in names:
            raise LabError(
                wanted=f"the name of a check of {page.id}: {', '.join(names)}",
                found=f"noticed_by = {fault.noticed_by!r}",
                next="correct it in the page's mutants.toml",
                where=f"mutants.toml [{fault.name}]",
            )


def _asked(mutant: Mutant, checks: list[PageCheck]) -> list[tuple[PageCheck, int]]:
    """The checks as they are asked, each with how many cases it may draw: one without choices one.

    The named one first, then every other with few cases, and with many what these did not show.
    """
    named = [check for check in checks if check.name == mutant.noticed_by]
    others = [check for check in checks if check not in named]
    free = [check for check in others if check.examples > 1]
    return [
        *((check, MANY if check.examples > 1 else 1) for check in named),
        *((check, min(check.examples, FEW)) for check in others),
        *((check, MANY) for check in free),
    ]


def _first_to_notice(
    checks: list[tuple[PageCheck, int]], modules: Mapping[str, ModuleType], seed: int
) -> tuple[str | None, str]:
    """The first check that fails on the mutated modules, and its message; (None, "") for a survivor."""
    for check, examples in checks:
        try:
            explore(check, modules, ComparisonLedger(), seed=seed, examples=examples, shrink=False)
        except Exception as error:  # a mutant may also simply break: that is noticed too, and said
            return check.name, f"{type(error).__name__}: {_first_line(error)}"
    return None, ""


def explore(
    check: PageCheck,
    modules: Mapping[str, ModuleType],
    ledger: ComparisonLedger,
    *,
    seed: int,
    examples: int,
    shrink: bool,
) -> int:
    """Runs `check` on up to `examples` drawn cases under `seed`; returns how many ran. Raises what the check raises."""
    import hypothesis
    from hypothesis import HealthCheck, Phase, strategies

    ran = 0

    def one_case(data: Any) -> None:
        nonlocal ran
        ran += 1
        case = Case(HypothesisSource(data))
        check.run(Trial(modules, case, Comparer(check.ours, check.theirs, ledger, case)))

    phases = (Phase.explicit, Phase.generate, Phase.shrink) if shrink else (Phase.explicit, Phase.generate)
    configured: Callable[[Callable[..., None]], Callable[..., None]] = hypothesis.settings(
        max_examples=examples,
        phases=phases,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    hypothesis.seed(seed)(configured(hypothesis.given(strategies.data())(one_case)))()
    return ran


def _result(
    check: PageCheck, status: Status, reason: str, ledger: ComparisonLedger, cases: int, started: float
) -> CheckResult:
    return CheckResult(
        name=check.name,
        ours=check.ours,
        theirs=check.theirs,
        status=status,
        reason=reason,
        tolerance=ledger.tolerance,
        worst_error=ledger.worst_error,
        worst_share=ledger.worst_share,
        allowed=ledger.allowed,
        comparisons=ledger.comparisons,
        cases=cases,
        seconds=time.perf_counter() - started,
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:400] if lines else ""

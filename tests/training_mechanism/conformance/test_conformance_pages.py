"""The ten pages as the gate runs them: every check passes, and every fault is noticed, mostly by a value."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from stages import count, few

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from experiments.conformance import catalogue, mutation, running
from experiments.conformance.check_results import PageResult
from experiments.conformance.comparison import ComparisonLedger, MismatchError
from experiments.conformance.frameworks import Framework, look
from experiments.conformance.page import Mutant, Page, PageCheck, Trial
from tools.environments.errors import LabError


@pytest.fixture(scope="module", name="frameworks")
def fixture_frameworks() -> Mapping[str, Framework]:
    return running.prepare("training_mechanism", {})


@pytest.mark.slow
@pytest.mark.parametrize("page", few(3, catalogue.ids()))
def test_a_page_passes_and_no_fault_survives(page: str, frameworks: Mapping[str, Framework]) -> None:
    result = running.run_page(catalogue.load(page), frameworks, seed=20)
    assert result.status == "passed", result.reason
    assert not result.survivors
    assert all(check.comparisons for check in result.checks)
    named = {mutant.name: mutant.noticed_by for mutant in catalogue.mutants(page)}
    assert {mutant.name: mutant.killed_by for mutant in result.mutants} == named, "what is named is what notices"
    by_value = sum(mutant.how.startswith("MismatchError") for mutant in result.mutants)
    assert by_value >= 6
    assert by_value >= 0.75 * len(result.mutants), [one.how for one in result.mutants]


@pytest.mark.parametrize("name", ["grows_late", "never_starts_over"])
def test_every_case_of_the_scaler_shows_what_growing_takes(name: str, frameworks: Mapping[str, Framework]) -> None:
    page = catalogue.load("mixed_precision_backward")
    check = next(check for check in page.checks if check.name == "state_machine")
    mutant = next(mutant for mutant in catalogue.mutants(page.id) if mutant.name == name)
    mutated = mutation.with_mutant(mutation.originals(page), mutant)
    for seed in range(count(100)):
        with pytest.raises(MismatchError):
            running.explore(check, mutated, ComparisonLedger(), seed=seed, examples=1, shrink=False)


@pytest.mark.parametrize("page", catalogue.ids())
def test_each_page_is_held_against_torch_alone_too(page: str) -> None:
    assert sum(not check.needs for check in catalogue.load(page).checks) >= 4


def test_transformers_and_accelerate_are_each_an_oracle() -> None:
    needs = [need for page in catalogue.ids() for check in catalogue.load(page).checks for need in check.needs]
    assert needs.count("transformers") >= 7
    assert needs.count("accelerate") >= 3


def _page(*checks: PageCheck) -> Page:
    return Page("cross_entropy", ("cross_entropy",), checks)


def _wrong(trial: Trial) -> None:
    size = trial.case.integer("size", 1, 9)
    trial.compare.exactly("a value", float(size > 3), 0.0)


def test_a_failing_check_is_shrunk_and_names_everything(frameworks: Mapping[str, Framework]) -> None:
    result = running.run_page(
        _page(PageCheck("wrong", _wrong, "cross_entropy.loss", "some.framework")), frameworks, seed=1
    )
    assert result.status == "failed"
    assert "a value differs at the scalar" in result.reason
    assert "cross_entropy.loss gives 1" in result.reason
    assert "some.framework gives 0" in result.reason
    assert "case size=4" in result.reason, "the simplest case that fails"
    assert result.mutants == (), "a mechanism that fails by itself is not mutated"


def test_a_check_that_compares_nothing_fails(frameworks: Mapping[str, Framework]) -> None:
    idle = PageCheck("idle", lambda trial: None, "ours", "theirs")
    assert running.run_page(_page(idle), frameworks, seed=1).reason == "idle: compared nothing"


def test_a_framework_that_changed_its_interface_fails_its_check_and_nothing_else(
    frameworks: Mapping[str, Framework],
) -> None:
    def gone(trial: Trial) -> None:
        raise AttributeError("module has no attribute 'fixed_cross_entropy'\nsecond line")

    result = running.run_page(_page(PageCheck("gone", gone, "ours", "theirs")), frameworks, seed=1)
    assert result.reason == "gone: AttributeError: module has no attribute 'fixed_cross_entropy'"


def test_a_missing_framework_skips_its_checks_with_the_reason(frameworks: Mapping[str, Framework]) -> None:
    without = {**frameworks, "transformers": Framework("transformers", None, "transformers is not installed")}
    result = running.run_page(catalogue.load("cross_entropy"), without, seed=20, mutants=False)
    assert result.status == "skipped"
    assert result.reason == "transformers is not installed: 6 of 7 checks held"
    assert "transformers" not in result.versions


def test_a_survivor_fails_the_page(frameworks: Mapping[str, Framework], monkeypatch: pytest.MonkeyPatch) -> None:
    harmless = Mutant("harmless", "cross_entropy", "IGNORE = -100", "IGNORE = -101 + 1", "no fault at all")
    monkeypatch.setattr(catalogue, "mutants", lambda page: (harmless,))
    check = next(one for one in catalogue.load("cross_entropy").checks if one.name == "shifted_mean")
    result = running.run_page(_page(check), frameworks, seed=20)
    assert result.status == "failed"
    assert result.reason == "no check notices harmless"


def test_the_check_named_for_a_fault_is_asked_first_and_for_longer_than_another() -> None:
    asked: list[str] = []

    def blind(trial: Trial) -> None:
        asked.append("blind")
        trial.compare.exactly("a value", 1.0, 1.0)

    def rare(trial: Trial) -> None:
        asked.append("rare")
        noticed = len(asked) > 3 * running.FEW and trial.mechanism("cross_entropy").IGNORE != -100
        trial.case.integer("number", 0, 10**9)
        trial.compare.exactly("a value", 2.0 if noticed else 1.0, 1.0)

    page = _page(PageCheck("blind", blind, "ours", "theirs"), PageCheck("rare", rare, "ours", "theirs"))
    fault = Mutant("fault", "cross_entropy", "IGNORE = -100", "IGNORE = -101", "a fault", noticed_by="rare")
    modules = mutation.originals(page)
    (found,) = running._run_mutants((fault,), list(page.checks), modules, seed=1)
    assert found.killed_by == "rare"
    assert set(asked) == {"rare"}, "no other check was asked"


def test_a_fault_that_names_no_check_of_its_page_is_refused(
    frameworks: Mapping[str, Framework], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Mutant("lost", "cross_entropy", "IGNORE = -100", "IGNORE = -101", "a fault", noticed_by="elsewhere")
    monkeypatch.setattr(catalogue, "mutants", lambda page: (lost,))
    page = catalogue.load("cross_entropy")
    with pytest.raises(LabError, match=r"(?s)mutants.toml \[lost\].*shifted_mean.*elsewhere"):
        running.run_page(page, frameworks, seed=20)


def test_a_fault_that_few_cases_do_not_show_is_looked_for_in_many() -> None:
    ran: list[int] = []

    def late(trial: Trial) -> None:
        ran.append(trial.case.integer("size", 0, 10**6))
        trial.compare.exactly("a value", float(len(ran) > 5 * running.FEW), 0.0)

    check = PageCheck("late", late, "ours", "theirs", examples=running.FEW)
    fault = Mutant("fault", "cross_entropy", "IGNORE = -100", "IGNORE = -101", "a fault")
    assert running._first_to_notice(running._asked(fault, [check]), {}, 20)[0] == "late"


def test_a_survivor_beside_a_skipped_check_may_be_that_check_s_to_notice() -> None:
    from experiments.conformance.check_results import CheckResult, MutantResult

    skipped = CheckResult("one", "ours", "theirs", "skipped", "transformers is not installed")
    page = PageResult("attention", (skipped,), (MutantResult("m", "attention", "fault", None, ""),), {})
    assert page.status == "skipped"


def test_the_same_seed_draws_the_same_cases(frameworks: Mapping[str, Framework]) -> None:
    seen: list[list[str]] = [[], []]
    for drawn in seen:

        def note(trial: Trial, drawn: list[str] = drawn) -> None:
            trial.case.normal(trial.case.integer("size", 1, 99))
            drawn.append(str(trial.case))

        check = PageCheck("note", note, "ours", "theirs", examples=5)
        running.explore(check, {}, ComparisonLedger(), seed=7, examples=5, shrink=False)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 1


def test_frameworks_outside_the_registered_range_are_told_from_those_that_are_missing() -> None:
    assert look("torch", "").missing == ""
    assert look("no-such-framework", "").missing == "no-such-framework is not installed"
    old = look("torch", ">=99")
    assert old.missing == f"torch {old.version} is outside the registered >=99"


def test_a_mismatch_is_an_assertion() -> None:
    assert issubclass(MismatchError, AssertionError)

"""The mutation matrix as data: every fault still applies, is a fault, and leaves the real module alone."""

from __future__ import annotations

import ast

import pytest

pytest.importorskip("torch")

from experiments.conformance import catalogue, mutation
from experiments.conformance.page import Mutant

MUTANTS = [(page, mutant) for page in catalogue.ids() for mutant in catalogue.mutants(page)]
PUBLIC = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18}  # numbers of public reports about mechanisms


@pytest.mark.parametrize(("page", "mutant"), MUTANTS, ids=[f"{page}-{mutant.name}" for page, mutant in MUTANTS])
def test_each_fault_still_stands_in_its_module_and_changes_its_code(page: str, mutant: Mutant) -> None:
    before = mutation.source(mutant.module)
    after = mutation.mutate(before, mutant)
    assert ast.dump(ast.parse(before)) != ast.dump(ast.parse(after))
    assert mutant.fault
    assert mutant.module in catalogue.load(page).modules


@pytest.mark.parametrize("page", catalogue.ids())
def test_each_page_has_at_least_six_faults(page: str) -> None:
    assert len(catalogue.mutants(page)) >= 6


def test_the_public_reports_about_mechanisms_are_repeated() -> None:
    assert {mutant.report for _, mutant in MUTANTS} - {None} == PUBLIC


def test_a_fault_whose_text_has_moved_on_is_an_error_and_not_a_survivor() -> None:
    gone = Mutant("gone", "cross_entropy", "no such text", "", "")
    twice = Mutant("twice", "cross_entropy", "logits", "", "")
    for mutant in (gone, twice):
        with pytest.raises(LookupError, match=f"{mutant.name}.*not once"):
            mutation.build(mutant)


def test_a_mutant_is_another_module() -> None:
    from experiments.mechanisms import cross_entropy

    mutant = next(one for one in catalogue.mutants("cross_entropy") if one.name == "no_shift")
    built = mutation.build(mutant)
    labels = cross_entropy.torch.tensor([[1, 2, 3]])
    assert built.shift_labels(labels).tolist() == [[1, 2, 3]]
    assert cross_entropy.shift_labels(labels).tolist() == [[2, 3, -100]]


def test_an_unknown_module_is_named() -> None:
    with pytest.raises(LookupError, match="no_such"):
        mutation.source("no_such")

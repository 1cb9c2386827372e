"""Imports without the collector."""

from __future__ import annotations

import gc

import pytest

from experiments.harness.importing import uncollected


def test_nothing_is_collected_inside_and_the_collector_is_back_afterwards() -> None:
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_back_after_an_import_that_fails() -> None:
    with pytest.raises(ModuleNotFoundError), uncollected():
        __import__("no_such_module_anywhere")
    assert gc.isenabled()


def test_who_had_turned_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()

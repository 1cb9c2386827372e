"""Knobs of a collective: what cannot mean anything is refused with the option to change, and words fit the sizes."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import pytest
from sample_collectives import SMALL

from experiments import kinds
from experiments.evidence.record import Launch
from experiments.harness.experiment import Options
from experiments.harness.measured_workload import changed
from experiments.kinds.collective import bandwidth, collective_workload, size_ladder
from experiments.kinds.collective.kind import KIND
from experiments.parallelism.all_reduce_cost.experiment import EXPERIMENT
from tools.environments.errors import EXIT_USAGE, LabError


@pytest.mark.parametrize(
    ("knobs", "option"),
    [
        ({"ranks": 1}, "--ranks"),
        ({"ranks": 9}, "--ranks"),
        ({"dtype": "int3"}, "--dtype"),
        ({"sizes": (256, 1000, 4096)}, "--sizes"),
        ({"sizes": (128, 1024, 4096)}, "--sizes"),
        ({"sizes": (256, 1024, 2**31)}, "--sizes"),
        ({"sizes": (4096, 1024, 16384)}, "--sizes"),
        ({"sizes": (256, 256, 1024, 16384)}, "--sizes"),
        ({"sizes": (256, 16384)}, "--sizes"),
        ({"unseen": 8000}, "--unseen"),
        ({"unseen": 4096}, "--unseen"),
        ({"unseen": 32768}, "--unseen"),
        ({"steps": 0}, "--steps"),
    ],
)
def test_a_workload_without_meaning_is_refused(knobs: dict[str, Any], option: str) -> None:
    with pytest.raises(LabError) as refused:
        KIND.check(replace(SMALL, **knobs), None, Options())
    assert option in refused.value.where
    assert refused.value.code == EXIT_USAGE
    assert option in refused.value.next


@pytest.mark.parametrize("name", EXPERIMENT.workloads)
def test_registered_workloads_pass_and_come_back_from_their_knobs(name: str) -> None:
    workload = EXPERIMENT.workloads[name]
    KIND.check(workload, None, Options())
    assert KIND.workload_from(name, workload.knobs()) == workload
    assert KIND.launch(workload) == Launch(type="ranks", ranks=2)


def test_options_change_knobs() -> None:
    args = argparse.Namespace(ranks=4, sizes="256,1024,65536", unseen=512, dtype=None)
    workload = changed(SMALL, **KIND.knobs_of(args))
    assert (workload.ranks, workload.sizes, workload.unseen, workload.dtype) == (4, (256, 1024, 65536), 512, "float32")
    assert workload.timed == (256, 512, 1024, 65536)


@pytest.mark.parametrize("text", ["", "1024,", "1 KiB", "1024;4096"])
def test_sizes_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(LabError) as refused:
        collective_workload.sizes_from(text)
    assert refused.value.where == "--sizes"


def test_the_kind_is_found_sound_and_declares_a_word_for_every_size() -> None:
    assert kinds.find("collective") is KIND
    words = {quantity.word for quantity in KIND.words.quantities}
    assert {size_ladder.word_at(size) for size in size_ladder.SIZES} < words
    assert [quantity.word for quantity in KIND.words.quantities if quantity.main] == ["collective_ms"]


def test_bandwidths_are_those_of_nccl_s_tests() -> None:
    """1 GB in 10 ms is 100 GB/s; the bus of two ranks carries as much, that of eight 1.75 times."""
    assert bandwidth.algorithm_gb_per_s(10**9, 10.0) == pytest.approx(100.0)
    assert bandwidth.bus_gb_per_s(10**9, 10.0, 2) == pytest.approx(100.0)
    assert bandwidth.bus_gb_per_s(10**9, 10.0, 8) == pytest.approx(175.0)

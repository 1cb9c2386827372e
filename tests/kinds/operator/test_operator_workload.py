"""Shapes of an operator: what is refused and how, the ladder after an out-of-memory, and digests that never change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments import kinds
from experiments.harness.experiment import Options
from experiments.kinds.operator.kind import KIND
from experiments.kinds.operator.operator_workload import MOST_ENTRIES, OperatorWorkload
from experiments.kinds.operator.product_bounds import product_bound
from tools.environments.errors import EXIT_USAGE, LabError

WORKLOAD = OperatorWorkload(name="w", rows=4, in_features=64, out_features=48, steps=10, warmup=3, rounds=2)


def test_a_records_name_for_a_workload_never_changes() -> None:
    """One more field would give every record another digest: a new knob goes into `extra`."""
    assert WORKLOAD.digest() == "sha256:8fc1e778dca240f39c627f6cfcdfd51e84ef8f59548ad0304963ed9ccba68aed"


@pytest.mark.parametrize(
    ("knobs", "option", "next_"),
    [
        ({"rows": 0}, "--rows", "give 1 or more"),
        ({"in_features": 0}, "--in-features", "give 1 or more"),
        ({"out_features": 1}, "--out-features", "give 2 or more"),
        ({"rows": 2**20 + 1}, "--rows", "give 1048576 or less"),
        ({"steps": 0}, "--steps", "give 1 or more"),
        ({"in_features": 2**15, "out_features": 2**14}, "--out-features", "give --out-features 8192 or less"),
        ({"rows": 2**15, "in_features": 2**14}, "--rows", "give --rows 16384 or less"),
        ({"rows": 2**15, "out_features": 2**14}, "--rows", "give --rows 16384 or less"),
    ],
)
def test_a_shape_out_of_bounds_is_refused_with_its_option(knobs: dict[str, int], option: str, next_: str) -> None:
    with pytest.raises(LabError) as error:
        KIND.check(replace(WORKLOAD, **knobs), None, Options())
    assert (error.value.where.split(",")[0], error.value.code) == (option, EXIT_USAGE)
    assert next_ in error.value.next


def test_the_largest_shape_within_bounds_is_taken() -> None:
    KIND.check(replace(WORKLOAD, rows=1, in_features=2**14, out_features=MOST_ENTRIES // 2**14), None, Options())


def test_after_an_out_of_memory_rows_are_halved_then_channels() -> None:
    seen, step = [], KIND.smaller(replace(WORKLOAD, out_features=1024))
    while step is not None:
        seen.append(KIND.as_options(step))
        step = KIND.smaller(step)
    assert seen == [
        "--rows 2 --out-features 1024",
        "--rows 1 --out-features 1024",
        "--rows 1 --out-features 512",
        "--rows 1 --out-features 256",
    ]


def test_the_kind_is_found_and_sound() -> None:
    assert kinds.find("operator") is KIND
    assert KIND in kinds.measured()


def test_a_workload_is_read_back_from_its_knobs() -> None:
    assert KIND.workload_from("w", WORKLOAD.knobs()) == WORKLOAD
    with pytest.raises(LabError):
        KIND.workload_from("w", {**WORKLOAD.knobs(), "sequence": 4})


def test_the_bound_grows_with_the_root_of_the_sum_and_with_the_format() -> None:
    assert product_bound("float32", 1) == pytest.approx(2**-24 * (3**0.5 + 1))
    assert product_bound("float32", 10_000) == pytest.approx(100 * 2**-24, rel=0.02)
    assert product_bound("float32", 64, 5.0) == pytest.approx(5 * product_bound("float32", 64))
    assert product_bound("float32", 64, 0.1) == product_bound("float32", 64)
    assert product_bound("bfloat16", 64) == pytest.approx(2**-8 * 3**0.5, rel=1e-3)

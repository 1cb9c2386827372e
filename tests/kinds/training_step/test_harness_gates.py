"""The yardstick of the gates: it grows with depth and roundoff, takes the larger of the two, and NaN never passes."""

from __future__ import annotations

import math

import pytest

from experiments.harness import rounding
from experiments.kinds.training_step import gate_bounds
from experiments.models import registered_config

TINY = registered_config.shape(registered_config.config("tiny-qwen2"))
QWEN = registered_config.shape(registered_config.config("Qwen/Qwen2.5-0.5B"))


def test_coarser_formats_may_err_more_and_deeper_models_too() -> None:
    bounds = [gate_bounds.rounding_bound(dtype, TINY, 512) for dtype in ("float64", "float32", "float16", "bfloat16")]
    assert bounds == sorted(bounds)
    assert gate_bounds.rounding_bound("tf32", TINY, 512) == gate_bounds.rounding_bound("float16", TINY, 512)
    assert gate_bounds.rounding_bound("bfloat16", QWEN, 512) > gate_bounds.rounding_bound("bfloat16", TINY, 512)


def test_the_bound_holds_a_wrong_gradient_out() -> None:
    """A factor of two, or a tenth of the gradient gone, is far outside what any format's rounding allows."""
    for dtype in rounding.UNIT_ROUNDOFF:
        assert gate_bounds.rounding_bound(dtype, QWEN, 8192) < 0.1


def answer(error: float | None, bound: float = 0.01, repeated: float | None = 0.0) -> bool:
    return rounding.gate(
        against="fp32", error=error, bound=bound, repeated=repeated, tensors=1, worst="w", formula="f"
    ).passed


@pytest.mark.parametrize(
    ("error", "passed"),
    [(0.0, True), (0.01, True), (0.0101, False), (None, False), (math.nan, False), (math.inf, False)],
)
def test_only_a_finite_error_within_tolerance_passes(error: float | None, passed: bool) -> None:
    assert answer(error) is passed


def test_the_tolerance_is_the_larger_of_bound_and_repetition() -> None:
    assert answer(0.05, bound=0.01, repeated=0.06)
    assert not answer(0.05, bound=0.01, repeated=None)


def test_adam_turns_small_gradients_and_weights_are_rounded() -> None:
    plain = gate_bounds.update_bound(1e-4, "sgd", weight_norm=0.0, update_norm=1.0)
    assert plain == 1e-4
    assert gate_bounds.update_bound(1e-4, "adamw", 0.0, 1.0) > 10 * plain
    assert gate_bounds.update_bound(1e-4, "sgd", weight_norm=1e3, update_norm=1e-3) > plain + 0.1
    assert gate_bounds.update_bound(1e-4, "sgd", weight_norm=1.0, update_norm=0.0) == plain

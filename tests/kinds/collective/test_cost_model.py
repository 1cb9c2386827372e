"""alpha + beta bytes: the line, its interval against known quantiles, and how often the interval holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.kinds.collective.cost_model import SHARE, Expected, fit
from experiments.kinds.collective.student_t import share_within, two_sided

SIZES = tuple(1024 * 4**step for step in range(7))
UNSEEN = 512 * 1024
ALPHA_MS, BETA_MS = 0.4, 1e-6
RUNS = 2000


def line(size: int) -> float:
    return ALPHA_MS + BETA_MS * size


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 6.313752), (2, 2.919986), (5, 2.015048), (10, 1.812461), (30, 1.697261)]
)
def test_student_s_quantiles_are_the_tables(freedom: int, quantile: float) -> None:
    """Abramowitz and Stegun, table 26.10: 90 % within."""
    assert two_sided(0.9, freedom) == pytest.approx(quantile, abs=1e-6)
    assert share_within(quantile, freedom) == pytest.approx(0.9, abs=1e-7)


@pytest.mark.parametrize(("share", "freedom"), [(0.9, 0), (0.0, 3), (1.0, 3)])
def test_a_quantile_that_does_not_exist_is_refused(share: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="degrees of freedom"):
        two_sided(share, freedom)


def test_an_interval_as_wide_as_what_it_predicts_tests_no_line() -> None:
    tight = fit(SIZES, [line(size) * (1.01 if number % 2 else 0.99) for number, size in enumerate(SIZES)])
    loose = fit(SIZES, [line(size) * (1.5 if number % 2 else 0.5) for number, size in enumerate(SIZES)])
    assert not tight.expected(UNSEEN).is_wide
    assert loose.expected(UNSEEN).is_wide
    assert loose.expected(UNSEEN).low == 0.0, "no time lies below zero, and the upper half still says how wide it is"


def test_a_line_without_noise_is_found_again() -> None:
    model = fit(SIZES, [line(size) for size in SIZES])
    assert model.alpha_ms == pytest.approx(ALPHA_MS, rel=1e-9)
    assert model.ns_per_byte == pytest.approx(1.0, rel=1e-9)
    assert model.expected(UNSEEN).ms == pytest.approx(line(UNSEEN), rel=1e-9)


def test_the_interval_is_the_one_of_the_weighted_normal_equations() -> None:
    """Checked against p +- t s sqrt(p**2 + x' (X' W X)^-1 x), computed with matrices."""
    times = np.array([line(size) for size in SIZES]) * np.array([1.1, 0.9, 1.05, 1.0, 0.92, 1.08, 0.97])
    x, w = np.stack([np.ones(len(SIZES)), np.array(SIZES, dtype=float)], axis=1), np.diag(1 / times**2)
    inverse = np.linalg.inv(x.T @ w @ x)
    coefficients = inverse @ x.T @ w @ times
    apart = times - x @ coefficients
    spread = math.sqrt(apart @ w @ apart / (len(SIZES) - 2))
    at = np.array([1.0, UNSEEN])
    middle = float(at @ coefficients)
    half = 2.015048 * spread * math.sqrt(middle**2 + at @ inverse @ at)
    found = fit(SIZES, times.tolist()).expected(UNSEEN)
    assert found.ms == pytest.approx(middle, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half), rel=1e-6)


@pytest.mark.parametrize("unseen", [2048, 32 * 1024, UNSEEN, 2 * 1024 * 1024])
@pytest.mark.parametrize("scatter", [0.02, 0.1])
def test_an_unseen_size_lies_inside_nine_times_in_ten(unseen: int, scatter: float) -> None:
    """Ladders whose times scatter in proportion to themselves: within three standard errors of nine in ten."""
    draw = np.random.default_rng(20261201)
    held = 0
    for _ in range(RUNS):
        noise = 1 + scatter * draw.standard_normal(len(SIZES) + 1)
        times = [line(size) * factor for size, factor in zip(SIZES, noise, strict=False)]
        held += fit(SIZES, times).expected(unseen).holds(line(unseen) * noise[-1])
    assert held / RUNS == pytest.approx(SHARE, abs=0.02)


def test_a_cost_that_is_no_line_is_missed_far_more_often() -> None:
    """Twice the time at the unseen size, such as a switch of the algorithm there: the interval tells it."""
    draw = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        noise = 1 + 0.02 * draw.standard_normal(len(SIZES))
        times = [line(size) * factor for size, factor in zip(SIZES, noise, strict=True)]
        held += fit(SIZES, times).expected(UNSEEN).holds(2 * line(UNSEEN))
    assert held == 0


def test_an_interval_holds_its_ends_and_nothing_beyond() -> None:
    expected = Expected(2.0, 1.0, 3.0)
    assert expected.holds(1.0)
    assert expected.holds(3.0)
    assert not expected.holds(0.999)
    assert not expected.holds(3.001)


def test_no_interval_reaches_below_zero() -> None:
    model = fit(SIZES[:3], [1.0, 5.0, 1.0])
    assert model.expected(2048).low == 0.0


@pytest.mark.parametrize(
    ("sizes", "times"),
    [((1024, 4096), (1.0, 2.0)), ((1024, 1024, 1024), (1.0, 1.0, 1.0)), (SIZES[:3], (1.0, 0.0, 2.0))],
)
def test_what_has_no_line_is_refused(sizes: tuple[int, ...], times: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="no line"):
        fit(sizes, times)

"""Comparing two implementations: what passes, what fails, and that a failure names value, place and both sides."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from experiments.conformance.comparison import Comparer, MismatchError  # noqa: E402
from experiments.conformance.tolerance import Tolerance  # noqa: E402

WIDE = Tolerance("float64", 4, "four steps")


@pytest.fixture(name="compare")
def fixture_compare() -> Comparer:
    return Comparer("hand.written", "frame.work", case="rows=2")


def test_values_within_the_tolerance_pass_and_are_remembered(compare: Comparer) -> None:
    compare.agree("loss", torch.tensor(1.0, dtype=torch.float64), 1.0 + 2.0**-52, WIDE)
    assert compare.ledger.worst_error == pytest.approx(2.0**-52)
    assert compare.ledger.allowed == WIDE.relative
    assert compare.ledger.comparisons == 1


def test_a_failure_names_the_value_the_place_and_both_implementations(compare: Comparer) -> None:
    ours = torch.zeros(2, 3, dtype=torch.float64)
    theirs = ours.clone()
    theirs[1, 2] = 0.5
    with pytest.raises(MismatchError) as caught:
        compare.agree("gradient of weight", ours, theirs, WIDE)
    text = str(caught.value)
    for part in (
        "gradient of weight",
        "[1, 2]",
        "hand.written gives 0",
        "frame.work gives 0.5",
        "four steps",
        "rows=2",
    ):
        assert part in text


def test_python_numbers_do_not_pass_through_fp32(compare: Comparer) -> None:
    compare.agree("rates", [0.1, 0.2], [0.1, 0.2], WIDE)
    with pytest.raises(MismatchError):
        compare.agree("rates", [0.1], [0.1 + 1e-12], WIDE)


def test_the_magnitude_is_the_size_of_the_terms_and_never_below_the_values(compare: Comparer) -> None:
    compare.agree("difference of large terms", 1e-12, 0.0, WIDE, magnitude=1e4)
    with pytest.raises(MismatchError):
        compare.agree("the same with small ones", 1e-12, 0.0, WIDE)
    compare.agree("magnitude below the value", 8.0, 8.0 + 2.0**-50, WIDE, magnitude=1e-9)


@pytest.mark.parametrize(("ours", "theirs"), [(math.nan, 0.0), (0.0, math.nan), (math.inf, 1.0), (math.inf, -math.inf)])
def test_nan_and_infinity_have_to_be_in_the_same_places(compare: Comparer, ours: float, theirs: float) -> None:
    with pytest.raises(MismatchError):
        compare.agree("edge", ours, theirs, WIDE)
    with pytest.raises(MismatchError):
        compare.exactly("edge", ours, theirs)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0])
def test_edge_values_equal_themselves(compare: Comparer, value: float) -> None:
    compare.agree("edge", value, value, WIDE)
    compare.exactly("edge", value, value)


def test_shapes_have_to_be_the_same(compare: Comparer) -> None:
    with pytest.raises(MismatchError, match=r"its shape.*\(2,\).*\(2, 1\)"):
        compare.exactly("gradient", torch.zeros(2), torch.zeros(2, 1))


def test_nothing_equals_nothing_only(compare: Comparer) -> None:
    compare.exactly("gradient", None, None)
    with pytest.raises(MismatchError, match=r"hand\.written gives nothing, frame\.work gives a value"):
        compare.exactly("gradient", None, torch.zeros(1))


def test_exact_means_the_last_bit(compare: Comparer) -> None:
    with pytest.raises(MismatchError, match="no difference"):
        compare.exactly("scale", 1.0, 1.0 + 2.0**-52)


def test_zeros_need_no_magnitude(compare: Comparer) -> None:
    compare.agree("ignored positions", torch.zeros(3), torch.zeros(3), WIDE)
    assert compare.ledger.worst_error == 0.0


def test_the_closest_call_is_what_is_reported(compare: Comparer) -> None:
    loose = Tolerance("float32", 100, "loose")
    compare.agree("far inside", 1.0, 1.0 + 1e-7, loose)
    compare.agree("close", 1.0, 1.0 + 3 * 2.0**-52, WIDE)
    compare.exactly("exact", 1.0, 1.0)
    assert compare.ledger.tolerance is not None
    assert "four steps" in compare.ledger.tolerance
    assert compare.ledger.comparisons == 3


def test_facts_that_are_no_numbers(compare: Comparer) -> None:
    compare.holds("an odd width", True, "accepts it", "refuses it")
    with pytest.raises(MismatchError, match=r"hand\.written gives accepts it, frame\.work gives refuses it"):
        compare.holds("an odd width", False, "accepts it", "refuses it")

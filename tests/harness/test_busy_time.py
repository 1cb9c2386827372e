"""How long a card was busy, from spans that may overlap."""

from __future__ import annotations

import pytest

from experiments.harness.device import busy_time
from experiments.harness.device.device import ComputeDevice


def test_overlapping_spans_are_counted_once() -> None:
    assert busy_time.union_length([(0, 2), (1, 3), (5, 6), (5.5, 5.7)]) == pytest.approx(4.0)
    assert busy_time.union_length([(0, 2), (1, 3), (1, 2), (5, 6)]) == 4
    assert busy_time.union_length([]) == 0.0


def test_on_a_cpu_nothing_is_run_for_it() -> None:
    assert busy_time.busy_ms(ComputeDevice("cpu"), pytest.fail) is None

"""Statistics of a record: whole processes, so that the interpreter's start and the import of numpy count."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.measure import Row, duration, ratio, seconds, watched
from benchmarks.statistics_load import CANDIDATES, QUANTITIES
from tools.environments.layout import ROOT

SECONDS, SMALL_RATIO, PEAK_GIB = 1.0, 1.5, 0.15
LARGE, SMALL, HUGE = 4_000, 40, 25_000  # samples a candidate; the small one is of a committed record's size
WHAT = f"{len(CANDIDATES)} candidates, {len(QUANTITIES)} quantities"


def rows() -> Iterator[Row]:
    """Seconds for many samples, a small record against numpy's import alone, and the memory of very many samples."""
    name = f"statistics, {LARGE:,} samples a candidate"
    yield duration(name, partial(seconds, _load(LARGE), cwd=ROOT), limit=SECONDS, detail=WHAT)
    numpy = partial(seconds, [sys.executable, "-c", "import numpy.random"], cwd=ROOT)
    small = partial(seconds, _load(SMALL), cwd=ROOT)
    name = f"statistics, {SMALL} samples a candidate"
    yield ratio(name, small, numpy, against="python -c 'import numpy.random'", limit=SMALL_RATIO)
    taken, peak = watched(_load(HUGE), cwd=ROOT, env=os.environ)
    yield Row(f"statistics, {HUGE:,} samples, peak memory", peak, "GiB", PEAK_GIB, f"{WHAT}, {taken:.1f} s")


def _load(samples: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.statistics_load", str(samples)]

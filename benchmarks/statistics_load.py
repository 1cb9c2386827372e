"""`python -m benchmarks.statistics_load SAMPLES`: what a record of so many samples a candidate has computed for it."""

from __future__ import annotations

import random
import sys

from experiments.evidence.rules.v2 import verdicts
from experiments.evidence.rules.v2.resampling import Resampled

CANDIDATES = ("baseline", "again", "a", "b", "c", "d")
QUANTITIES = ("step", "wall", "busy")
ROUNDS = 8


def compute(samples: int) -> list[str]:
    """Every interval, floor, ratio and verdict of six candidates in three quantities; the verdicts."""
    generator = random.Random(samples)
    found: list[str] = []
    for quantity in QUANTITIES:
        sides = {}
        for name in CANDIDATES:
            values = [100.0 + generator.random() for _ in range(samples)]
            rounds = {number: values[number::ROUNDS] for number in range(ROUNDS)}
            sides[name] = Resampled(rounds, f"{name}/{quantity}")
            verdicts.interval(sides[name])
        floor = verdicts.noise_floor(sides["again"], sides["baseline"])
        ratios = (verdicts.ratio(sides[name], sides["baseline"]) for name in CANDIDATES[2:])
        found += [verdicts.verdict(one, floor, "lower", "ms") for one in ratios if one is not None]
    return found


if __name__ == "__main__":
    print(*compute(int(sys.argv[1])))

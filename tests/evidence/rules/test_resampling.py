"""Version 2 of the bootstrap: the draws that its text defines, the same for ever, and the statistics of version 1."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.evidence.rules.v2 import resampling
from experiments.evidence.rules.v2.resampling import RESAMPLES, Resampled, Rounds, medians
from tools.environments.errors import LabError
from tools.environments.layout import ROOT

UNEVEN: Rounds = {0: [3.0, 1.0, 2.0], 4: [10.0], 2: [5.0, 7.0]}
PINNED = [5.0, 3.0, 10.0, 3.0, 4.0, 3.0, 5.0, 7.0]
PINNED_DIGEST = "4679b769926fef1508f397c2f30f1a7c9c77361696de81d17c2ee8d87925d302"
TIMES = ("step_ms", "wall_ms", "busy_ms")


def indices(seed: str) -> Iterator[int]:
    """The words of the stream, one at a time, as their upper halves."""
    words = np.random.PCG64(int.from_bytes(sha256(seed.encode()).digest()[:16], "big"))
    while True:
        yield int(words.random_raw()) >> 32


def plainly(rounds: Rounds, seed: str) -> list[float]:
    """The module's docstring in plain loops."""
    groups = [sorted(rounds[number]) for number in sorted(rounds) if rounds[number]]
    of_rounds, of_values = indices(f"{seed}/rounds"), indices(f"{seed}/values")
    drawn = []
    for _ in range(RESAMPLES):
        chosen = [groups[next(of_rounds) * len(groups) >> 32] for _ in groups]
        values = [group[next(of_values) * len(group) >> 32] for group in chosen for _ in group]
        drawn.append(statistics.median(values))
    return drawn


def independently(rounds: Rounds, seed: int) -> list[float]:
    """The same bootstrap as version 1 draws it."""
    generator, groups = random.Random(seed), list(rounds.values())
    drawn = []
    for _ in range(RESAMPLES):
        chosen = generator.choices(groups, k=len(groups))
        drawn.append(statistics.median(v for group in chosen for v in generator.choices(group, k=len(group))))
    return drawn


def distance(some: list[float], others: list[float]) -> float:
    """Largest distance between two empirical distributions (Kolmogorov and Smirnov)."""
    points = np.unique([*some, *others])
    below = [np.searchsorted(np.sort(side), points, side="right") / len(side) for side in (some, others)]
    return float(np.abs(below[0] - below[1]).max())


def noisy(rounds: int, steps: int, seed: int, *, between: float = 1.0) -> dict[int, list[float]]:
    """Steps around 100 with a scatter of 1, in rounds whose own level scatters by `between`."""
    generator = random.Random(seed)
    levels = [generator.gauss(100.0, between) for _ in range(rounds)]
    return {number: [generator.gauss(level, 1.0) for _ in range(steps)] for number, level in enumerate(levels)}


@pytest.mark.parametrize(
    "rounds",
    [
        UNEVEN,
        {0: [7.5]},
        {0: [1.0, 2.0]},
        {3: [2.0, 2.0, 1.0, 1.0], 1: [1.0, 2.0]},
        {0: [0.0] * 5, 1: [0.0, 1.0]},
        {number: [float(number)] for number in range(30)},
        noisy(3, 40, 1),
    ],
    ids=["uneven", "one value", "one pair", "ties", "zeros", "a value a round", "noisy"],
)
def test_the_draws_are_those_that_plain_loops_make(rounds: Rounds) -> None:
    assert medians(rounds, "a/step").tolist() == plainly(rounds, "a/step")


@settings(max_examples=10, deadline=None)
@given(
    st.dictionaries(st.integers(0, 9), st.lists(st.floats(-1e6, 1e6), max_size=7), max_size=4).filter(
        lambda rounds: any(rounds.values())
    ),
    st.text(max_size=5),
)
def test_rounds_of_any_size_are_drawn_exactly(rounds: Rounds, seed: str) -> None:
    assert medians(rounds, seed).tolist() == plainly(rounds, seed)


def test_the_stream_is_pinned() -> None:
    """Another answer here makes every interval of version 2 that was ever recorded another one."""
    assert medians(UNEVEN, "baseline/step").tolist()[:8] == PINNED
    digest = sha256(medians(UNEVEN, "baseline/step").astype("<f8").tobytes()).hexdigest()
    assert digest == PINNED_DIGEST


def test_how_much_is_drawn_at_a_time_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = noisy(4, 30, 2)
    whole = medians(rounds, "a").tolist()
    for chunk in (1, 500, 10**7):
        monkeypatch.setattr(resampling, "CHUNK", chunk)
        assert medians(rounds, "a").tolist() == whole


def test_order_and_empty_rounds_do_not_matter_and_the_seed_does() -> None:
    turned = {number: list(reversed(values)) for number, values in reversed(UNEVEN.items())}
    first = medians(UNEVEN, "a").tolist()
    assert medians({**turned, 9: []}, "a").tolist() == first
    assert medians(UNEVEN, "b").tolist() != first
    assert medians(UNEVEN, "\ud800").shape == (RESAMPLES,)  # any text that JSON can hold


def test_no_value_is_no_median() -> None:
    assert medians({}, "a").shape == medians({0: [], 1: []}, "a").shape == (0,)


def test_one_value_is_every_median() -> None:
    assert set(medians({5: [2.5]}, "a").tolist()) == {2.5}


def test_one_round_far_larger_than_the_others() -> None:
    """One round of many values and many of one: a resample can hold far more values than there are, or far fewer."""
    rounds = {0: [float(value) for value in range(300)], **{number: [-1.0] for number in range(1, 40)}}
    assert medians(rounds, "a").tolist() == plainly(rounds, "a")


def test_medians_are_drawn_once() -> None:
    side = Resampled(UNEVEN, "a")
    assert side.medians is side.medians
    assert side.medians.tolist() == medians(UNEVEN, "a").tolist()
    assert side.values == [1.0, 2.0, 3.0, 5.0, 7.0, 10.0]
    assert side.groups == [[1.0, 2.0, 3.0], [5.0, 7.0], [10.0]]


@pytest.mark.parametrize(("rounds", "steps"), [(1, 40), (2, 10), (5, 7), (12, 3)])
def test_the_distribution_is_that_of_version_1(rounds: int, steps: int) -> None:
    """Two samples of 1,000 are further apart than 1.95 x sqrt(2 / 1000) once in a thousand by chance."""
    taken = noisy(rounds, steps, 10 * rounds)
    assert distance(medians(taken, "a").tolist(), independently(taken, 1)) < 0.087


def test_a_missing_level_would_be_another_distribution() -> None:
    taken = noisy(5, 7, 50)
    pooled = {0: [value for values in taken.values() for value in values]}
    assert distance(medians(pooled, "a").tolist(), independently(taken, 1)) > 0.087


def recorded() -> list[tuple[str, Rounds, float, float]]:
    """Every interval that version 1 left in a committed record: its name, its values by round, its ends."""
    found = []
    for path in sorted((ROOT / "experiments" / "results").glob("*/*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["identity"]["schema_version"] not in ("1.0.0", "1.1.0"):
            continue
        for candidate in record["candidates"]:
            for quantity in TIMES:
                written = (candidate["summary"] or {}).get(quantity)
                if written is None:
                    continue
                rounds: dict[int, list[float]] = {}
                for sample in candidate["samples"]:
                    if not sample["skipped"] and sample[quantity] is not None:
                        rounds.setdefault(sample["round"], []).append(sample[quantity])
                name = f"{path.parent.name}/{path.stem}/{candidate['name']}/{quantity}"
                found.append((name, rounds, written["low"], written["high"]))
    return found


def test_committed_intervals_end_where_version_2_ends_them() -> None:
    """2.5 % of the medians lie outside each end, give or take four standard errors of two draws: 2.8 %."""
    written, off = recorded(), []
    for name, rounds, low, high in written:
        drawn = medians(rounds, name)
        for beyond, within in (((drawn < low), (drawn <= low)), ((drawn > high), (drawn >= high))):
            if beyond.mean() > 0.053 or within.mean() < 0.005:
                off.append(name)
    assert len(written) > 100
    assert not off


@pytest.mark.parametrize(("rounds", "least", "most"), [(2, 0.65, 0.85), (8, 0.87, 0.98)])
def test_the_interval_covers_the_true_median_where_steps_alone_would_not(
    rounds: int, least: float, most: float
) -> None:
    """300 runs whose rounds scatter as much as their steps, nominally 95 %: two rounds say more than they know."""
    covered = {"two levels": 0, "steps alone": 0}
    for number in range(300):
        taken = noisy(rounds, 10, number)
        pooled = {0: [value for values in taken.values() for value in values]}
        for name, drawn in (("two levels", medians(taken, f"{number}")), ("steps alone", medians(pooled, f"{number}"))):
            low, high = np.quantile(drawn, (0.025, 0.975))
            covered[name] += low <= 100.0 <= high
    assert least <= covered["two levels"] / 300 <= most
    assert covered["steps alone"] / 300 < 0.75


def test_an_environment_without_numpy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    for ask in (resampling.require, lambda: medians(UNEVEN, "a")):
        with pytest.raises(LabError) as refused:
            ask()
        assert "numpy" in refused.value.wanted


def test_numpy_is_imported_by_the_first_draw_and_not_before() -> None:
    code = (
        "import sys; from experiments.evidence.rules.v2 import resampling, verdicts\n"
        "assert 'numpy' not in sys.modules\n"
        "verdicts.interval(resampling.Resampled({0: [1.0]}, 'a')); assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, check=True)

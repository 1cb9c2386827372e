"""Bootstrap medians in two levels, thousands of values in milliseconds: rounds are drawn, then values inside them.

Steps of one process are not independent of each other, rounds are: Davison and Hinkley, Bootstrap Methods and their
Application (1997), section 3.8. Each of `RESAMPLES` resamples draws as many rounds as there are, with replacement, and
from every drawn round as many values as it holds, with replacement; its median is that of all values drawn.

Years later `results verify` has to draw the same. `numpy.random.Generator` may change how it makes integers from one
version to the next (NEP 19); the words of PCG64 for a given seed may not. So an index below n is made here from one
word: its upper 32 bits times n, divided by 2**32 (Lemire, Fast random integer generation in an interval, 2019, without
the rejection: no index is more than n / 2**32 likelier than it should be, 6e-6 for 25,000 values). Everything after
that is counting and one mean of two values, so that the bits are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from tools.environments.errors import LabError

if TYPE_CHECKING:
    import numpy as np
    from numpy.random import PCG64
    from numpy.typing import NDArray

RESAMPLES = 1000
CHUNK = 1 << 15  # values drawn at a time: they stay in the cache, and 25,000 samples take no more memory than 40

Rounds: TypeAlias = Mapping[int, Sequence[float]]  # round -> finite values of its ordinary repetitions


class Resampled:
    """One candidate's values in one quantity, and their bootstrap medians: drawn at the first question, kept for all.

    Make one for each candidate and quantity of a record, and hand it to every comparison: a baseline is drawn once.
    `seed` is any text that no other side of a comparison has, such as the names of candidate and quantity.
    """

    def __init__(self, rounds: Rounds, seed: str) -> None:
        self.groups = _groups(rounds)
        self.seed = seed
        self.values = sorted(value for group in self.groups for value in group)

    @cached_property
    def medians(self) -> NDArray[np.float64]:
        """(RESAMPLES,) medians in the order they were drawn; (0,) without values."""
        return _medians(self.groups, self.seed)


def medians(rounds: Rounds, seed: str) -> NDArray[np.float64]:
    """(RESAMPLES,) bootstrap medians, in the unit of the values; (0,) without values.

    They depend on the seed, on the order of the round numbers and on the values in each round, whatever their order.
    Raises LabError without numpy.
    """
    return _medians(_groups(rounds), seed)


def require() -> None:
    """Raises LabError where numpy is missing: asked before work that ends in a summary."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise LabError(
            "the package numpy, to compute intervals",
            "an environment without it",
            "run this in a profile's environment: python tools/install_environment_profile.py --profile TRAIN-CPU",
        ) from None


def _groups(rounds: Rounds) -> list[list[float]]:
    """Values by round, in order of the rounds and sorted in each. A round without values is none."""
    return [sorted(rounds[number]) for number in sorted(rounds) if len(rounds[number])]


def _medians(groups: Sequence[Sequence[float]], seed: str) -> NDArray[np.float64]:
    require()
    import numpy as np

    values = np.array([value for group in groups for value in group], dtype=np.float64)
    drawn = np.empty(RESAMPLES if groups else 0)
    sizes = np.array([len(group) for group in groups], dtype=np.uint64)
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(values, kind="stable")
    of_rounds, of_values = _words(f"{seed}/rounds"), _words(f"{seed}/values")
    rows = max(1, CHUNK // max(1, len(values)))  # resamples at a time; the streams run on, so that it changes no draw
    for first in range(0, len(drawn), rows):
        last = min(first + rows, len(drawn))
        chosen = _below(of_rounds.random_raw((last - first) * len(groups)), np.uint64(len(groups))).view(np.int64)
        taken = sizes[chosen].reshape(last - first, -1)
        tables = np.arange(last - first, dtype=np.uint64)[:, None] * np.uint64(len(values))
        counts = _counts(of_values, taken, tables + starts[chosen].reshape(taken.shape), (last - first, len(values)))
        # A resample is how often it holds each value. All of them in one line: the middle of each is where the running
        # count passes half of its own.
        running = np.cumsum(counts.take(order, axis=1))
        size = taken.sum(axis=1).astype(np.int64)
        before = np.cumsum(size) - size
        low, high = (
            values[order[np.searchsorted(running, before + middle, side="right") % len(values)]]
            for middle in ((size - 1) // 2, size // 2)
        )
        drawn[first:last] = (low + high) / 2
    return drawn


def _counts(
    words: PCG64, taken: NDArray[np.uint64], starts: NDArray[np.uint64], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """How often each value was drawn: (resamples, values). `taken` and `starts`: (resamples, drawn rounds)."""
    import numpy as np

    repeats = taken.ravel().view(np.int64)
    places = _below(words.random_raw(int(repeats.sum())), np.repeat(taken.ravel(), repeats))
    places += np.repeat(starts.ravel(), repeats)
    return np.bincount(places.view(np.int64), minlength=shape[0] * shape[1]).reshape(shape)


def _below(words: NDArray[np.uint64], bound: np.uint64 | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """An index below `bound` for each word, which is used up."""
    words >>= 32
    words *= bound
    words >>= 32
    return words


def _words(seed: str) -> PCG64:
    from numpy.random import PCG64

    return PCG64(int.from_bytes(sha256(seed.encode("utf-8", "surrogatepass")).digest()[:16], "big"))

"""Where a check's random shapes and values come from: hypothesis in the conformance run, a plain seed elsewhere.

Both give the same few questions (an integer in a range, one of some options), so that one check serves both: the
exercises run it where torch stands alone, the conformance run lets hypothesis look for awkward shapes and shrink what
fails. Everything drawn is remembered by name and becomes the case in a failure message.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import torch
    from hypothesis.strategies import DataObject

T = TypeVar("T")


class CaseSource(Protocol):
    """Answers the two questions a case is made of."""

    def integer(self, low: int, high: int, name: str) -> int:
        """An integer in [low, high]."""

    def choice(self, options: Sequence[T], name: str) -> T:
        """One of `options`."""


class SeededSource:
    """The plain source: Python's own generator under a seed, nothing to install."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int, name: str) -> int:
        """An integer in [low, high], uniformly."""
        return self._random.randint(low, high)

    def choice(self, options: Sequence[T], name: str) -> T:
        """One of `options`, uniformly."""
        return self._random.choice(options)


class HypothesisSource:
    """Asks a hypothesis data object, which biases towards edges and can shrink."""

    def __init__(self, data: DataObject) -> None:
        self._data = data

    def integer(self, low: int, high: int, name: str) -> int:
        """An integer in [low, high]."""
        from hypothesis import strategies

        return int(self._data.draw(strategies.integers(low, high), label=name))

    def choice(self, options: Sequence[T], name: str) -> T:
        """One of `options`; the first counts as the simplest."""
        from hypothesis import strategies

        return self._data.draw(strategies.sampled_from(options), label=name)


class Case:
    """One drawn case: shapes from `source`, tensors from a torch generator whose seed is drawn too."""

    def __init__(self, source: CaseSource) -> None:
        self._source = source
        self._generator: torch.Generator | None = None
        self.drawn: dict[str, object] = {}

    def integer(self, name: str, low: int, high: int) -> int:
        """An integer in [low, high], remembered under `name`."""
        value = self._source.integer(low, high, name)
        self.drawn[name] = value
        return value

    def choice(self, name: str, options: Sequence[T]) -> T:
        """One of `options`, remembered under `name`."""
        value = self._source.choice(options, name)
        self.drawn[name] = value
        return value

    @property
    def generator(self) -> torch.Generator:
        """The case's own torch generator; its seed is drawn at the first use."""
        if self._generator is None:
            import torch

            self._generator = torch.Generator().manual_seed(self.integer("seed", 0, 2**16 - 1))
        return self._generator

    def normal(self, *shape: int, dtype: torch.dtype | None = None, bound: float = 4.0) -> torch.Tensor:
        """Standard normal values clipped to [-bound, bound], so that bounds which count magnitudes stay finite."""
        import torch

        values = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return values.clamp(-bound, bound).to(dtype or torch.float64)

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """Integers in [low, high), uniformly."""
        import torch

        return torch.randint(low, high, shape, generator=self.generator)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.drawn.items()) or "no free choice"

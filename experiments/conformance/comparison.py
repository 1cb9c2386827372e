"""Compares a value of ours with a framework's, and says on failure which value, where, and between whom.

A difference is measured against `magnitude`: the size of the terms the value was made of. By default that is the
largest entry of either side; where a value is a difference of larger terms (a gradient through softmax, say) the check
passes their size, since that is what the rounding errors scale with. NaN equals NaN and an infinity equals itself, so
defined edge cases are compared like any other value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from experiments.conformance.tolerance import Tolerance

if TYPE_CHECKING:
    import torch

    Value = torch.Tensor | float | int | bool | list[int] | list[float] | None


class MismatchError(AssertionError):
    """A value of ours is not the framework's. The message has the value, the place and both implementations."""

    def __init__(self, value: str, place: str, ours: str, theirs: str, allowed: str, case: str) -> None:
        self.value, self.place, self.case = value, place, case
        super().__init__(f"{value} differs at {place}: {ours}, {theirs}; allowed {allowed}; case {case}")


@dataclass(slots=True)
class ComparisonLedger:
    """What the comparisons of one check saw: the worst error, and the tolerance it came closest to."""

    worst_error: float | None = None  # relative to the magnitude, where it took the largest share of its tolerance
    worst_share: float | None = None  # that share
    tolerance: str | None = None  # that tolerance, with its formula
    allowed: float | None = None  # that tolerance as a number
    comparisons: int = 0

    def note(self, error: float, tolerance: Tolerance) -> None:
        """Takes in one comparison's relative error."""
        self.comparisons += 1
        share = error / tolerance.relative
        if self.worst_share is None or share >= self.worst_share:
            self.worst_error, self.worst_share = error, share
            self.tolerance, self.allowed = tolerance.describe(), tolerance.relative

    def note_exact(self) -> None:
        """Takes in one comparison that allows no difference."""
        self.comparisons += 1
        if self.worst_error is None:
            self.worst_error, self.worst_share, self.tolerance, self.allowed = 0.0, 0.0, "exact", 0.0


@dataclass(slots=True)
class Comparer:
    """Compares under two names: `ours` is the hand-written implementation, `theirs` the oracle."""

    ours: str
    theirs: str
    ledger: ComparisonLedger = field(default_factory=ComparisonLedger)
    case: object = ""

    def agree(
        self, value: str, ours: Value, theirs: Value, tolerance: Tolerance, *, magnitude: float | None = None
    ) -> None:
        """Raises `MismatchError` unless every entry lies within tolerance.relative times the magnitude."""
        mine, other = self._pair(value, ours, theirs)
        self._same_pattern(value, mine, other, tolerance.describe())
        difference = (mine - other).abs().nan_to_num(nan=0.0)
        finite = max(_largest(mine), _largest(other))
        scale = finite if magnitude is None else max(magnitude, finite)
        error = _largest(difference) / scale if scale else 0.0
        self.ledger.note(error, tolerance)
        if error > tolerance.relative:
            self._fail(value, mine, other, int(difference.argmax()), f"{tolerance.describe()} of {scale:.3g}")

    def exactly(self, value: str, ours: Value, theirs: Value) -> None:
        """Raises `MismatchError` unless every entry is the same (NaN equals NaN)."""
        mine, other = self._pair(value, ours, theirs)
        self.ledger.note_exact()
        differs = ~((mine == other) | (mine.isnan() & other.isnan()))
        if bool(differs.any()):
            self._fail(value, mine, other, int(differs.flatten().int().argmax()), "no difference")

    def holds(self, value: str, condition: bool, ours: str, theirs: str) -> None:
        """Raises unless `condition`; for facts that are no numbers. `ours` and `theirs` say what each side does."""
        self.ledger.note_exact()
        if not condition:
            self._report(value, "the whole value", ours, theirs, "no difference")

    def _pair(self, value: str, ours: Value, theirs: Value) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        if ours is None or theirs is None:
            if ours is not theirs:
                names = ["nothing" if side is None else "a value" for side in (ours, theirs)]
                self._report(value, "the whole value", names[0], names[1], "both or neither")
            return torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
        mine, other = _wide(ours), _wide(theirs)
        if mine.shape != other.shape:
            self._report(value, "its shape", str(tuple(mine.shape)), str(tuple(other.shape)), "the same shape")
        return mine, other

    def _same_pattern(self, value: str, mine: torch.Tensor, other: torch.Tensor, allowed: str) -> None:
        """NaN and infinities must stand in the same places before differences mean anything."""
        unusual = ~mine.isfinite() | ~other.isfinite()
        differs = unusual & ~((mine == other) | (mine.isnan() & other.isnan()))
        if bool(differs.any()):
            self._fail(value, mine, other, int(differs.flatten().int().argmax()), allowed)

    def _fail(self, value: str, mine: torch.Tensor, other: torch.Tensor, flat: int, allowed: str) -> None:
        place = _place(flat, tuple(mine.shape))
        left, right = float(mine.flatten()[flat]), float(other.flatten()[flat])
        self._report(value, place, f"{left:.17g}", f"{right:.17g}", allowed)

    def _report(self, value: str, place: str, mine: str, other: str, allowed: str) -> None:
        ours, theirs = f"{self.ours} gives {mine}", f"{self.theirs} gives {other}"
        raise MismatchError(value, place, ours, theirs, allowed, str(self.case))


def _wide(value: Value) -> torch.Tensor:
    """The value in float64, detached, on the CPU. Plain Python numbers must not pass through fp32 on the way."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().cpu().double()
    return torch.as_tensor(value, dtype=torch.float64)


def _largest(values: torch.Tensor) -> float:
    """The largest finite absolute entry, 0 for none."""
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _place(flat: int, shape: tuple[int, ...]) -> str:
    """`[1, 0, 3]` from a flat position; a scalar has no place but itself."""
    if not shape:
        return "the scalar"
    index = []
    for size in reversed(shape):
        index.append(flat % size)
        flat //= size
    return str(list(reversed(index)))

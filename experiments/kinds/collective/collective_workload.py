"""What is exchanged between how many ranks: every knob of a collective's workload, and the checks it has to pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from experiments.harness.measured_workload import MeasuredWorkload, check_bounds, check_repetition
from experiments.kinds.collective.cost_model import LEAST_SIZES
from experiments.kinds.collective.size_ladder import SIZES
from tools.environments.errors import EXIT_USAGE, LabError

MOST_RANKS = 8  # cards of one host; more ranks would leave bfloat16 too few integers to tell them apart
ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
DTYPES = tuple(ITEM_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveWorkload(MeasuredWorkload):
    """A collective over N ranks: one repetition is one at each size. Never widened: records name it by its digest."""

    ranks: int = 2
    collective: Literal["all_reduce"] = "all_reduce"
    sizes: tuple[int, ...]  # bytes of the tensor on one rank, rising: the ladder that the cost model is fitted to
    unseen: int  # bytes: timed with the others, and left out of the fit
    dtype: str = "float32"

    @property
    def timed(self) -> tuple[int, ...]:
        """Every size that is timed, the unseen one among them, rising."""
        return tuple(sorted((*self.sizes, self.unseen)))

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]


def check(workload: CollectiveWorkload) -> None:
    """Refuse a workload that cannot mean anything. Raises LabError (wrong usage) naming the option to change."""
    check_repetition(workload)
    check_bounds(("--ranks", workload.ranks, 2, MOST_RANKS))
    if workload.dtype not in ITEM_BYTES:
        raise _refused(
            "--dtype", f"a number format: {', '.join(DTYPES)}", ascii(workload.dtype)[:80], "--dtype float32"
        )
    foreign = [size for size in workload.timed if size not in SIZES]
    if foreign:
        option = "--unseen" if workload.unseen in foreign else "--sizes"
        wanted = f"powers of two from {SIZES[0]} to {SIZES[-1]} bytes"
        raise _refused(option, wanted, str(foreign[0]), f"{option} with powers of two")
    if list(workload.sizes) != sorted(set(workload.sizes)) or len(workload.sizes) < LEAST_SIZES:
        given = ",".join(map(str, workload.sizes))
        wanted = f"{LEAST_SIZES} different sizes at least, the smallest first: a line through two has no residual"
        raise _refused("--sizes", wanted, given[:80] or "none", "--sizes 1024,16384,262144")
    if workload.unseen in workload.sizes or not workload.sizes[0] < workload.unseen < workload.sizes[-1]:
        wanted = f"a size between {workload.sizes[0]} and {workload.sizes[-1]} bytes that is not on the ladder"
        raise _refused("--unseen", wanted, str(workload.unseen), "--unseen with a power of two between two of --sizes")


def sizes_from(text: str) -> tuple[int, ...]:
    """Sizes as the command line has them: `1024,4096,16384`. Raises LabError (wrong usage)."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise _refused(
            "--sizes", "whole numbers of bytes with commas between", ascii(text)[:80], "--sizes 1024,16384,262144"
        ) from None


def _refused(option: str, wanted: str, found: str, example: str) -> LabError:
    return LabError(
        wanted=wanted,
        found=found,
        next=f"leave {option} out to take the registered workload, or give {example}",
        where=option,
        code=EXIT_USAGE,
    )

"""What a conformance page is made of: checks that hold a mechanism against an oracle, and faults it must notice.

A check is a function of one `Trial`: it draws a case, runs the mechanism and the oracle, and compares. It reaches the
mechanism only through `trial.mechanism(name)`, so the same check judges the real module and every mutant of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.conformance.comparison import Comparer
from experiments.conformance.drawing import Case


@dataclass(frozen=True, slots=True)
class Trial:
    """What a check is given: the mechanism modules (real or mutated), a drawn case, and the comparer."""

    modules: Mapping[str, Any]
    case: Case
    compare: Comparer

    def mechanism(self, name: str) -> Any:
        """The module experiments.mechanisms.NAME, or its mutant."""
        return self.modules[name]


@dataclass(frozen=True, slots=True)
class PageCheck:
    """One value check. `ours` and `theirs` name both sides in a message.

    `needs` names the frameworks beside torch that it is checked against, of those in the topic's topic.toml. `examples`
    bounds the drawn cases; a check without free choices takes one.
    """

    name: str
    run: Callable[[Trial], None]
    ours: str  # "cross_entropy.causal_lm_loss"
    theirs: str  # "torch.nn.functional.cross_entropy"
    needs: tuple[str, ...] = ()
    examples: int = 20


@dataclass(frozen=True, slots=True)
class Mutant:
    """A small fault as data: `old` stands exactly once in the module's source and becomes `new`.

    `report` is the number of the public bug report this fault repeats, where there is one. `noticed_by` names the check
    of the page that is there to notice it: that one is asked first, and draws until it has; without a name, and behind
    it, every check is asked in the page's order.
    """

    name: str
    module: str
    old: str
    new: str
    fault: str  # what goes wrong, in one line
    report: int | None = None
    noticed_by: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One tutorial page: the mechanism modules it teaches, and its checks, the quickest to notice a fault first."""

    id: str
    modules: tuple[str, ...]
    checks: Sequence[PageCheck]

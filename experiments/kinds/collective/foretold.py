"""The cost model of one finished candidate and how its prediction went, computed from what its record holds."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.evidence.candidate import Candidate
from experiments.kinds.collective.collective_workload import CollectiveWorkload
from experiments.kinds.collective.cost_model import CostModel, Expected, fit
from experiments.kinds.collective.size_ladder import word_at


@dataclass(frozen=True, slots=True)
class Foretold:
    """A fitted line, what it says of the unseen size, and the median that was measured there (milliseconds)."""

    model: CostModel
    expected: Expected
    measured_ms: float

    @property
    def holds(self) -> bool:
        """Whether the unseen size lies inside the interval of its prediction."""
        return self.expected.holds(self.measured_ms)

    @property
    def code(self) -> str:
        """The sentence that says how the prediction went."""
        if not self.holds:
            return "cost_model_misses"
        return "cost_model_is_loose" if self.expected.is_wide else "cost_model_holds"


def foretold(candidate: Candidate, workload: CollectiveWorkload) -> Foretold | None:
    """The line through the candidate's medians; None where it was not timed at every size."""
    medians = [candidate.median(word_at(size)) for size in workload.sizes]
    measured = candidate.median(word_at(workload.unseen))
    known = [median for median in medians if median is not None]
    if measured is None or len(known) != len(medians):
        return None
    model = fit(workload.sizes, known)
    return Foretold(model, model.expected(workload.unseen), measured)

"""What a checkpointing run says: same gradients, what it frees, what it costs, and what dropout needs."""

from __future__ import annotations

from experiments.evidence.conclusion import Claim, Decision
from experiments.harness.experiment import Observed
from experiments.kinds.training_step.concluding import (
    able,
    equivalence,
    memories,
    names,
    stands_in_the_way,
    times,
    weighed,
)
from experiments.kinds.training_step.training_workload import TrainingWorkload


def conclude(observed: Observed[TrainingWorkload]) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. Levels are for `grade`."""
    claims = [
        *equivalence(observed, "none", "the layers were computed twice, from the same inputs"),
        *_dropout(observed),
    ]
    if observed.device.kind == "cuda":
        claims += [*times(observed), *memories(observed)]
    return tuple(claims), _decision(observed)


def _dropout(observed: Observed[TrainingWorkload]) -> list[Claim]:
    claims = []
    for (candidate, _), answer in observed.probes.items():
        kept, lost = answer.get("kept_error"), answer.get("lost_error")
        if not isinstance(kept, int | float) or not isinstance(lost, int | float):
            continue
        exact = "bit-identical" if kept == 0 else f"{kept:.1e} off"
        statement = (
            f"under dropout {answer['dropout']}: gradients are {exact} when the second run repeats the random state, "
            f"{lost:.1e} off (relative L2) when it is not"
        )
        claims.append(Claim(kind="gradient_equivalence", statement=statement, candidates=(candidate,)))
    return claims


def _decision(observed: Observed[TrainingWorkload]) -> Decision:
    found = stands_in_the_way(observed)
    if found is not None:
        return found
    for answer in observed.probes.values():
        kept = answer.get("kept_error")
        if isinstance(kept, int | float) and kept > 1e-3:
            sentence = f"Do not checkpoint with dropout: the random state was not restored ({kept:.1e} off)."
            return Decision(code="numerics_broken", sentence=sentence)
    if observed.device.kind == "cpu":
        said = f"{names(able(observed))} keep the gradients; what they free and cost only a card can tell."
        return Decision(code="numerics_ok", sentence=said)
    return weighed(observed)

"""What an offload run says: same gradients, what it frees and costs, how far the transfer floor is, which form won."""

from __future__ import annotations

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.sentences import claim, decision, say
from experiments.harness.experiment import Observed
from experiments.kinds.training_step.concluding import able, equivalence, memories, stands_in_the_way, times, weighed
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.training_mechanism.activation_offload.sentences import SENTENCES

CHECKPOINTED, WITH_INPUTS = "checkpoint every layer", "checkpoint + layer inputs offloaded"
OVERLAPPED, PEER = "overlapped", "TRL OffloadActivations"


def conclude(observed: Observed[TrainingWorkload]) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. Levels are for `grade`."""
    claims = equivalence(observed, "none", say(SENTENCES, "only_moved"))
    if observed.device.kind == "cuda":
        claims += [*times(observed), *_beside(observed), *_floor(observed), *memories(observed)]
    return tuple(claims), _decision(observed)


def _beside(observed: Observed[TrainingWorkload]) -> list[Claim]:
    """Candidates against each other where the page's question is not about the baseline."""
    claims = []
    for mine, other in ((WITH_INPUTS, CHECKPOINTED), (OVERLAPPED, PEER)):
        ratio, busy = _ratio(observed, mine, other, "step_ms"), _ratio(observed, mine, other, "busy_ms")
        if ratio is None:
            continue
        in_busy = [] if busy is None else [say(SENTENCES, "in_busy_time", ratio=busy)]
        said = say(SENTENCES, "step_beside", candidate=mine, other=other, ratio=ratio, busy=in_busy)
        ground = ("step_ms",) if busy is None else ("step_ms", "busy_ms")
        claims.append(claim("time", said, (mine, other), ground))
    return claims


def _floor(observed: Observed[TrainingWorkload]) -> list[Claim]:
    candidate, baseline = observed.candidate(OVERLAPPED), next((c for c in observed.candidates if c.is_baseline), None)
    step, base = _median(candidate, "step_ms"), _median(baseline, "step_ms")
    floors = [floor.floor for floor in candidate.floors if floor.quantity == "step_ms"] if candidate else []
    if candidate is None or candidate not in able(observed) or step is None or base is None or not floors:
        return []
    bound = max(base, *floors)
    code = "floor_is_computation" if bound == base else "floor_is_transfer"
    said = say(SENTENCES, code, candidate=OVERLAPPED, ratio=step / bound, floor_ms=bound)
    return [claim("time", said, (OVERLAPPED,), ("step_ms",))]


def _ratio(observed: Observed[TrainingWorkload], mine: str, other: str, quantity: str) -> float | None:
    good = {candidate.name for candidate in able(observed)}
    top, bottom = _median(observed.candidate(mine), quantity), _median(observed.candidate(other), quantity)
    return None if top is None or not bottom or not {mine, other} <= good else top / bottom


def _median(candidate: Candidate | None, quantity: str) -> float | None:
    return None if candidate is None else candidate.median(quantity)


def _decision(observed: Observed[TrainingWorkload]) -> Decision:
    found = stands_in_the_way(observed)
    if found is not None:
        return found
    if observed.device.kind == "cpu":
        return decision("numerics_ok", say(SENTENCES, "kept_on_cpu", candidates=[c.name for c in able(observed)]))
    return weighed(observed)

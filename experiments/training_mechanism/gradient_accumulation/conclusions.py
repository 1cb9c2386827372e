"""What an accumulation run says: same update whatever the pieces, who is wrong, memory against time, who waits."""

from __future__ import annotations

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.sentences import claim, decision, say
from experiments.harness.experiment import Observed
from experiments.harness.gates_held import control_caught
from experiments.kinds.training_step.concluding import able, equivalence, memories, stands_in_the_way, times, weighed
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.training_mechanism.gradient_accumulation.sentences import SENTENCES

BUSY_LIMIT = 1.2  # a step without launch bound takes at most so many times the time its card is busy


def conclude(observed: Observed[TrainingWorkload]) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. Levels are for `grade`."""
    baseline = next((c.name for c in observed.candidates if c.is_baseline), "the whole batch")
    claims = [
        *equivalence(observed, baseline, say(SENTENCES, "divided_by_all_tokens")),
        *_wrong_control(observed),
    ]
    if observed.device.kind == "cuda":
        claims += [*times(observed), *_waiting(observed), *memories(observed)]
    return tuple(claims), _decision(observed)


def _controls(observed: Observed[TrainingWorkload]) -> list[Candidate]:
    return [c for c in observed.candidates if c.role == "control" and c.status == "ok"]


def _wrong_control(observed: Observed[TrainingWorkload]) -> list[Claim]:
    claims = []
    for control in _controls(observed):
        gate = control.checks.gates.get("gradient")
        if gate is None or gate.error is None or gate.tolerance is None or not control_caught(control):
            continue
        said = say(SENTENCES, "mean_is_off", control=control.name, error=gate.error, tolerance=gate.tolerance)
        claims.append(claim("gradient_equivalence", said, (control.name,), ("gradient",)))
    return claims


def _waiting(observed: Observed[TrainingWorkload]) -> list[Claim]:
    """For each candidate: how its step compares with the time its own card is busy, and so whether it waits."""
    claims = []
    for candidate in able(observed):
        ratio = beyond_busy(candidate)
        if ratio is None:
            continue
        free = candidate.settings.get("captured") is True or candidate.settings.get("compiled") is True
        what = say(SENTENCES, "launch_bound" if "launch_bound" in candidate.marks else "not_launch_bound")
        if free:
            what = say(SENTENCES, "within_limit" if ratio <= BUSY_LIMIT else "beyond_limit", limit=BUSY_LIMIT)
        said = say(SENTENCES, "beyond_busy", candidate=candidate.name, ratio=ratio, what=what)
        claims.append(claim("time", said, (candidate.name,), ("step_ms", "busy_ms")))
    return claims


def beyond_busy(candidate: Candidate) -> float | None:
    """Length of a step over the time its card is busy; None where either was not measured."""
    step, busy = candidate.median("step_ms"), candidate.median("busy_ms")
    return None if step is None or not busy else step / busy


def _decision(observed: Observed[TrainingWorkload]) -> Decision:
    found = stands_in_the_way(observed)
    if found is not None:
        return found
    loose = [c.name for c in _controls(observed) if not control_caught(c)]
    if loose:
        return decision("inconclusive", say(SENTENCES, "control_passed", controls=loose))
    if not any(c.role == "candidate" for c in observed.candidates):
        return decision("inconclusive", say(SENTENCES, "one_row"))
    if observed.device.kind == "cpu":
        wrong = [say(SENTENCES, "wrong_as_meant", control=control.name) for control in _controls(observed)]
        right = [candidate.name for candidate in able(observed)]
        return decision("numerics_ok", say(SENTENCES, "same_update", candidates=right, wrong=wrong))
    return weighed(observed)

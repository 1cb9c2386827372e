"""What an accumulation run says: same update whatever the pieces, who is wrong, memory against time, who waits."""

from __future__ import annotations

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.rules.v1.gates import control_caught
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

BUSY_LIMIT = 1.2  # a step without launch bound takes at most so many times the time its card is busy


def conclude(observed: Observed[TrainingWorkload]) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. Levels are for `grade`."""
    baseline = next((c.name for c in observed.candidates if c.is_baseline), "the whole batch")
    claims = [
        *equivalence(observed, baseline, "every loss was divided by the tokens of the whole batch"),
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
        statement = (
            f"gradients of {control.name} are {gate.error:.1e} off (relative L2, where rounding allows "
            f"{gate.tolerance:.1e}): a token in a micro-batch of short rows weighs more"
        )
        claims.append(Claim(kind="gradient_equivalence", statement=statement, candidates=(control.name,)))
    return claims


def _waiting(observed: Observed[TrainingWorkload]) -> list[Claim]:
    """For each candidate: how its step compares with the time its own card is busy, and so whether it waits."""
    claims = []
    for candidate in able(observed):
        ratio = beyond_busy(candidate)
        if ratio is None:
            continue
        free = candidate.settings.get("captured") is True or candidate.settings.get("compiled") is True
        word = "launch_bound, the card waits for Python" if "launch_bound" in candidate.marks else "not launch-bound"
        if free:
            side = "within" if ratio <= BUSY_LIMIT else "beyond"
            word = f"{side} the {BUSY_LIMIT} x that a launch-free step may take"
        statement = f"a step of {candidate.name} takes {ratio:.2f} x the time the card is busy in it: {word}"
        claims.append(Claim(kind="time", statement=statement, candidates=(candidate.name,)))
    return claims


def beyond_busy(candidate: Candidate) -> float | None:
    """Length of a step over the time its card is busy; None where either was not measured."""
    step, busy = candidate.median("step_ms"), candidate.median("busy_ms")
    return None if step is None or not busy else step / busy


def _decision(observed: Observed[TrainingWorkload]) -> Decision:
    found = stands_in_the_way(observed)
    if found is not None:
        return found
    loose = names(c for c in _controls(observed) if not control_caught(c))
    if loose:
        said = f"{loose} is wrong and passed: rows are too alike here for the gates to tell. Take unequal lengths."
        return Decision(code="inconclusive", sentence=said)
    if not any(c.role == "candidate" for c in observed.candidates):
        return Decision(code="inconclusive", sentence="One row cannot be cut: give --batch 2 or more.")
    if observed.device.kind == "cpu":
        wrong = "".join(f"; {c.name} does not, as it must" for c in _controls(observed))
        said = f"{names(able(observed))} make the same update{wrong}. What they save only a card can tell."
        return Decision(code="numerics_ok", sentence=said)
    return weighed(observed)

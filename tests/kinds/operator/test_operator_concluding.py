"""What experiments on an operation conclude: what prevents a decision, and how time and peak are weighed."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.evidence.candidate import Candidate, Checks, Failure, Gate, Memory, Sample
from experiments.evidence.rules import CURRENT
from experiments.harness.experiment import DeviceFacts, Observed
from experiments.harness.gates_held import gates_hold
from experiments.kinds.operator import concluding
from experiments.kinds.operator.kind import KIND
from experiments.kinds.operator.operator_workload import OperatorWorkload

CARD = DeviceFacts(kind="cuda", torch="2.11.0+cu128", torch_cuda="12.8", bf16_native=True, tf32=True)
WORKLOAD = OperatorWorkload(name="w", rows=4, in_features=64, out_features=48, steps=3, warmup=1, rounds=2)


def gate(error: float, tolerance: float = 1e-6) -> Gate:
    return Gate(passed=error <= tolerance, against="x", error=error, tolerance=tolerance)


def made(name: str, role: Any = "candidate", *, call: float = 1.0, peak: int | None = 100, **more: Any) -> Candidate:
    """A finished candidate: milliseconds of a call, weight bytes, peak in bytes, errors of its gates."""
    weight, errors = more.pop("weight", 40.0), more.pop("errors", {})
    samples = tuple(
        Sample(
            round=turn,
            position=0,
            step=step,
            values={"call_ms": call * (1 + 0.002 * step), **({"weight_bytes": weight} if step == 2 else {})},
        )
        for turn in range(2)
        for step in range(3)
    )
    wanted = KIND.wanted(role)
    gates = {word: gate(errors.get(word, 0.0)) for word in wanted if word != "finite"}
    whole: dict[str, Any] = {
        "name": name,
        "role": role,
        "settings": {},
        "status": "ok",
        "samples": samples,
        "summary": CURRENT.summarise(name, samples, KIND.words.quantities),
        "memory": None if peak is None else Memory(peak_allocated_bytes=peak),
        "checks": Checks(finite=True, wanted=wanted, gates=gates),
    }
    return Candidate(**{**whole, **more})


def lost(name: str, status: Any = "failed", role: Any = "candidate", proposal: str | None = None) -> Candidate:
    failure = Failure(phase="call", kind="SomeError", message="words", proposal=proposal)
    return Candidate(name=name, role=role, settings={}, status=status, failure=failure)


def seen(*others: Candidate, base: Candidate | None = None, twin: Candidate | None = None) -> concluding.Calls:
    everybody = (base or BASE, twin or TWIN, *others)
    found = CURRENT.comparisons(everybody, KIND.words.quantities)
    return Observed(workload=WORKLOAD, device=CARD, candidates=everybody, comparisons=found)


BASE, TWIN = made("dense", "baseline"), made("dense (again)", "baseline_again", call=1.001)
CAUGHT = made("wrong", "control", errors={"value": 0.3, "dense": 0.3}, samples=(), summary=None)


def decided(*others: Candidate, **more: Any) -> tuple[str, str]:
    observed = seen(*others, **more)
    found = concluding.prevents(observed) or concluding.weighed(observed)
    return found.code, found.sentence


def test_what_frees_memory_and_is_not_slower_comes_first() -> None:
    code, sentence = decided(made("a", peak=60), made("b", peak=50, call=3.0), CAUGHT)
    assert (code, sentence) == ("adopt", "Take a: a call peaks 40 % lower and is not slower.")


def test_what_frees_memory_for_time_is_told_with_its_price_and_the_cheapest_is_named() -> None:
    code, sentence = decided(made("a", peak=60, call=1.5), made("b", peak=50, call=3.0), CAUGHT)
    assert code == "adopt_if_memory_bound"
    assert sentence == "a peaks 40 % lower for 1.50 x the time: take it if memory is short."


def test_what_is_only_faster_is_taken() -> None:
    code, sentence = decided(made("a", peak=125, call=0.5), CAUGHT)
    assert (code, sentence) == ("adopt", "Take a: 0.50 x the time of dense; the peak of a call is not lower.")


def test_what_is_slower_and_peaks_higher_is_avoided() -> None:
    code, sentence = decided(made("a", peak=125, call=2.0), CAUGHT)
    assert code == "avoid"
    assert "nothing is gained" in sentence


def test_a_share_not_worth_a_word_frees_nothing() -> None:
    assert decided(made("a", peak=99, call=2.0))[0] == "avoid"


def test_within_the_noise_nothing_is_decided() -> None:
    noisy = made("dense (again)", "baseline_again", call=2.0)
    assert decided(made("a", peak=125, call=1.3), twin=noisy)[0] == "inconclusive"


def test_without_a_peak_there_is_nothing_to_weigh() -> None:
    bare = made("dense", "baseline", peak=None)
    assert decided(made("a", peak=None), base=bare) == (
        "inconclusive",
        "No candidate has both a time and a peak to weigh.",
    )


@pytest.mark.parametrize("failed", ["value", "dense", "work"])
def test_any_failed_gate_stops_everything(failed: str) -> None:
    code, sentence = decided(made("a", errors={failed: 1.0}), CAUGHT)
    assert (code, sentence) == ("numerics_broken", "Do not use a: a gate failed.")


def test_a_baseline_off_float64_is_named() -> None:
    assert decided(made("a"), base=made("dense", "baseline", errors={"value": 1.0}))[1].startswith("Do not use dense:")


def test_a_twin_that_does_not_repeat_leaves_nothing_to_compare_with() -> None:
    twin = made("dense (again)", "baseline_again", errors={"dense": 1.0})
    code, sentence = decided(made("a"), twin=twin)
    assert code == "numerics_broken"
    assert "does not repeat" in sentence


def test_a_control_that_passed_makes_the_run_inconclusive() -> None:
    blind = made("wrong", "control", samples=(), summary=None)
    code, sentence = decided(made("a", peak=50), blind)
    assert code == "inconclusive"
    assert sentence.startswith("wrong passed and must not")


def test_a_wanted_gate_that_was_not_run_does_not_hold() -> None:
    missing = made("a", checks=Checks(finite=True, wanted=KIND.wanted("candidate"), gates={"value": gate(0.0)}))
    assert not gates_hold(missing)
    code, sentence = decided(missing)
    assert code == "inconclusive", "not run is not wrong"
    assert sentence == "Nothing ran that could be compared (a: without dense, work)."


def test_one_that_lacks_a_gate_which_others_ran_is_left_out_and_not_called_wrong() -> None:
    missing = made("a", checks=Checks(finite=True, wanted=KIND.wanted("candidate"), gates={"value": gate(0.0)}))
    code, sentence = decided(missing, made("b", peak=50))
    assert code != "numerics_broken"
    assert sentence.startswith("Take b")


def test_what_came_to_nothing_is_told_and_what_does_not_fit_says_what_to_try() -> None:
    assert decided(lost("a")) == ("inconclusive", "Nothing ran that could be compared (a: SomeError in call).")
    assert decided(lost("a", "oom", proposal="--rows 2 under a new --run-label")) == (
        "does_not_fit",
        "Nothing fits on this device; try --rows 2 under a new --run-label.",
    )
    assert decided(lost("a", "oom"))[1] == "Nothing fits on this device; try less."


def test_a_candidate_that_broke_down_is_no_verdict_on_another() -> None:
    assert decided(lost("b"), made("a", peak=60), CAUGHT)[0] == "adopt"


def test_nothing_executed_is_not_measured() -> None:
    names = (("dense", "baseline"), ("a", "candidate"))
    planned = tuple(lost(name, "skipped", role) for name, role in names)
    nothing = Observed(workload=WORKLOAD, device=CARD, candidates=planned, comparisons=())
    found = concluding.prevents(nothing)
    assert found is not None
    assert found.code == "not_measured"
    assert not [*concluding.equivalence(nothing), *concluding.weights(nothing), *concluding.peaks(nothing)]


def test_claims_name_their_ground_and_leave_out_whoever_failed() -> None:
    good, bad = made("a", weight=10.0, call=2.0, peak=120), made("b", weight=10.0, errors={"value": 1.0})
    observed = seen(good, bad, CAUGHT)
    (agree,) = concluding.equivalence(observed)
    assert (agree.candidates, agree.rests_on) == (("a",), ("value", "dense", "work"))
    (weight,) = concluding.weights(observed)
    assert weight.statement == "a call of a reads its weight from 10 bytes, dense from 40: 4.00 x less"
    assert (weight.candidates, weight.rests_on) == (("a", "dense"), ("weight_bytes", "work"))
    (peak,) = concluding.peaks(observed)
    assert peak.statement == "a call of a peaks at 120 bytes allocated, dense at 100"
    (time,) = concluding.times(observed)
    assert time.statement == "a call of a takes 2.000 x that of dense: slower"
    assert concluding.share_read(observed) == 0.25


def test_a_weight_that_is_no_smaller_is_no_claim() -> None:
    assert concluding.weights(seen(made("a", weight=40.0))) == []

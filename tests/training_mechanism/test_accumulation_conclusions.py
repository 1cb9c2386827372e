"""What the accumulation page forecasts for a card, and what it concludes from finished candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sample_observed import CARD, CPU, broken, candidate, gate, observed

from experiments.evidence.candidate import Checks
from experiments.evidence.record import Calibration
from experiments.harness.experiment import DeviceFacts, Forecast, Options
from experiments.kinds.training_step.ledger.ledger_fit import fit
from experiments.kinds.training_step.ledger.ledger_settings import for_candidate
from experiments.kinds.training_step.training_experiment import ForecastRequest
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.models import registered_config
from experiments.training_mechanism.gradient_accumulation.conclusions import beyond_busy, conclude
from experiments.training_mechanism.gradient_accumulation.experiment import EXPERIMENT, candidates, forecast

WRONG, GRAPH, COMPILED = "8 x 1, mean per micro-batch", "8 x 1, CUDA graph", "8 x 1, torch.compile"


# Forecasts


def forecast_of(name: str, device: DeviceFacts = CARD, workload: str = "large") -> Forecast:
    chosen = EXPERIMENT.workloads[workload]
    spec = next(one for one in candidates(chosen, device, Options()) if one.name == name)
    rate = Calibration(matmul_tflops={"bfloat16": 700.0}, host_to_device_gb_s=50.0, device_to_host_gb_s=50.0)
    shape = _shape(chosen)
    return forecast(ForecastRequest(spec=spec, workload=chosen, shape=shape, device=device, calibration=rate))


def _shape(workload: TrainingWorkload) -> Any:
    return registered_config.shape(registered_config.config(workload.model))


def test_nothing_is_forecast_for_a_cpu() -> None:
    assert forecast_of("2 x 4", CPU, "smoke") == Forecast()


def test_smaller_pieces_are_predicted_to_need_less() -> None:
    peaks = {}
    for name in ("1 x 8", "2 x 4", "4 x 2", "8 x 1"):
        (peaks[name],) = [p.predicted for p in forecast_of(name).predictions if p.quantity == "peak_allocated_bytes"]
    assert list(peaks.values()) == sorted(peaks.values(), reverse=True)
    assert peaks["8 x 1"] / 2**30 == pytest.approx(11.7, rel=0.05), "as measured on a card"


def test_a_graph_is_predicted_by_what_it_reserves() -> None:
    found = {p.quantity: p.predicted / 2**30 for p in forecast_of(GRAPH).predictions}
    assert set(found) == {"peak_allocated_bytes", "peak_reserved_bytes"}
    assert found["peak_allocated_bytes"] == pytest.approx(7.6, rel=0.05), "as measured on a card"
    assert found["peak_reserved_bytes"] > found["peak_allocated_bytes"] + 2


def test_every_candidate_has_the_floor_of_its_products_and_a_compiled_one_nothing_else() -> None:
    for spec in candidates(EXPERIMENT.workloads["large"], CARD, Options()):
        (floor,) = forecast_of(spec.name).floors
        assert (floor.quantity, floor.limited_by) == ("step_ms", "bfloat16 matmul rate")
        assert 30 < floor.floor < 60
    assert forecast_of(COMPILED).predictions == ()


def test_a_format_whose_rate_was_not_measured_has_no_floor() -> None:
    chosen = EXPERIMENT.workloads["large"]
    (spec, *_) = candidates(chosen, CARD, Options())
    request = ForecastRequest(spec=spec, workload=chosen, shape=_shape(chosen), device=CARD, calibration=None)
    assert forecast(request).floors == ()


@pytest.mark.parametrize(("workload", "gib"), [("default", 12), ("fit-8gib", 8)])
def test_the_registered_workloads_fit_the_cards_they_are_for(workload: str, gib: int) -> None:
    chosen = EXPERIMENT.workloads[workload]
    for device in (CARD, replace(CARD, bf16_native=False)):
        rows = fit(chosen, candidates(chosen, device, Options()), _shape(chosen), gib * 2**30)
        assert {row.verdict for row in rows} == {"fits", "not predicted"}
        assert [row.candidate for row in rows if row.verdict == "not predicted"] == [COMPILED]


def test_the_ledger_knows_every_setting_of_the_page() -> None:
    for spec in candidates(EXPERIMENT.workloads["large"], CARD, Options()):
        known = for_candidate(EXPERIMENT.workloads["large"], spec.settings)
        assert (known is None) == (spec.name == COMPILED)
        if known is not None:
            assert known.micro_batches == spec.settings["micro_batches"]


# Conclusions

BASE = candidate("1 x 8", "baseline", step=120.0, busy=115.0, peak=32.7, reserved=36.0)
PLAIN = candidate("8 x 1", step=850.0, busy=184.0, peak=11.7, reserved=11.9, marks=("launch_bound",))
REPLAYED = candidate(GRAPH, step=205.0, busy=193.0, peak=7.6, reserved=12.5, settings={"captured": True})
CAUGHT = candidate(WRONG, "control", error=0.6)


def statements(*others: Any, device: DeviceFacts = CARD) -> list[str]:
    claims, _ = conclude(observed(BASE, *others, device=device))
    return [claim.statement for claim in claims]


def test_the_control_s_error_is_a_claim_of_its_own() -> None:
    said = statements(PLAIN, CAUGHT)
    assert "gradients and first update of 8 x 1 agree with 1 x 8" in said[0]
    assert said[1] == (
        f"gradients of {WRONG} are 6.0e-01 off (relative L2, where rounding allows 1.0e-02): "
        "a token in a micro-batch of short rows weighs more"
    )


def test_a_control_that_passed_makes_the_run_inconclusive() -> None:
    blunt = candidate(WRONG, "control", error=1e-3)
    claims, decision = conclude(observed(BASE, PLAIN, blunt))
    assert decision.code == "inconclusive"
    assert "unequal lengths" in decision.sentence
    assert not [claim for claim in claims if claim.candidates == (WRONG,)]


def test_who_waits_for_python_and_who_does_not_is_said_in_their_own_busy_time() -> None:
    said = statements(PLAIN, REPLAYED)
    beside = "x the time the card is busy in it"
    assert f"a step of 8 x 1 takes 4.62 {beside}: launch_bound, the card waits for Python" in said
    assert f"a step of {GRAPH} takes 1.06 {beside}: within the 1.2 x that a launch-free step may take" in said


def test_a_launch_free_step_that_still_waits_misses_its_line() -> None:
    late = candidate(COMPILED, step=297.0, busy=184.0, settings={"compiled": True})
    assert any(COMPILED in said and "beyond the 1.2 x" in said for said in statements(late))


def test_busy_time_nobody_measured_gives_no_ratio() -> None:
    assert beyond_busy(candidate("a")) is None
    assert beyond_busy(candidate("a", step=3.0)) is None


def test_a_candidate_that_was_not_timed_says_nothing_of_waiting() -> None:
    assert not [said for said in statements(candidate("3 + 3 + 2")) if "busy" in said]


def test_on_a_card_the_graph_wins_by_what_it_reserves() -> None:
    _, decision = conclude(observed(BASE, PLAIN, REPLAYED, CAUGHT))
    assert decision.code == "adopt_if_memory_bound"
    assert decision.sentence.startswith(f"{GRAPH} frees 65 % of the peak")  # of what is reserved: 12.5 of 36
    large = replace(REPLAYED, memory=replace(REPLAYED.memory, peak_reserved_bytes=14 * 2**30))  # type: ignore[type-var]
    _, decision = conclude(observed(BASE, PLAIN, large, CAUGHT))
    assert decision.sentence.startswith("8 x 1 frees 64 % of the peak")


def test_a_missing_compiler_leaves_the_page_s_decision_alone() -> None:
    _, decision = conclude(observed(BASE, PLAIN, CAUGHT, broken(COMPILED, kind="CompilerMissingError")))
    assert decision.code == "adopt_if_memory_bound"


def test_on_a_cpu_nothing_is_said_of_time_and_memory() -> None:
    claims, decision = conclude(observed(BASE, PLAIN, CAUGHT, device=CPU))
    assert {claim.kind for claim in claims} == {"gradient_equivalence"}
    assert decision.code == "numerics_ok"
    assert decision.sentence == (
        f"8 x 1 make the same update; {WRONG} does not, as it must. What they save only a card can tell."
    )


def test_wrong_gradients_come_first() -> None:
    _, decision = conclude(
        observed(BASE, replace(PLAIN, checks=Checks(finite=True, gates={"gradient": gate(0.5)})), CAUGHT)
    )
    assert decision.code == "numerics_broken"

"""The offload page: a peer from a path, floors and forecasts, and what a run concludes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_bench import PageBench
from sample_observed import CARD, CPU, candidate, observed

from experiments.evidence.candidate import Floor
from experiments.evidence.record import Calibration
from experiments.harness.experiment import DeviceFacts, Forecast, Options
from experiments.kinds.training_step.answers import Notes
from experiments.kinds.training_step.training_experiment import ForecastRequest
from experiments.models import registered_config
from experiments.training_mechanism.activation_offload.conclusions import conclude
from experiments.training_mechanism.activation_offload.experiment import EXPERIMENT, candidates, forecast
from tools.environments.errors import LabError

QWEN = registered_config.shape(registered_config.config("Qwen/Qwen2.5-0.5B"))
PINNED, PEER = "save_on_cpu, pinned", "TRL OffloadActivations"


# A peer from a path

STAND_IN = """
from torch.autograd.graph import saved_tensors_hooks

class OffloadActivations(saved_tensors_hooks):
    def __init__(self, use_pin_memory, use_streams):
        super().__init__(lambda tensor: tensor.clone(), lambda tensor: {back})
"""


def peer_bench(folder: Path, back: str = "tensor") -> PageBench:
    models = folder / "trl" / "models"
    models.mkdir(parents=True)
    (models / "activation_offloading.py").write_text(STAND_IN.format(back=back))
    return PageBench(EXPERIMENT, folder, Options(peer_path=str(models)), batch=2, sequence=16, oracle=False)


def test_a_peer_is_loaded_from_its_file_and_named_by_its_version(tmp_path: Path) -> None:
    bench = peer_bench(tmp_path)
    (tmp_path / "trl-1.16.0.dist-info").mkdir()
    answer = bench.gate(PEER)
    assert answer.notes == Notes(peer="trl 1.16.0")
    made = bench.judged(PEER, answer)
    assert made.settings["peer"] == "trl 1.16.0"
    assert "gradient" in made.checks.gates
    assert made.checks.gates["gradient"].error == 0.0


def test_a_peer_without_metadata_is_named_by_its_content(tmp_path: Path) -> None:
    answer = peer_bench(tmp_path).gate(PEER)
    assert str(answer.notes.peer).startswith("trl, file sha256:")


def test_a_peer_whose_gradients_are_wrong_fails_the_same_gates(tmp_path: Path) -> None:
    checks = peer_bench(tmp_path, "tensor * 1.01 if tensor.is_floating_point() else tensor").checks(PEER)
    assert "gradient" in checks.gates
    assert not checks.gates["gradient"].passed


def test_a_path_without_the_peer_is_refused_with_what_to_do(tmp_path: Path) -> None:
    bench = PageBench(EXPERIMENT, tmp_path, Options(peer_path=str(tmp_path)), batch=1, sequence=16)
    with pytest.raises(LabError, match="unpack a trl wheel"):
        bench.program(PEER)


# Forecasts and floors

RATES = Calibration(matmul_tflops={"bfloat16": 700.0}, host_to_device_gb_s=50.0, device_to_host_gb_s=25.0)


def forecast_of(name: str, **change: Any) -> Forecast:
    chosen = EXPERIMENT.workloads["large"]
    (spec,) = [one for one in candidates(chosen, CARD, Options(peer_path="x")) if one.name == name]
    made: dict[str, Any] = {"spec": spec, "workload": chosen, "shape": QWEN, "device": CARD, "calibration": RATES}
    return forecast(ForecastRequest(**{**made, **change}))


def test_the_transfer_floor_is_bytes_out_and_bytes_back_at_their_own_rates() -> None:
    (floor,) = forecast_of("overlapped", transferred_bytes=20 * 10**9).floors
    assert (floor.quantity, floor.limited_by, floor.unit) == ("step_ms", "pinned bandwidth", "ms")
    assert floor.floor == pytest.approx(10 / 25 * 1e3 + 10 / 50 * 1e3)


@pytest.mark.parametrize(
    "change",
    [
        {"transferred_bytes": None},
        {"transferred_bytes": 1, "calibration": None},
        {"transferred_bytes": 1, "calibration": replace(RATES, device_to_host_gb_s=None)},
    ],
)
def test_there_is_no_floor_without_bytes_or_rates(change: dict[str, Any]) -> None:
    assert forecast_of("overlapped", **change).floors == ()


def test_the_ledger_predicts_every_form_but_the_peer_s() -> None:
    for name in ("none", "overlapped", PINNED, "checkpoint + layer inputs offloaded"):
        assert {row.quantity for row in forecast_of(name).predictions} >= {
            "after_forward_bytes",
            "peak_allocated_bytes",
        }
    assert forecast_of(PEER).predictions == ()
    assert forecast_of("overlapped", device=CPU).predictions == ()


# Conclusions

BASE = candidate("none", "baseline", step=220.0, busy=218.0, peak=32.7, after=20.0)


def said(*others: Any, device: DeviceFacts = CARD) -> str:
    claims, _ = conclude(observed(BASE, *others, device=device))
    return " | ".join(claim.statement for claim in claims)


def test_layer_inputs_are_held_against_checkpointing_alone_and_the_peer_against_ours() -> None:
    text = said(
        candidate("checkpoint every layer", step=270.0, busy=268.0, peak=20.5),
        candidate("checkpoint + layer inputs offloaded", step=275.4, busy=270.7, peak=19.8),
        candidate("overlapped", step=700.0, busy=690.0, peak=19.5),
        candidate(PEER, step=723.0, busy=700.0, peak=19.6),
    )
    assert (
        "a step of checkpoint + layer inputs offloaded takes 1.020 x that of checkpoint every layer, 1.010 x in time"
        in text
    )
    assert f"a step of overlapped takes 0.968 x that of {PEER}" in text


def test_a_peer_that_did_not_run_or_computes_otherwise_is_not_compared() -> None:
    ours = candidate("overlapped", step=700.0, peak=19.5)
    assert PEER not in said(ours)
    assert f"that of {PEER}" not in said(ours, candidate(PEER, step=100.0, peak=19.6, error=0.5))


def test_where_computation_is_longer_than_the_transfer_it_is_the_floor() -> None:
    floor = Floor(quantity="step_ms", limited_by="pinned bandwidth", unit="ms", floor=100.0)
    text = said(candidate("overlapped", step=231.0, peak=19.5, floors=(floor,)))
    assert "overlapped takes 1.050 x its floor" in text
    assert "computation, 220.0 ms" in text


def test_on_a_cpu_nothing_is_said_of_time() -> None:
    claims, decision = conclude(observed(BASE, candidate("overlapped", error=0.0), device=CPU))
    assert {claim.kind for claim in claims} == {"gradient_equivalence"}
    assert decision.code == "numerics_ok"


def test_fault_18_offload_that_lowers_no_peak_is_to_be_avoided() -> None:
    worse = candidate("overlapped", step=300.0, peak=34.0, after=20.0)
    _, decision = conclude(observed(BASE, worse))
    assert decision.code == "avoid"


def test_fault_18_a_copy_that_is_waited_for_stands_far_from_its_floor() -> None:
    """Transfer 690 ms, computation 220: hidden it takes 700, waited for it takes the sum."""
    floor = Floor(quantity="step_ms", limited_by="pinned bandwidth", unit="ms", floor=690.0)
    for step, ratio in ((700.0, "1.014"), (910.0, "1.319")):
        claims, _ = conclude(observed(BASE, candidate("overlapped", step=step, peak=19.5, floors=(floor,))))
        assert any(
            f"takes {ratio} x its floor" in claim.statement and "transfer" in claim.statement for claim in claims
        )

"""The checkpointing page: same gradients in every form, what dropout needs, planted faults, what a run concludes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from page_bench import ASSET, PageBench
from sample_observed import CARD, CPU, broken, candidate, observed
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from experiments.conformance import catalogue, mutation
from experiments.evidence.codec import to_json
from experiments.harness.experiment import Forecast, Options
from experiments.harness.launch.outcome import Outcome
from experiments.harness.launch.process import run_forked
from experiments.kinds.training_step import gating
from experiments.kinds.training_step.ledger.ledger_fit import fit
from experiments.kinds.training_step.program import TrainingStep
from experiments.kinds.training_step.training_experiment import ForecastRequest
from experiments.mechanisms import checkpoint as mechanism
from experiments.models import registered_config
from experiments.training_mechanism.activation_checkpointing import worker
from experiments.training_mechanism.activation_checkpointing.conclusions import conclude
from experiments.training_mechanism.activation_checkpointing.experiment import (
    EXPERIMENT,
    PROBE,
    candidates,
    forecast,
)
from experiments.training_mechanism.shared.checkpointed_layers import wrap

QWEN = registered_config.shape(registered_config.config("Qwen/Qwen2.5-0.5B"))
FORMS = (
    "every layer",
    "every 2nd layer",
    "selective",
    "every layer, random state not kept",
    "every layer, reentrant",
    "every layer, torch",
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> PageBench:
    return PageBench(EXPERIMENT, tmp_path_factory.mktemp("gates"), batch=2, sequence=32)


def mutant(name: str) -> Any:
    """The checkpointing mechanism with one fault of the published matrix in it."""
    (found,) = [one for one in catalogue.mutants("activation_checkpointing") if one.name == name]
    return mutation.build(found)


def wrapped(bench: PageBench, form: Callable[..., Tensor]) -> TrainingStep:
    """The page's step with every layer run through `form(block, x)`."""
    context = bench.context("none")
    model = context.model()
    wrap(model, lambda number: True, form)
    return TrainingStep(model, context.batch(), context.optimizer(model.network.parameters()))


# Candidates and forecasts


def test_the_page_has_every_form_and_all_of_them_run_everywhere() -> None:
    for device in (CPU, CARD):
        found = candidates(EXPERIMENT.workloads["smoke"], device, Options())
        assert [spec.name for spec in found] == ["none", *FORMS]
        assert not any(spec.unavailable for spec in found)
        assert [spec.name for spec in found if spec.probes] == ["every layer"]


def forecasts(workload: str = "large") -> dict[str, Forecast]:
    chosen = EXPERIMENT.workloads[workload]
    return {
        spec.name: forecast(ForecastRequest(spec=spec, workload=chosen, shape=QWEN, device=CARD, calibration=None))
        for spec in candidates(chosen, CARD, Options())
    }


def predicted(found: Forecast, quantity: str) -> float:
    (value,) = [entry.predicted for entry in found.predictions if entry.quantity == quantity]
    return value


def test_recomputing_is_predicted_to_cost_what_the_page_says() -> None:
    found = forecasts()
    assert predicted(found["every layer"], "step_ratio") == pytest.approx(1.249, abs=6e-4)
    assert predicted(found["every layer, torch"], "step_ratio") == predicted(found["every layer"], "step_ratio")
    assert predicted(found["every 2nd layer"], "step_ratio") == pytest.approx(1.1245, abs=6e-4)
    assert not [entry for entry in found["none"].predictions if entry.quantity == "step_ratio"]


def test_nothing_is_forecast_for_a_cpu() -> None:
    chosen = EXPERIMENT.workloads["smoke"]
    (spec, *_) = candidates(chosen, CPU, Options())
    request = ForecastRequest(spec=spec, workload=chosen, shape=QWEN, device=CPU, calibration=None)
    assert forecast(request) == Forecast()


@pytest.mark.parametrize(("workload", "gib"), [("default", 12), ("fit-8gib", 8)])
def test_the_registered_workloads_fit_the_cards_they_are_for(workload: str, gib: int) -> None:
    chosen = EXPERIMENT.workloads[workload]
    for device in (CARD, replace(CARD, bf16_native=False)):
        rows = fit(chosen, candidates(chosen, device, Options()), QWEN, gib * 2**30)
        assert {row.verdict for row in rows} == {"fits"}, rows


# The same gradients


@pytest.mark.parametrize("name", FORMS)
def test_gradients_and_update_are_bit_for_bit_those_without(bench: PageBench, name: str) -> None:
    checks = bench.checks(name)
    for found in (checks.gates["gradient"], checks.gates["update"]):
        assert found is not None
        assert found.error == 0.0
    assert "oracle" in checks.gates
    assert checks.gates["oracle"].passed


@pytest.mark.parametrize("name", ["every layer", "selective", "every layer, reentrant"])
def test_under_autocast_too(tmp_path: Path, name: str) -> None:
    bench = PageBench(EXPERIMENT, tmp_path, batch=1, sequence=16, precision="bf16", oracle=False)
    checks = bench.checks(name)
    assert "gradient" in checks.gates
    assert checks.gates["gradient"].error == 0.0


def saved_bytes(program: TrainingStep) -> int:
    """Bytes of the distinct storages that the graph of one step holds when its forward has ended."""
    held: dict[int, int] = {}
    alive: list[weakref.ref[Any]] = []

    class Kept:
        def __init__(self, tensor: Tensor) -> None:
            self.tensor = tensor

    def pack(tensor: Tensor) -> Kept:
        kept = Kept(tensor)
        alive.append(weakref.ref(kept))
        return kept

    def enter(phase: str) -> None:
        if phase == "loss_head":
            for reference in alive:
                kept = reference()
                if kept is not None:
                    storage = kept.tensor.untyped_storage()
                    held[storage.data_ptr()] = storage.nbytes()

    with saved_tensors_hooks(pack, lambda kept: kept.tensor):
        program.step(enter)  # type: ignore[arg-type]
    weights = {value.untyped_storage().data_ptr() for value in program.parameters().values()}
    return sum(size for pointer, size in held.items() if pointer not in weights)


def every(k: int) -> Callable[[int], bool]:
    return lambda number: number % k == 0


def deep_bench(folder: Path) -> Any:
    """A context of the page with six layers instead of two."""
    bench = PageBench(EXPERIMENT, folder, batch=1, sequence=32)
    return bench.context("none", asset=replace(ASSET, config={**ASSET.config, "num_hidden_layers": 6}))


def saved_with(context: Any, chosen: Callable[[int], bool]) -> int:
    model = context.model()
    wrap(model, chosen, lambda block, x: mechanism.checkpoint(block, x))
    return saved_bytes(TrainingStep(model, context.batch(), context.optimizer(model.network.parameters())))


def monotone(values: list[int]) -> bool:
    return values == sorted(values)


def test_fault_14_the_more_layers_are_recomputed_the_less_is_held(tmp_path: Path) -> None:
    """Every layer, every 2nd, every 3rd, every 6th, none: a step held more at each turn, by count and by the ledger."""
    context = deep_bench(tmp_path)
    ladder = [saved_with(context, every(k)) for k in (1, 2, 3, 6)] + [saved_with(context, lambda number: False)]
    assert monotone(ladder)
    assert len(set(ladder)) == len(ladder)
    # the rule turned round recomputes most where least was asked for: the same check notices
    turned = [saved_with(context, lambda number, k=k: number % k != 0) for k in (1, 2, 3, 6)]  # type: ignore[misc]
    assert not monotone(turned)
    found = forecasts()
    ledger = [predicted(found[name], "after_forward_bytes") for name in ("every layer", "every 2nd layer", "none")]
    assert ledger == sorted(ledger)
    assert ledger[0] < predicted(found["selective"], "after_forward_bytes") < ledger[2]


def test_the_page_s_own_rule_is_the_one_the_ledger_reckons_with(tmp_path: Path) -> None:
    """Bytes saved by the page's `every 2nd layer` are those of layers 0, 2, 4 recomputed."""
    context = deep_bench(tmp_path)
    spec = PageBench(EXPERIMENT, tmp_path).plan.spec("every 2nd layer")
    program = worker.build(replace(context, spec=spec))
    assert saved_bytes(program) == saved_with(context, every(2))


# Dropout


def test_the_probe_tells_a_kept_random_state_from_a_lost_one(bench: PageBench) -> None:
    answer = worker.dropout_random_state(bench.context("every layer"))
    assert answer["kept_error"] == 0.0
    assert isinstance(answer["lost_error"], float)
    assert answer["lost_error"] > 0.01


@pytest.mark.parametrize("name", ["rng_not_preserved"])
def test_fault_10_a_random_state_that_is_not_kept_breaks_the_decision(
    bench: PageBench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(worker, "checkpoint", mutant(name).checkpoint)
    answer = worker.dropout_random_state(bench.context("every layer"))
    assert isinstance(answer["kept_error"], float)
    assert answer["kept_error"] > 0.01
    every = candidate("every layer", probes={PROBE: answer})
    claims, decision = conclude(observed(candidate("none", "baseline"), every))
    assert decision.code == "numerics_broken"
    assert "random state" in decision.sentence
    assert not [claim for claim in claims if "bit-identical when" in claim.statement]


# Faults of others


def test_fault_11_a_block_without_an_input_that_needs_a_gradient_is_refused(bench: PageBench) -> None:
    """The older form would leave the parameters without gradients and only warn; here it is the candidate's failure."""
    program = wrapped(bench, lambda block, x: mechanism.checkpoint_reentrant(block, x.detach()))
    with pytest.raises(mechanism.CheckpointError, match="requires_grad_"):
        bench.gate("every layer, reentrant", program)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
def test_fault_11_gradients_that_never_came_fail_the_gate(bench: PageBench) -> None:
    """With the refusal taken out, and with PyTorch's own re-entrant form, the gate still sees what is missing."""
    silent = mutant("reentrant_silent").checkpoint_reentrant
    forms = (
        lambda block, x: silent(block, x.detach()),
        lambda block, x: torch.utils.checkpoint.checkpoint(block, x.detach(), use_reentrant=True),
    )
    for form in forms:
        checks = bench.checks("every layer, reentrant", wrapped(bench, form))
        assert "gradient" in checks.gates
        assert not checks.gates["gradient"].passed
        assert checks.gates["gradient"].error is not None
        assert checks.gates["gradient"].error > 0.1


def test_fault_12_a_second_run_without_the_autocast_of_the_first_is_a_recorded_failure(tmp_path: Path) -> None:
    bench = PageBench(EXPERIMENT, tmp_path, batch=1, sequence=16, precision="bf16", oracle=False)
    forgetful = mutant("autocast_forgotten").checkpoint

    def job(enter: Any) -> Any:
        context = bench.context("every layer")
        program = worker.build(replace(context, spec=bench.plan.spec("none")))
        wrap(program.model, lambda number: True, lambda block, x: forgetful(block, x))
        return to_json(gating.gate(context, program, tmp_path, enter))

    outcome: Outcome = run_forked(job, time_limit_s=60)
    assert outcome.died is not None
    assert (outcome.status, outcome.died.phase, outcome.died.kind) == ("failed", "backward", "CheckpointError")
    assert "in the first run, now it is" in outcome.died.message


def gradients(program: TrainingStep) -> Tensor:
    """All gradients of one step as one vector."""
    found: list[Tensor] = []
    values = program.parameters().values()
    program.step(gradients_ready=lambda scale: found.extend(v.grad.flatten() for v in values if v.grad is not None))
    return torch.cat(found)


def test_fault_13_an_in_place_change_of_a_kept_output_is_noticed(bench: PageBench) -> None:
    """A layer changes what selective checkpointing kept: refused, where a blind copy gives other gradients."""

    def spoiled(keeper: Any) -> TrainingStep:
        def form(block: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
            def run(y: Tensor) -> Tensor:
                return torch.nn.functional.linear(block(y), torch.eye(y.shape[-1])).mul_(2.0).sin()

            out: Tensor = keeper(run, x, keep=mechanism.MATRIX_PRODUCTS)
            return out

        return wrapped(bench, form)

    honest = gradients(spoiled(lambda run, x, keep: run(x)))
    with pytest.raises(mechanism.CheckpointError, match="changed in place"):
        spoiled(mechanism.checkpoint).step()
    blind = gradients(spoiled(mutant("disguise_unseen").checkpoint))
    assert float((blind - honest).norm() / honest.norm()) > 1e-3, "a hundred times what fp32 rounds away"


# Conclusions

BASE = candidate("none", "baseline", step=222.6, busy=220.0, peak=58.8, after=58.1)
EVERY = candidate("every layer", step=272.4, busy=270.0, peak=35.1, after=12.0, error=0.0)


def test_a_card_s_run_says_what_it_frees_and_what_it_costs() -> None:
    claims, decision = conclude(observed(BASE, EVERY))
    said = " | ".join(claim.statement for claim in claims)
    assert "bit-identical" in said
    assert "a step of every layer takes 1.224 x that of none: slower" in said
    assert "after the forward 12.00 GiB stay, of none 58.10" in said
    assert decision.sentence == "every layer frees 40 % of the peak for 1.22 x the time: take it when memory is short."


def test_dropout_is_a_claim_with_both_errors() -> None:
    answer = {"dropout": 0.1, "kept_error": 0.0, "lost_error": 0.31}
    claims, _ = conclude(observed(BASE, replace(EVERY, probes={PROBE: answer})))
    (claim,) = [one for one in claims if "dropout" in one.statement]
    assert "bit-identical when the second run repeats the random state" in claim.statement
    assert "3.1e-01 off" in claim.statement
    assert claim.candidates == ("every layer",)


def test_a_probe_without_an_answer_claims_nothing() -> None:
    claims, decision = conclude(observed(BASE, replace(EVERY, probes={PROBE: {}})))
    assert not [one for one in claims if "dropout" in one.statement]
    assert decision.code == "adopt_if_memory_bound"


def test_on_a_cpu_only_the_gradients_are_judged() -> None:
    claims, decision = conclude(observed(BASE, EVERY, device=CPU))
    assert {claim.kind for claim in claims} == {"gradient_equivalence"}
    assert decision.code == "numerics_ok"
    assert decision.sentence.startswith("every layer keep the gradients")


def test_wrong_gradients_come_first() -> None:
    _, decision = conclude(observed(BASE, candidate("selective", step=200.0, peak=20.0, error=0.5)))
    assert decision.code == "numerics_broken"


def test_a_form_that_broke_down_is_left_out_of_the_sentence() -> None:
    _, decision = conclude(observed(BASE, EVERY, broken("selective", kind="CheckpointError"), device=CPU))
    assert "selective" not in decision.sentence


# A whole run


def test_a_whole_run_holds_the_numerics_and_answers_the_dropout_question(tmp_path: Path) -> None:
    record = PageBench(EXPERIMENT, tmp_path, batch=1, sequence=16).record()
    assert {one.status for one in record.candidates} == {"ok"}
    assert record.decision.code == "numerics_ok"
    assert any("under dropout 0.1" in claim.statement for claim in record.claims)
    shown = EXPERIMENT.table(record)
    assert {row[-1] for row in shown.rows if row[0] in FORMS} == {"bit-identical"}

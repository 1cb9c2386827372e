"""What pages conclude in the same words, and the small parts they share: precision, mechanism, table, layers, FLOPs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sample_observed import CARD, CPU, OLD_CARD, WORKLOAD, broken, candidate, gate, observed
from sample_records import gpu_record
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from experiments.evidence.candidate import Checks
from experiments.evidence.conclusion import Decision
from experiments.evidence.sentences import names, say
from experiments.harness.experiment import CandidateSpec, Observed
from experiments.harness.gates_held import no_gate_failed
from experiments.kinds.training_step import concluding, precision
from experiments.kinds.training_step.ledger.flops import layer_forward, recompute_share, step_flops
from experiments.kinds.training_step.mechanism_of import plain
from experiments.kinds.training_step.worker import WorkerContext
from experiments.models import registered_config
from experiments.models.causal_lm import CausalLanguageModel
from experiments.training_mechanism.shared import memory_table
from experiments.training_mechanism.shared.checkpointed_layers import wrap

TINY = registered_config.asset("tiny-qwen2")
QWEN = registered_config.shape(registered_config.config("Qwen/Qwen2.5-0.5B"))
BECAUSE = say({"because": "because"}, "because")
BASE = candidate("none", "baseline", step=100.0, busy=95.0, peak=30.0, reserved=32.0, after=20.0)


def decided(*others: object, base: object = BASE) -> Decision:
    seen = observed(base, *others)  # type: ignore[arg-type]
    return concluding.stands_in_the_way(seen) or concluding.weighed(seen)


# Gates


def test_a_candidate_is_able_only_with_all_its_gates_held() -> None:
    good = candidate("good")
    seen = observed(BASE, good, candidate("off", error=0.5), candidate("lost", error=None), broken("dead"))
    assert concluding.able(seen) == [good]


def test_a_gate_nobody_ran_is_no_failure_but_lost_finiteness_is() -> None:
    assert no_gate_failed(candidate("none", "baseline"))
    assert not no_gate_failed(candidate("x", checks=Checks(finite=None)))
    assert not no_gate_failed(candidate("x", checks=Checks(finite=False)))


# Claims


def test_one_claim_says_which_candidates_agree_and_how_far_the_worst_is_off() -> None:
    seen = observed(BASE, candidate("a", error=1e-4), candidate("b", error=3e-3), candidate("wrong", error=0.5))
    (claim,) = concluding.equivalence(seen, "none", BECAUSE)
    assert claim.candidates == ("a", "b")
    assert "largest relative L2 error 3.0e-03 (b)" in claim.statement
    assert claim.statement.endswith("because")


def test_an_error_of_zero_is_said_as_bit_identical() -> None:
    (claim,) = concluding.equivalence(observed(BASE, candidate("a", error=0.0)), "none", BECAUSE)
    assert "bit-identical" in claim.statement


def test_nothing_is_claimed_where_no_gate_was_run() -> None:
    without = candidate("a", checks=Checks(finite=True))
    assert concluding.equivalence(observed(BASE, without), "none", BECAUSE) == []


def test_times_are_claimed_of_candidates_that_compute_the_same() -> None:
    seen = observed(BASE, candidate("a", step=150.0), candidate("wrong", error=0.5, step=50.0))
    (claim,) = concluding.times(seen)
    assert claim.candidates == ("a", "none")
    assert claim.statement == "a step of a takes 1.500 x that of none: slower"


def test_memory_is_claimed_with_both_sides_and_the_residency() -> None:
    seen = observed(BASE, candidate("a", peak=10.0, after=5.0), candidate("untimed"))
    (claim,) = concluding.memories(seen)
    assert claim.statement == (
        "a peaks at 10.00 GiB allocated, none at 30.00; after the forward 5.00 GiB stay, of none 20.00"
    )


def test_memory_nobody_measured_is_not_claimed() -> None:
    assert concluding.memories(observed(candidate("none", "baseline"), candidate("a", peak=1.0))) == []
    assert concluding.memories(observed(BASE, candidate("a"))) == []


def test_a_graph_s_pool_is_told_beside_what_is_allocated() -> None:
    graph = candidate("graph", peak=4.0, reserved=9.0, settings={"captured": True})
    (claim,) = concluding.memories(observed(BASE, graph))
    assert "9.00 GiB are reserved, of none 32.00" in claim.statement


# What stands in the way


def test_a_plan_that_was_not_executed_is_not_measured() -> None:
    skipped = replace(broken("a"), status="skipped")
    assert decided(skipped, base=replace(skipped, name="none", role="baseline")).code == "not_measured"


@pytest.mark.parametrize(
    "wrong", [candidate("a", error=0.5), broken("a", kind="NonFiniteLoss"), candidate("a", checks=Checks(finite=False))]
)
def test_wrong_numbers_decide_everything(wrong: object) -> None:
    found = decided(wrong, candidate("good", step=50.0, peak=1.0))
    assert found.code == "numerics_broken"
    assert "Do not use a:" in found.sentence


def test_a_candidate_that_could_not_start_says_nothing_about_the_others() -> None:
    found = decided(broken("a", kind="CompilerMissingError"), candidate("good", step=101.0, peak=15.0))
    assert (found.code, found.sentence) == ("adopt", "Take good: 50 % less peak at 1.01 x the time.")


def test_a_baseline_that_does_not_repeat_itself_ends_every_comparison() -> None:
    seen = observed(
        replace(BASE, summary=None, samples=()), candidate("a"), candidate("twin", "baseline_again", error=1.0)
    )
    found = concluding.stands_in_the_way(seen)
    assert found is not None
    assert found.code == "numerics_broken"
    assert found.sentence.startswith("twin does not repeat")


def test_a_failed_float64_oracle_is_not_told_as_a_baseline_that_does_not_repeat_itself() -> None:
    off, same = gate(0.5, against="float64 oracle"), gate(0.0)
    base = replace(BASE, checks=Checks(finite=True, gates={"oracle": off}))
    checks = Checks(finite=True, gates={"gradient": same, "update": same, "oracle": off})
    others = (candidate("a", checks=checks), candidate("twin", "baseline_again", checks=checks))
    found = concluding.stands_in_the_way(observed(base, *others))
    assert found is not None
    assert (found.code, "float64" in found.sentence, "repeat" in found.sentence) == ("numerics_broken", True, False)
    assert concluding.stands_in_the_way(observed(BASE, candidate("a"), others[1])) is None


def test_a_control_is_never_the_reason() -> None:
    assert decided(candidate("wrong", "control", error=0.5), candidate("a", step=101.0, peak=15.0)).code == "adopt"


def test_where_nothing_fits_the_ladder_is_named() -> None:
    base = broken("none", "oom", "OutOfMemoryError", "baseline", proposal="--batch 4 --sequence 512")
    found = decided(broken("a", "oom", "OutOfMemoryError"), base=base)
    assert found.code == "does_not_fit"
    assert "--batch 4 --sequence 512" in found.sentence


def test_a_baseline_that_does_not_fit_is_an_answer_if_a_candidate_does() -> None:
    base = broken("none", "oom", "OutOfMemoryError", "baseline")
    found = decided(candidate("a", step=1.0, peak=9.0), candidate("b", step=1.0, peak=8.0), base=base)
    assert (found.code, found.sentence) == ("adopt", "Take b: none does not fit here, it does.")


def test_a_card_that_was_lost_leaves_nothing_to_conclude() -> None:
    lost = broken("none", kind="DeviceLost", role="baseline")
    found = decided(broken("a", kind="DeviceLost"), base=lost)
    assert found.code == "inconclusive"
    assert "none: DeviceLost in backward" in found.sentence


# Weighing


def test_memory_that_costs_time_is_for_those_who_lack_it() -> None:
    found = decided(candidate("a", step=122.0, peak=12.0), candidate("b", step=300.0, peak=20.0))
    assert found.code == "adopt_if_memory_bound"
    assert found.sentence == "a frees 60 % of the peak for 1.22 x the time: take it when memory is short."


def test_the_cheapest_that_frees_anything_is_preferred_to_the_one_that_frees_most() -> None:
    found = decided(candidate("most", step=200.0, peak=3.0), candidate("free", step=101.0, peak=15.0))
    assert found.sentence.startswith("Take free:")


def test_what_frees_nothing_and_costs_is_to_be_avoided() -> None:
    assert decided(candidate("a", step=122.0, peak=29.9)).code == "avoid"


@pytest.mark.parametrize(
    ("freed", "code"),
    [
        (0.019, "avoid"),
        (0.021, "adopt_if_memory_bound"),
        (0.1, "adopt_if_memory_bound"),
        (0.19, "adopt_if_memory_bound"),
    ],
)
def test_two_percent_of_the_peak_are_worth_a_word(freed: float, code: str) -> None:
    assert decided(candidate("a", step=122.0, peak=30.0 * (1 - freed))).code == code


@pytest.mark.parametrize(("freed", "taken"), [(0.019, "most frees"), (0.021, "Take free:"), (0.1, "Take free:")])
def test_a_free_lunch_frees_two_percent_of_the_peak_at_least(freed: float, taken: str) -> None:
    """Beside a candidate that frees much and costs much: below two percent there is nothing to take for nothing."""
    found = decided(candidate("most", step=200.0, peak=3.0), candidate("free", step=101.0, peak=30.0 * (1 - freed)))
    assert found.sentence.startswith(taken)


def test_offload_that_raises_the_peak_is_to_be_avoided() -> None:
    assert decided(candidate("a", step=122.0, peak=33.0)).code == "avoid"


def test_without_memory_or_time_nothing_is_weighed() -> None:
    assert decided(candidate("a", step=122.0)).code == "inconclusive"
    assert decided(candidate("a", peak=3.0)).code == "inconclusive"


def test_a_graph_is_weighed_by_what_it_reserves() -> None:
    graph = candidate("graph", step=50.0, peak=4.0, reserved=31.9, settings={"captured": True})
    seen = observed(BASE, graph)
    assert concluding.freed(seen, graph) == pytest.approx(1 - 31.9 / 32, rel=1e-6)
    assert concluding.weighed(seen).code == "avoid"


# Precision and mechanism


@pytest.mark.parametrize(
    ("asked", "device", "autocast", "scaler", "dtype"),
    [
        ("auto", CPU, None, False, "float32"),
        ("auto", CARD, "bfloat16", False, "bfloat16"),
        ("auto", OLD_CARD, "float16", True, "float16"),
        ("fp32", CARD, None, False, "float32"),
        ("bf16", CPU, "bfloat16", False, "bfloat16"),
    ],
)
def test_bf16_is_chosen_only_where_it_is_native(
    asked: str, device: object, autocast: str | None, scaler: bool, dtype: str
) -> None:
    settings, found = precision.chosen(asked, device)  # type: ignore[arg-type]
    assert (settings["autocast"], settings["scaler"], found) == (autocast, scaler, dtype)


@pytest.mark.parametrize(("asked", "format"), [("tf32", "high"), ("fp32", "highest"), ("fp16", "highest")])
def test_settings_become_the_mechanism(asked: str, format: str) -> None:
    settings, _ = precision.chosen(asked, CPU)
    spec = CandidateSpec(name="a", role="candidate", settings={**settings, "head": "chunked"})
    try:
        made = plain(WorkerContext(workload=WORKLOAD, spec=spec, facts=CPU, asset=TINY))
        assert torch.get_float32_matmul_precision() == format
    finally:
        torch.set_float32_matmul_precision("highest")
    assert made.head == "chunked"
    assert made.autocast == (torch.float16 if asked == "fp16" else None)
    assert (made.scaler is not None) == (asked == "fp16")


# Layers and FLOPs


def tiny_model() -> CausalLanguageModel:
    spec = CandidateSpec(name="a", role="candidate", settings={})
    return WorkerContext(workload=WORKLOAD, spec=spec, facts=CPU, asset=TINY).model()


def test_only_chosen_layers_go_through_the_form_and_their_results_stay() -> None:
    model = tiny_model()
    ids = torch.arange(16).view(2, 8)
    before = model.hidden_states(ids)
    through: list[torch.Size] = []

    def form(block, x):  # type: ignore[no-untyped-def]
        through.append(x.shape)
        return block(x)

    wrap(model, lambda number: number == 1, form)
    assert torch.equal(model.hidden_states(ids), before)
    assert through == [torch.Size([2, 8, 64])]


def test_what_recomputing_costs_is_known_for_this_model() -> None:
    """24.5, 24.9 and 25.5 % at 512, 1024 and 2048: derived apart from this code, from the model's sizes."""
    for sequence, share in ((512, 0.245), (1024, 0.249), (2048, 0.255)):
        assert recompute_share(QWEN, sequence, lambda number: True) == pytest.approx(share, abs=6e-4)


def test_a_layer_s_forward_costs_what_pytorch_s_own_counter_counts() -> None:
    shape, sequence = registered_config.shape(TINY.config), 64
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        tiny_model().hidden_states(torch.zeros(2, sequence, dtype=torch.int64))
    # the counter leaves out the biases, which the formula counts as weights
    wanted = 2 * sequence * shape.layers * layer_forward(shape, sequence)
    assert counter.get_total_flops() == pytest.approx(wanted, rel=0.01)


def test_half_the_layers_cost_half_and_none_cost_nothing() -> None:
    whole = recompute_share(QWEN, 1024, lambda number: True)
    assert recompute_share(QWEN, 1024, lambda number: number % 2 == 0) == pytest.approx(whole / 2)
    assert recompute_share(QWEN, 1024, lambda number: False) == 0.0


def test_a_step_is_three_forwards_and_grows_with_rows() -> None:
    assert step_flops(QWEN, 8, 1024) == pytest.approx(8 * step_flops(QWEN, 1, 1024))
    # 6 operations a parameter and token, attention on top: embedding counted once, as the head
    assert step_flops(QWEN, 1, 1024) == pytest.approx(6 * QWEN.parameters * 1024, rel=0.05)


# The table


def test_the_table_says_what_became_of_the_gradients() -> None:
    record = gpu_record()
    shown = memory_table.table(record)
    column = shown.columns.index("gradients")
    words = {row[0]: row[column] for row in shown.rows}
    assert words["every layer"] == "1.0e-04"


def table_words(*candidates: object) -> dict[str, str]:
    record = gpu_record(candidates=candidates, comparisons=(), noise_floors=(), claims=())
    shown = memory_table.table(record)
    return {row[0]: row[-1] for row in shown.rows}


def test_failed_caught_and_identical_are_told_apart() -> None:
    words = table_words(
        BASE,
        candidate("same", error=0.0),
        candidate("off", error=0.5),
        candidate("lost", checks=Checks(finite=False)),
        candidate("mean", "control", error=0.5),
        candidate("blunt", "control", error=1e-3),
    )
    assert words["same"] == "bit-identical"
    assert words["off"] == "5.0e-01, gate failed"
    assert words["lost"] == "not finite"
    assert words["mean (wrong on purpose)"] == "5.0e-01, caught"
    assert words["blunt (wrong on purpose)"] == "1.0e-03, passed and must not"


def test_the_share_in_which_the_card_was_busy_is_shown_where_it_was_measured() -> None:
    taken = (
        BASE,
        candidate("waits", step=850.0, busy=184.0),
        candidate("untimed"),
        candidate("more", step=10.0, busy=10.2),
    )
    shown = memory_table.table(gpu_record(candidates=taken, comparisons=(), noise_floors=(), claims=()))
    column = shown.columns.index("card busy")
    assert [row[column] for row in shown.rows] == ["95 %", "22 %", "", "100 %"]
    without = memory_table.table(gpu_record(candidates=(candidate("a", step=1.0),), comparisons=(), claims=()))
    assert "card busy" not in without.columns


def test_what_did_not_run_is_a_note_with_its_reason() -> None:
    record = gpu_record(candidates=(BASE, replace(broken("a"), status="skipped")), comparisons=(), claims=())
    shown = memory_table.table(record)
    assert shown.notes == ("a did not run: words",)
    assert not any(row[0] == "a" for row in shown.rows)


def test_observed_finds_a_candidate_by_name() -> None:
    seen: Observed = observed(BASE)
    assert seen.candidate("none") is BASE
    assert seen.candidate("nobody") is None


def test_names_with_commas_stay_apart_in_a_sentence() -> None:
    assert names(["bf16", "tf32"]) == "bf16, tf32"
    assert names(["bf16", "tf32", "every layer, torch"]) == "bf16; tf32; every layer, torch"

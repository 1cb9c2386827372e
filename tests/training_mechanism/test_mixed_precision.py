"""The mixed-precision page: float64 oracle, scaler state machine, planted faults, and what a run concludes."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from sample_plans import CPU, job_of, plan_of, subject_of
from sample_records import GATES
from torch import Tensor
from torch.autograd import gradcheck

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Comparison
from experiments.evidence.quantities import percent
from experiments.harness import recording
from experiments.harness.experiment import DeviceFacts, Observed, Options
from experiments.harness.launch.outcome import EnterPhase, Outcome
from experiments.harness.launch.process import run_forked
from experiments.kinds.training_step import gating
from experiments.kinds.training_step.answers import GateAnswer
from experiments.kinds.training_step.kind import ORACLE_SPEC
from experiments.kinds.training_step.program import no_phase
from experiments.kinds.training_step.worker import WorkerContext
from experiments.mechanisms import decoder_float64, grad_scaler
from experiments.mechanisms.grad_scaler import ScalerState
from experiments.training_mechanism.mixed_precision_backward import scaler_probe, worker
from experiments.training_mechanism.mixed_precision_backward.conclusions import conclude
from experiments.training_mechanism.mixed_precision_backward.experiment import EXPERIMENT, candidates
from experiments.training_mechanism.mixed_precision_backward.presentation import table

ASSET = subject_of("tiny-qwen2").asset
PLAN = plan_of(EXPERIMENT)
SMALL = replace(PLAN, workload=replace(PLAN.workload, batch=2, sequence=32, steps=2, rounds=1))
CARD = DeviceFacts(kind="cuda", torch="2.11.0+cu130", torch_cuda="13.0", bf16_native=True, tf32=True)
WRONG = {"overall": 0.5, "worst": 0.9, "worst_name": "w", "tensors": 26, "not_finite": [], "reference_norm": 1.0}


def context(name: str) -> WorkerContext:
    return WorkerContext(workload=SMALL.workload, spec=SMALL.spec(name), facts=CPU, asset=ASSET)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The oracle and the baseline, written as references."""
    folder = tmp_path_factory.mktemp("scratch")
    made = replace(context("fp32"), spec=ORACLE_SPEC)
    made.prepare()
    gating.oracle(made, folder, no_phase)
    gate("fp32", folder)
    return folder


def gate(name: str, folder: Path) -> GateAnswer:
    made = context(name)
    made.prepare()
    return gating.gate(made, worker.build(made), folder, no_phase)


# The oracle


def test_the_oracle_agrees_with_transformers_to_fp32_and_is_float64_throughout(scratch: Path) -> None:
    result = gate("fp32 (again)", scratch)
    assert result.oracle.overall < 1e-6
    assert result.gradient.overall == 0.0  # the same step in another process: bit for bit on CPU


def test_the_oracles_gradient_is_the_derivative_of_its_loss() -> None:
    torch.manual_seed(0)
    sizes = decoder_float64.Sizes(layers=1, heads=2, kv_heads=1, rope_theta=1e4, norm_epsilon=1e-6)
    weights = {
        "model.embed_tokens.weight": torch.randn(7, 8, dtype=torch.float64),
        "model.norm.weight": torch.randn(8, dtype=torch.float64),
    }
    for name, shape in {
        "input_layernorm.weight": (8,),
        "post_attention_layernorm.weight": (8,),
        "self_attn.q_proj.weight": (8, 8),
        "self_attn.q_proj.bias": (8,),
        "self_attn.k_proj.weight": (4, 8),
        "self_attn.k_proj.bias": (4,),
        "self_attn.v_proj.weight": (4, 8),
        "self_attn.v_proj.bias": (4,),
        "self_attn.o_proj.weight": (8, 8),
        "mlp.gate_proj.weight": (6, 8),
        "mlp.up_proj.weight": (6, 8),
        "mlp.down_proj.weight": (8, 6),
    }.items():
        weights[f"model.layers.0.{name}"] = torch.randn(shape, dtype=torch.float64)
    ids = torch.tensor([[1, 4, 2]])
    names = list(weights)

    def loss(*values: Tensor) -> Tensor:
        return decoder_float64.loss(dict(zip(names, values, strict=True)), sizes, ids, ids, 3)

    assert gradcheck(loss, [value.requires_grad_() for value in weights.values()])


def test_a_planted_error_in_one_gradient_is_seen_by_the_gate(scratch: Path) -> None:
    made = context("bf16")
    made.prepare()
    program = worker.build(made)
    inner = program.step

    def spoiled(enter: Any = no_phase, gradients_ready: Callable[[Tensor], None] = lambda scale: None) -> Any:
        def ready(scale: Tensor) -> None:
            weight = program.parameters()["model.layers.1.mlp.down_proj.weight"]
            assert weight.grad is not None
            weight.grad *= 1.5
            gradients_ready(scale)

        return inner(enter, ready)

    program.step = spoiled  # type: ignore[method-assign]
    result = gating.gate(made, program, scratch, no_phase)
    honest = gate("bf16", scratch)
    assert result.gradient.worst_name == "model.layers.1.mlp.down_proj.weight"
    assert result.gradient.overall > 3 * honest.gradient.overall


# Formats


def test_each_stage_has_the_format_it_should_have(scratch: Path) -> None:
    dtypes = gate("fp16 + scaler", scratch).dtypes
    assert dtypes["parameter"] == dtypes["master_copy"] == dtypes["gradient"] == "float32"
    assert dtypes["activation"] == dtypes["gradient_in_backward"] == "float16"
    assert dtypes["residual_stream"] == "float32"
    assert set(gate("fp32 (again)", scratch).dtypes.values()) == {"float32"}


def test_scaling_saves_what_fp16_alone_loses(scratch: Path) -> None:
    scaled, bare = gate("fp16 + scaler", scratch), gate("fp16, unscaled", scratch)
    assert scaled.underflow.below_normal < bare.underflow.below_normal / 5
    assert scaled.gradient.overall < bare.gradient.overall
    assert gate("bf16", scratch).underflow.below_normal == 0


def test_a_fresh_scaler_that_overflows_first_is_compared_at_its_first_clean_step(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = torch.amp.GradScaler
    monkeypatch.setattr(torch.amp, "GradScaler", lambda device: real(device, init_scale=2.0**30))
    result = gate("fp16 + scaler", scratch)
    assert result.scales[0] == 2.0**30
    assert len(result.scales) > 1
    assert not result.skipped
    assert result.gradient.overall < 5e-3


def test_formats_the_device_lacks_are_listed_with_the_reason() -> None:
    workload = EXPERIMENT.workloads["smoke"]
    old = replace(CARD, bf16_native=False, tf32=False)
    missing = {spec.name: spec.unavailable for spec in candidates(workload, old, Options()) if spec.unavailable}
    assert set(missing) == {"tf32", "bf16"}
    assert not any(spec.unavailable for spec in candidates(workload, CARD, Options()))


def test_precision_narrows_the_candidates() -> None:
    workload = replace(EXPERIMENT.workloads["smoke"], precision="bf16")
    assert [spec.name for spec in candidates(workload, CPU, Options())] == ["fp32", "bf16"]


# The scaler


def test_the_written_out_scaler_and_pytorchs_walk_the_same_exact_states() -> None:
    answer = scaler_probe.injected_inf(context("fp16 + scaler"))
    assert answer["scales"] == [65536.0] * 3 + [32768.0] * 3 + [65536.0] * 3
    assert answer["scales"] == answer["own_scales"] == answer["expected_scales"]
    assert answer["skipped_steps"] == [2]
    assert answer["parameters_identical"]
    assert answer["optimizer_state_identical"]
    assert not answer["schedule_advanced"]
    assert answer["own_weights_identical"]
    assert answer["passed"]


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_thousand_random_overflows_agree_with_pytorch(optimizer: str) -> None:
    weight = torch.nn.Parameter(torch.ones(4))
    made = torch.optim.SGD([weight], lr=0.0) if optimizer == "sgd" else torch.optim.AdamW([weight], lr=0.0)
    theirs = torch.amp.GradScaler("cpu", growth_interval=4)
    ours = ScalerState(growth_interval=4)
    torch.manual_seed(1)
    for overflow in (torch.rand(1000) < 0.2).tolist():
        weight.grad = torch.full((4,), float("inf") if overflow else 1.0)
        theirs.scale(torch.zeros(()))
        theirs.step(made)
        theirs.update()
        ours = grad_scaler.advance(ours, overflow)
        assert theirs.get_scale() == ours.scale
    assert ours.skipped > 100


def test_a_nan_is_an_overflow_too() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.tensor([1.0, float("nan")])
    state, skipped = grad_scaler.step(torch.optim.SGD([weight], lr=1.0), ScalerState())
    assert skipped
    assert state.skipped == 1
    assert torch.equal(weight.detach(), torch.ones(2))


def faulty(change: str) -> Callable[..., Any]:
    """A scaler's step with one fault others shipped."""

    def make(context: WorkerContext, optimizer: torch.optim.Optimizer) -> Any:
        state = ScalerState(scale=scaler_probe.INITIAL_SCALE, growth_interval=scaler_probe.GROWTH_INTERVAL)

        def step(loss: Tensor, poison: Callable[[], None]) -> bool:
            nonlocal state
            grad_scaler.scale_loss(loss, state).backward()  # type: ignore[no-untyped-call]
            poison()
            if change == "steps anyway":
                grad_scaler.unscale([p for g in optimizer.param_groups for p in g["params"]], state)
                optimizer.step()
                state = grad_scaler.advance(state, found_inf=False)
                return False
            new, skipped = grad_scaler.step(optimizer, state)
            if change == "keeps its scale":
                new = replace(new, scale=state.scale)
            if change == "weight decay on a skip" and skipped:
                for group in optimizer.param_groups:
                    for parameter in group["params"]:
                        parameter.data.mul_(0.999)
            state = new
            return skipped and change != "does not report the skip"

        return step, lambda: state.scale

    return make


@pytest.mark.parametrize(
    "change", ["steps anyway", "keeps its scale", "weight decay on a skip", "does not report the skip"]
)
def test_a_faulty_scaler_never_passes_the_probe(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaler_probe, "_their_step", faulty(change))
    answer = scaler_probe.injected_inf(context("fp16 + scaler"))
    assert not answer["passed"]
    if change == "does not report the skip":
        assert answer["schedule_advanced"]  # an unreported skip moves the schedule
        assert answer["skips_counted"] == 0


def test_fp16_weights_under_a_scaler_are_refused_by_both() -> None:
    weight = torch.nn.Parameter(torch.ones(2, dtype=torch.float16))
    weight.grad = torch.ones(2, dtype=torch.float16)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    with pytest.raises(ValueError, match="unscale fp16 gradients: keep fp32 master weights"):
        grad_scaler.step(optimizer, ScalerState())
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.zeros(()))
    with pytest.raises(ValueError, match="unscale FP16 gradients"):
        scaler.step(optimizer)


def test_fp16_weights_in_a_candidate_are_its_recorded_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = WorkerContext.model

    def halved(self: WorkerContext) -> Any:
        model = real(self)
        model.network.half()
        return model

    monkeypatch.setattr(WorkerContext, "model", halved)
    (task,) = [t for t in SMALL.tasks() if t.kind == "measure" and t.candidate == "fp16 + scaler"]
    outcome = run_forked(job_of(EXPERIMENT, SMALL, task, tmp_path), time_limit_s=60)
    assert outcome.died is not None
    assert outcome.died.kind == "ValueError"
    assert "FP16 gradients" in outcome.died.message


@pytest.mark.skipif(sys.platform != "linux", reason="reads this process's size from /proc")
def test_a_real_out_of_memory_has_its_phase_and_leaves_the_next_task_alone(tmp_path: Path) -> None:
    large = replace(SMALL, workload=replace(SMALL.workload, batch=64, sequence=512))  # 96 MiB of logits, three times
    (task,) = [t for t in large.tasks() if t.kind == "measure" and t.candidate == "fp32"]

    def starved(enter: EnterPhase) -> Any:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + 200 * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        return job_of(EXPERIMENT, large, task, tmp_path)(enter)

    outcome = run_forked(starved, time_limit_s=120)
    assert outcome.status == "oom"
    assert outcome.died is not None
    assert outcome.died.phase in ("forward", "loss_head", "backward")
    job = job_of(EXPERIMENT, SMALL, task, tmp_path)
    assert run_forked(job, time_limit_s=60).status == "ok"


# Conclusions


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Every task of a small run, each in its own fork."""
    folder = tmp_path_factory.mktemp("answers")
    found = {}
    for task in SMALL.tasks():
        found[task.id] = run_forked(job_of(EXPERIMENT, SMALL, task, folder), time_limit_s=60)
        assert found[task.id].status == "ok", found[task.id]
    return found


def concluded(answers: dict[str, Outcome]) -> Any:
    from experiments.evidence.runtime_snapshot import collect

    subject = subject_of("tiny-qwen2")
    return recording.record(EXPERIMENT, SMALL, subject, answers, collect(), resumed=0, duration_s=1.0)


def changed(answers: dict[str, Outcome], task: str, **change: Any) -> dict[str, Outcome]:
    outcome = answers[task]
    return {**answers, task: replace(outcome, result={**(outcome.result or {}), **change})}


def test_a_whole_run_says_the_numerics_hold_and_nothing_of_speed(answers: dict[str, Outcome]) -> None:
    record = concluded(answers)
    assert record.decision.code == "numerics_ok"
    assert {claim.kind for claim in record.claims} == {"gradient_equivalence", "scaler_semantics"}
    assert all(one.memory is None and one.probes == {} for one in record.candidates)  # `numerics` tells the walk
    shown = table(record)
    assert [row[0] for row in shown.rows] == ["fp32 (baseline)", "bf16", "fp16 + scaler", "fp16, unscaled"]
    assert "one step skipped, state untouched" in shown.rows[2]


def test_table_sentence_and_claim_write_a_share_and_a_change_alike(answers: dict[str, Outcome]) -> None:
    record = concluded(changed(answers, "gate / fp16, unscaled", gradient=WRONG))
    bare = next(candidate for candidate in record.candidates if candidate.role == "control")
    share = percent(bare.numerics.underflow_share if bare.numerics else None)
    assert share.endswith(" %")
    assert f"its gate, with {share} of its gradients below fp16's normal range" in record.decision.sentence
    assert f"{share} of gradients below fp16's normal range" in table(record).rows[3][-1]
    assert "65536 → 32768" in table(record).rows[2]
    assert any("scale 65536 → 32768" in claim.statement for claim in record.claims)


def test_a_broken_state_machine_breaks_the_decision_and_its_claim(answers: dict[str, Outcome]) -> None:
    probe = "probe / fp16 + scaler / injected_inf"
    record = concluded(changed(answers, probe, passed=False, schedule_advanced=True))
    assert record.decision.code == "numerics_broken"
    assert "scaler_semantics" not in {claim.kind for claim in record.claims}
    assert "scaler state machine broken" in table(record).rows[2]


def test_a_scale_that_collapses_is_said_in_the_table_and_in_the_decision(answers: dict[str, Outcome]) -> None:
    task = "measure / fp16 + scaler / round 0"
    record = concluded(changed(answers, task, scales=[65536.0, 512.0], skipped=[True, False]))
    assert record.decision.code == "numerics_broken"
    assert "collapsed from 65536 to 512" in record.decision.sentence
    assert "scale collapsed 65536 → 512" in table(record).rows[2]


def test_a_candidate_whose_gradient_is_wrong_is_not_to_be_used(answers: dict[str, Outcome]) -> None:
    record = concluded(changed(answers, "gate / bf16", gradient=WRONG))
    assert record.decision.code == "numerics_broken"
    assert "bf16" in record.decision.sentence
    equivalence = next(claim for claim in record.claims if claim.kind == "gradient_equivalence")
    assert "bf16" not in equivalence.candidates


def on_a_card(ratio: float, verdict: Any, gates_pass: bool = True) -> Observed:
    def named(name: str, role: Any) -> Candidate:
        checks = GATES if gates_pass else replace(GATES, finite=False)
        return Candidate(name=name, role=role, settings={}, status="ok", checks=checks)

    comparison = Comparison(
        candidate="bf16", baseline="fp32", quantity="step_ms", ratio=ratio, low=ratio, high=ratio, verdict=verdict
    )
    candidates_ = (
        replace(named("fp32", "baseline"), checks=named("x", "candidate").checks),
        named("bf16", "candidate"),
    )
    return Observed(workload=SMALL.workload, device=CARD, candidates=candidates_, comparisons=(comparison,))


@pytest.mark.parametrize(
    ("ratio", "verdict", "code"),
    [(0.2, "faster", "adopt"), (1.0, "same", "equivalent"), (0.97, "ambiguous", "inconclusive")],
)
def test_on_a_card_the_decision_follows_the_verdict(ratio: float, verdict: str, code: str) -> None:
    claims, decision = conclude(on_a_card(ratio, verdict))
    assert decision.code == code
    assert any(claim.kind == "time" for claim in claims)


def test_on_a_card_a_fast_candidate_with_wrong_gradients_is_never_adopted() -> None:
    claims, decision = conclude(on_a_card(0.2, "faster", gates_pass=False))
    assert decision.code == "numerics_broken"
    assert not any(claim.kind == "time" for claim in claims)

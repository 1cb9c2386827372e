"""The grade: each condition of each level, alone and together, and what each lost condition says would lift it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sample_records import GATE, GATES, H200, candidate, cpu_record, gpu_record, report

from experiments.evidence import rules
from experiments.evidence.candidate import Candidate, Checks, Failure, Prediction
from experiments.evidence.conclusion import Claim
from experiments.evidence.limits import CLAIM_LIMITS, EVERY_CLAIM, LEVEL_LIMITS, claim_limit, level_limit
from experiments.evidence.record import Record
from experiments.evidence.rules.v1 import grading
from experiments.evidence.rules.v1.gates import control_caught, failed_gates, missing_gates
from experiments.evidence.vocabulary import LEVELS, RunMode
from tools.environments.model import Check

PEAK = ("peak_allocated_bytes",)
GROUNDS = {"memory": PEAK, "time": ("step_ms",), "gradient_equivalence": ("gradient",), "scaler_semantics": ("scaler",)}


def codes(record: Record) -> list[str]:
    return [limit.code for limit in record.limits]


def claim(record: Record, kind: str) -> Claim:
    return next(claim for claim in record.claims if claim.kind == kind)


def with_mode(record: Record, mode: RunMode, **changes: Any) -> Record:
    return rules.graded(replace(record, identity=replace(record.identity, run_mode=mode), **changes))


def with_candidates(*candidates: Candidate) -> Record:
    return gpu_record(candidates=candidates)


NONE, AGAIN, LAYER, OOM = gpu_record().candidates
SKIPPED = Failure(phase="other", kind="NotSupported", message="no bf16 here")


def test_a_whole_gpu_run_on_profile_is_measured() -> None:
    record = gpu_record(model=replace(gpu_record().model, weights_source="hub", resolved_commit="a1"))
    assert record.evidence_level == "gpu_measured"
    assert codes(record) == []


def test_a_dry_run_is_a_plan_whatever_it_holds() -> None:
    record = with_mode(gpu_record(), "dry_run")
    assert record.evidence_level == "plan"
    assert codes(record)[0] == "dry_run"


def test_a_cpu_run_is_a_mechanism_and_says_what_would_lift_it() -> None:
    record = cpu_record()
    assert record.evidence_level == "cpu_mechanism"
    assert codes(record)[0] == "cpu_only"
    assert "CUDA profile" in record.limits[0].lift


def test_a_ledger_alone_is_a_mechanism_that_was_not_executed() -> None:
    ledger = Prediction(quantity="peak_allocated_bytes", formula="ledger", unit="bytes", predicted=5e9)
    told = Candidate(
        name="none", role="baseline", settings={}, status="skipped", predictions=(ledger,), marks=("not_executed",),
        failure=SKIPPED,
    )  # fmt: skip
    about = (Claim(kind="memory", rests_on=PEAK, statement="5 GB expected", candidates=("none",)),)
    for mode in ("cpu_mechanism", "real_gpu"):
        record = with_mode(cpu_record(), mode, candidates=(told,), claims=about)  # type: ignore[arg-type]
        assert record.evidence_level == "cpu_mechanism"
        assert codes(record)[0] == "not_executed"
        assert claim(record, "memory").level == "cpu_mechanism"
        assert "expectation" in [limit.code for limit in claim(record, "memory").limits]


def test_nothing_executed_and_nothing_predicted_is_a_plan() -> None:
    failed = Candidate(name="none", role="baseline", settings={}, status="failed", failure=SKIPPED)
    record = with_candidates(failed)
    assert record.evidence_level == "plan"
    assert codes(record)[0] == "not_executed"


def test_real_gpu_without_a_card_is_no_gpu_evidence() -> None:
    record = gpu_record(runtime=replace(gpu_record().runtime, devices=()))
    assert record.evidence_level == "cpu_mechanism"
    assert codes(record)[0] == "no_device"


def test_a_cpu_image_never_yields_gpu_evidence() -> None:
    check = Check("container.image", "blocked", "an image built for P", "an image for TRAIN-CPU", "nox -s P -- --image")
    record = gpu_record(profile=replace(gpu_record().profile, preflight=report("P", check)))
    assert record.evidence_level == "cpu_mechanism"
    assert [(limit.code, limit.lift) for limit in record.limits[:1]] == [("other_image", "nox -s P -- --image")]
    assert all(claim.level == "cpu_mechanism" for claim in record.claims)


def test_a_cpu_profile_cannot_reach_a_gpu_level_by_passing_preflight() -> None:
    assert cpu_record(profile=gpu_record().profile).evidence_level == "cpu_mechanism"


@pytest.mark.parametrize("status", ["blocked", "warning"])
def test_another_torch_build_is_off_profile_and_never_mended_in_place(status: Any) -> None:
    check = Check("torch.build", status, "2.11.0+cu128", "2.11.0+cu130", "pip install torch==2.11.0+cu128")
    record = gpu_record(profile=replace(gpu_record().profile, preflight=report("TRAIN-CUDA130-MECHANISM", check)))
    assert record.evidence_level == "gpu_smoke"
    limit = next(limit for limit in record.limits if limit.code == "off_profile")
    assert "cu130" in limit.reason
    assert "cu128" in limit.reason
    assert "create a new environment" in limit.lift
    assert "pip install" not in limit.lift


def test_another_blocked_check_is_off_profile_and_carries_its_own_repair() -> None:
    check = Check("gpu.count", "blocked", "1 card", "none", "nvidia-smi")
    record = gpu_record(profile=replace(gpu_record().profile, preflight=report("P", check)))
    assert record.evidence_level == "gpu_smoke"
    assert [limit.lift for limit in record.limits if limit.code == "off_profile"] == ["nvidia-smi"]


@pytest.mark.parametrize("name", grading.ON_PROFILE)
def test_a_quick_preflight_cannot_prove_the_profile(name: str) -> None:
    for check in (Check(name, "skipped", "", "quick"), Check("other.check", "ok", "", "")):
        made = report("P", check)
        if check.id != name:
            made = replace(made, checks=tuple(c for c in made.checks if c.id != name))
        record = gpu_record(profile=replace(gpu_record().profile, preflight=made))
        assert record.evidence_level == "gpu_smoke"
        assert "profile_not_checked" in codes(record)


def test_no_preflight_at_all_is_smoke() -> None:
    record = gpu_record(profile=replace(gpu_record().profile, preflight=None))
    assert (record.evidence_level, codes(record)[0]) == ("gpu_smoke", "profile_not_checked")


def test_an_accepted_warning_limits_the_claims_and_not_the_level() -> None:
    check = Check("host.memory", "warning", "16 GiB", "8 GiB", "more memory")
    made = report("TRAIN-CUDA130-MECHANISM", check, accepted=("host.memory",))
    record = gpu_record(profile=replace(gpu_record().profile, preflight=made))
    assert record.evidence_level == "gpu_measured"
    assert "accepted_warning" in codes(record)
    assert all("accepted_warning" in [limit.code for limit in about.limits] for about in record.claims)


@pytest.mark.parametrize("registered", [None, "sha256:" + "11" * 32])
def test_an_unregistered_workload_is_smoke(registered: str | None) -> None:
    record = gpu_record(workload=replace(gpu_record().workload, registered_digest=registered))
    assert (record.evidence_level, codes(record)[0]) == ("gpu_smoke", "unregistered_workload")


def test_a_dirty_tree_is_smoke_and_a_checkout_without_git_is_not() -> None:
    dirty = gpu_record(source=replace(gpu_record().source, dirty=True))
    assert (dirty.evidence_level, codes(dirty)[0]) == ("gpu_smoke", "dirty_tree")
    bare = gpu_record(source=replace(gpu_record().source, commit=None, dirty=None))
    assert bare.evidence_level == "gpu_measured"


def test_without_a_twin_there_is_no_noise_floor() -> None:
    record = gpu_record(candidates=(NONE, LAYER), noise_floors=())
    assert (record.evidence_level, codes(record)[0]) == ("gpu_smoke", "no_noise_floor")


def test_a_noise_floor_that_rests_on_no_finished_twin_does_not_count() -> None:
    lost = Candidate(name=AGAIN.name, role=AGAIN.role, settings={}, status="failed", failure=SKIPPED)
    record = gpu_record(candidates=(NONE, lost, LAYER))
    assert "no_noise_floor" in codes(record)
    other = gpu_record(candidates=(NONE, replace(AGAIN, role="candidate"), LAYER))
    assert "no_noise_floor" in codes(other)


def test_a_failed_gate_is_smoke_and_holds_the_claims_down() -> None:
    bad = replace(GATE, passed=False, error=0.5)
    record = with_candidates(NONE, AGAIN, replace(LAYER, checks=replace(GATES, gates={**GATES.gates, "gradient": bad})))
    assert record.evidence_level == "gpu_smoke"
    limit = next(limit for limit in record.limits if limit.code == "gate_failed")
    assert "every layer: gradient gate 0.5 over 0.001" in limit.reason
    assert claim(record, "gradient_equivalence").level == "plan"
    assert claim(record, "time").level == "gpu_smoke"


@pytest.mark.parametrize(
    "checks", [Checks(wanted=GATES.wanted), replace(GATES, gates={"gradient": GATE}), replace(GATES, finite=None)]
)
def test_a_gate_that_was_not_run_never_counts_as_passed(checks: Checks) -> None:
    record = with_candidates(NONE, AGAIN, replace(LAYER, checks=checks))
    assert (record.evidence_level, "gate_missing" in codes(record)) == ("gpu_smoke", True)


def test_not_finite_is_a_failed_gate() -> None:
    record = with_candidates(NONE, AGAIN, replace(LAYER, checks=replace(GATES, finite=False)))
    assert "every layer: not finite" in next(li for li in record.limits if li.code == "gate_failed").reason


def test_an_oom_is_a_result_and_costs_no_level() -> None:
    assert OOM.status == "oom"
    assert gpu_record().evidence_level == "gpu_measured"
    assert failed_gates(OOM) == []
    assert missing_gates(OOM) == []


def test_a_control_is_meant_to_fail_and_is_a_limit_when_it_does_not() -> None:
    wrong = replace(LAYER, name="per micro-batch mean", role="control")
    caught = replace(wrong, checks=replace(GATES, gates={**GATES.gates, "gradient": replace(GATE, passed=False)}))
    assert control_caught(caught)
    record = with_candidates(NONE, AGAIN, LAYER, caught)
    assert (record.evidence_level, "control_not_caught" in codes(record)) == ("gpu_measured", False)
    loose = with_candidates(NONE, AGAIN, LAYER, wrong)
    assert (loose.evidence_level, "control_not_caught" in codes(loose)) == ("gpu_measured", True)
    limit = next(limit for limit in loose.limits if limit.code == "control_not_caught")
    assert limit.claims == ("gradient_equivalence",)
    assert [limit in claim.limits for claim in loose.claims] == [False, False, True]


def test_a_loose_control_that_no_claim_rests_on_limits_any() -> None:
    wrong = replace(LAYER, name="per micro-batch mean", role="control")
    loose = gpu_record(candidates=(NONE, AGAIN, LAYER, wrong), claims=gpu_record().claims[:1])
    limit = next(limit for limit in loose.limits if limit.code == "control_not_caught")
    assert limit.claims == EVERY_CLAIM
    assert limit in loose.claims[0].limits


def test_a_memory_cap_limits_memory_and_time_and_not_the_level() -> None:
    record = gpu_record(runtime=replace(gpu_record().runtime, devices=(replace(H200, memory_cap_gib=12.0),)))
    assert record.evidence_level == "gpu_measured"
    limit = next(limit for limit in record.limits if limit.code == "memory_cap")
    assert "small in memory, not in speed" in limit.reason
    assert limit.claims == ("memory", "time")
    assert "memory_cap" not in [limit.code for limit in claim(record, "gradient_equivalence").limits]


def test_a_shared_card_limits_the_claims() -> None:
    record = gpu_record(runtime=replace(gpu_record().runtime, devices=(replace(H200, other_processes=2),)))
    assert "shared_device" in codes(record)
    assert record.evidence_level == "gpu_measured"


def test_random_weights_leave_memory_time_and_gradients_and_forbid_quality() -> None:
    quality = Claim(kind="quality", statement="loss fell", candidates=("every layer",))
    record = gpu_record(claims=(*gpu_record().claims, quality))
    for kind in ("memory", "time", "gradient_equivalence"):
        assert claim(record, kind).level == "gpu_measured"
        assert "random_init" not in [limit.code for limit in claim(record, kind).limits]
    assert claim(record, "quality").level == "plan"
    assert "random_init" in [limit.code for limit in claim(record, "quality").limits]


def test_an_ambiguous_difference_is_a_limit_of_the_time_claim() -> None:
    unclear = tuple(replace(c, verdict="ambiguous") for c in gpu_record().comparisons)
    record = gpu_record(comparisons=unclear)
    assert "ambiguous" in [limit.code for limit in claim(record, "time").limits]
    assert "ambiguous" not in [limit.code for limit in claim(record, "memory").limits]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("time", ("everything kept",)),
        ("time", ()),
        ("time", ("nobody",)),
        ("gradient_equivalence", ("everything kept",)),
        ("scaler_semantics", ("every layer",)),
        ("memory", ("nobody",)),
    ],
)
def test_a_claim_about_what_was_not_measured_is_a_plan(kind: Any, names: tuple[str, ...]) -> None:
    record = gpu_record(claims=(Claim(kind=kind, rests_on=GROUNDS[kind], statement="so it is", candidates=names),))
    assert record.claims[0].level == "plan"
    assert "not_measured" in [limit.code for limit in record.claims[0].limits]


def test_running_out_of_memory_supports_a_memory_claim() -> None:
    record = gpu_record(
        claims=(Claim(kind="memory", rests_on=PEAK, statement="does not fit", candidates=("everything kept",)),)
    )
    assert record.claims[0].level == "gpu_measured"


def test_scaler_semantics_need_a_trace_that_held() -> None:
    assert claim(cpu_record(), "scaler_semantics").level == "cpu_mechanism"
    fp16 = cpu_record().candidates[2]
    assert fp16.numerics is not None
    assert fp16.numerics.scaler is not None
    broken = replace(fp16, numerics=replace(fp16.numerics, scaler=replace(fp16.numerics.scaler, passed=False)))
    record = cpu_record(candidates=(*cpu_record().candidates[:2], broken))
    assert claim(record, "scaler_semantics").level == "plan"


def test_off_a_card_memory_and_time_are_expectations() -> None:
    about = tuple(Claim(kind=kind, rests_on=("step_ms",), statement="x", candidates=("fp32",)) for kind in ("time",))
    record = cpu_record(claims=about)
    assert record.claims[0].level == "cpu_mechanism"
    assert "expectation" in [limit.code for limit in record.claims[0].limits]


def test_the_grade_is_never_told_the_answer() -> None:
    record = gpu_record(source=replace(gpu_record().source, dirty=True))
    boasting = replace(record, evidence_level="gpu_measured", limits=())
    assert grading.grade(boasting) == grading.grade(record)


def test_every_limit_has_a_reason_and_conditions_add_up() -> None:
    worst = gpu_record(
        profile=replace(gpu_record().profile, preflight=None),
        workload=replace(gpu_record().workload, registered_digest=None),
        source=replace(gpu_record().source, dirty=True),
        noise_floors=(),
    )
    wanted = ["profile_not_checked", "unregistered_workload", "no_noise_floor", "dirty_tree", "random_init"]
    assert codes(worst) == wanted
    assert all(limit.reason and limit.lift for limit in worst.limits)


def test_removing_a_defect_never_lowers_the_level() -> None:
    defects: list[dict[str, Any]] = [
        {"profile": replace(gpu_record().profile, preflight=None)},
        {"workload": replace(gpu_record().workload, registered_digest=None)},
        {"source": replace(gpu_record().source, dirty=True)},
        {"noise_floors": ()},
    ]
    whole = gpu_record()
    assert whole.evidence_level is not None
    for defect in defects:
        level = gpu_record(**defect).evidence_level
        assert level is not None
        assert LEVELS.index(level) < LEVELS.index(whole.evidence_level)


def test_the_limit_codes_are_a_closed_list() -> None:
    with pytest.raises(KeyError):
        level_limit("mood")
    with pytest.raises(KeyError):
        claim_limit("mood", ())
    assert not set(LEVEL_LIMITS) & set(CLAIM_LIMITS)


def test_the_samples_of_a_candidate_may_be_absent_when_its_checks_are_there() -> None:
    """A conformance page measures nothing, and has still been executed."""
    page = candidate("page", "candidate", 1.0, 1, samples=(), summary=None, memory=None, predictions=())
    record = cpu_record(candidates=(page,), noise_floors=(), comparisons=(), claims=())
    assert record.evidence_level == "cpu_mechanism"
    assert codes(record)[0] == "cpu_only"

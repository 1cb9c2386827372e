"""Two records: refused by name for every field that differs, compared across one field only when that is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sample_records import H200, KNOBS, gpu_record, second
from stages import few

from experiments.evidence.digests import digest_of
from experiments.evidence.record import Launch, Record
from experiments.evidence.record_comparison import FIELDS, compare, differing
from experiments.evidence.subject import Tokenizer
from tools.environments.errors import EXIT_USAGE, LabError


def knobs(**changes: Any) -> dict[str, Any]:
    made = {**KNOBS, **changes}
    return {"knobs": made, "digest": digest_of(made), "registered_digest": digest_of(made)}


def changed(field: str) -> Record:
    """The same record with one field of `FIELDS` different."""
    base = second()
    model, runtime, workload = base.model, base.runtime, base.workload
    if field in ("kind", "launch"):
        other = {"kind": "operator", "launch": Launch(type="ranks", ranks=2)}
        return replace(base, identity=replace(base.identity, **{field: other[field]}))  # type: ignore[arg-type]
    changes: dict[str, dict[str, Any]] = {
        "model_commit": {"model": replace(model, config_digest="sha256:" + "01" * 32)},
        "tokenizer": {"model": replace(model, tokenizer=Tokenizer(id="other"))},
        "template": {"model": replace(model, template=replace(model.template, chat_template="sha256:" + "02" * 32))},
        "thinking_mode": {"model": replace(model, template=replace(model.template, thinking_mode="on"))},
        "workload": {"workload": replace(workload, **knobs(optimizer="adamw"))},
        "concurrency": {"workload": replace(workload, concurrency=8)},
        "token_counts": {"workload": replace(workload, batch=4, sequence_length=2048, **knobs(batch=4, sequence=2048))},
        "dtype": {"workload": replace(workload, dtype="float16", **knobs(precision="fp16"))},
        "profile": {"profile": replace(base.profile, id="TRAIN-CUDA-MECHANISM")},
        "torch": {"runtime": replace(runtime, torch="2.12.0+cu130")},
        "backend": {"backend": replace(base.backend, name="vllm")},
        "device": {"runtime": replace(runtime, devices=(replace(H200, name="NVIDIA L40"),))},
    }
    return second(**changes[field])


def test_two_runs_of_the_same_thing_are_compared() -> None:
    found = compare(gpu_record(), second())
    assert found.across is None
    pairs = {pair.candidate: pair for pair in found.pairs}
    assert pairs["every layer"].ratio == pytest.approx(272.0 / 272.4, rel=0.01)
    assert pairs["every layer"].verdict in ("same", "ambiguous")
    assert pairs["everything kept"].verdict is None
    assert pairs["everything kept"].statuses == ("oom", "oom")
    floors = [f.relative for r in (gpu_record(), second()) for f in r.noise_floors if f.quantity == "step_ms"]
    assert found.noise_floor == pytest.approx(sum(floors))


def test_a_real_difference_is_told() -> None:
    pairs = {pair.candidate: pair for pair in compare(gpu_record(), second(every_ms=240.0)).pairs}
    assert pairs["every layer"].verdict == "faster"
    assert {p.candidate: p for p in compare(second(every_ms=240.0), gpu_record()).pairs}[
        "every layer"
    ].verdict == "slower"


@pytest.mark.parametrize("field", few(4, FIELDS))
def test_each_field_is_refused_by_name_and_allowed_when_it_is_the_thing_compared(field: str) -> None:
    first, other = gpu_record(), changed(field)
    assert differing(first, other) == [field]
    with pytest.raises(LabError) as refused:
        compare(first, other)
    assert field in refused.value.found
    assert f"--across {field}" in refused.value.next
    found = compare(first, other, across=field)
    assert found.across == field
    assert found.across_values is not None
    assert found.across_values[0] != found.across_values[1] or len(found.across_values[0]) == 80


def test_a_second_difference_is_refused_even_across() -> None:
    other = second(runtime=replace(second().runtime, torch="2.12.0+cu130", devices=(replace(H200, name="NVIDIA L40"),)))
    with pytest.raises(LabError) as refused:
        compare(gpu_record(), other, across="device")
    assert "torch" in refused.value.found
    assert "device" not in refused.value.found.split(":")[0]


def test_profiles_may_differ_in_the_torch_they_pin() -> None:
    base = second()
    other = second(
        profile=replace(base.profile, id="TRAIN-CUDA-MECHANISM"), runtime=replace(base.runtime, torch="2.11.0+cu128")
    )
    assert compare(gpu_record(), other, across="profile").across == "profile"


def test_a_memory_cap_is_another_device() -> None:
    capped = second(runtime=replace(second().runtime, devices=(replace(H200, memory_cap_gib=12.0),)))
    assert differing(gpu_record(), capped) == ["device"]


def test_local_weights_are_told_apart_by_their_digest() -> None:
    local = replace(gpu_record().model, weights_source="local", weights_digest="sha256:" + "01" * 32)
    other = replace(local, weights_digest="sha256:" + "02" * 32)
    assert differing(gpu_record(model=local), second(model=other)) == ["model_commit"]


def test_another_experiment_is_another_workload() -> None:
    other = replace(second(), identity=replace(second().identity, experiment="activation_offload"))
    assert differing(gpu_record(), other) == ["workload"]


def test_an_unknown_field_is_wrong_usage() -> None:
    with pytest.raises(LabError) as refused:
        compare(gpu_record(), second(), across="mood")
    assert refused.value.code == EXIT_USAGE
    assert "device" in refused.value.wanted


def test_without_both_noise_floors_verdicts_are_ambiguous() -> None:
    found = compare(gpu_record(), replace(second(every_ms=100.0), noise_floors=()))
    assert found.noise_floor is None
    assert {pair.verdict for pair in found.pairs if pair.verdict} == {"ambiguous"}


def test_a_record_is_not_compared_with_itself() -> None:
    with pytest.raises(LabError, match="2026-12-01-a twice") as refused:
        compare(gpu_record(), gpu_record())
    assert refused.value.code == EXIT_USAGE


def test_of_what_differs_only_the_parts_that_do_are_shown() -> None:
    other = second(workload=replace(second().workload, **knobs(optimizer="adamw", steps=9)))
    with pytest.raises(LabError) as refused:
        compare(gpu_record(), other)
    assert refused.value.found == "workload: steps 5, optimizer sgd against steps 9, optimizer adamw"
    with pytest.raises(LabError) as refused:
        compare(gpu_record(), changed("model_commit"))
    mine = gpu_record().model.config_digest
    told = "none" if mine is None else mine[:19]
    assert refused.value.found == f"model_commit: {told} against sha256:010101010101"

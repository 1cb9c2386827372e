"""The record's dataclasses and their JSON: nothing lost, nothing added, nothing wrong taken in."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_records import DIGEST, cpu_record, gpu_record
from stages import count

from experiments.evidence.candidate import Memory, Sample
from experiments.evidence.codec import from_json, to_json
from experiments.evidence.digests import digest_of
from experiments.evidence.record import Record
from experiments.evidence.subject import Workload
from tools.environments.errors import LabError


@pytest.mark.parametrize("make", [gpu_record, cpu_record])
def test_a_record_survives_json(make: Any) -> None:
    record = make()
    document = json.loads(json.dumps(record.to_json()))
    assert Record.from_json(document) == record


def test_missing_is_null_and_every_field_is_written() -> None:
    document = to_json(Memory())
    assert document["peak_allocated_bytes"] is None
    assert document["peak_phase"] is None
    assert set(document) >= {"peak_reserved_bytes", "process_bytes", "after_forward_bytes", "phases"}


def test_a_record_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        gpu_record().evidence_level = "plan"


def test_the_preflight_report_is_embedded_whole_with_its_status() -> None:
    preflight = gpu_record().to_json()["profile"]["preflight"]
    assert set(preflight) == {"profile", "registry_digest", "status", "accepted", "checks"}
    assert preflight["status"] == "ok"
    assert set(preflight["checks"][0]) == {"id", "status", "wanted", "found", "repair"}


def test_a_report_whose_status_does_not_follow_from_its_checks_is_refused() -> None:
    document = gpu_record().to_json()
    document["profile"]["preflight"]["checks"][0]["status"] = "blocked"
    with pytest.raises(LabError) as refused:
        Record.from_json(document)
    assert refused.value.where == "record.profile.preflight"
    assert "blocked" in refused.value.wanted


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_never_written(number: float) -> None:
    sample = Sample(round=0, position=0, step=0, values={"loss": number})
    with pytest.raises(LabError) as refused:
        to_json(sample, "sample")
    assert refused.value.where == "sample.values.loss"


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        (("identity", "run_mode"), "fast", "dry_run"),
        (("identity", "run_label"), "a/b", "text like"),
        (("identity", "run_label"), "label\n", "text like"),
        (("identity", "created_at"), "yesterday", "text like"),
        (("source", "digest"), "sha256:abc", "text like"),
        (("source", "files"), -1, "at least 0"),
        (("source", "files"), 1.5, "whole number"),
        (("source", "files"), True, "whole number"),
        (("source", "scope"), "all", "a list"),
        (("source", "dirty"), "no", "true or false"),
        (("runtime", "packages"), [], "an object"),
        (("runtime", "packages"), {"torch": 2}, "text"),
        (("candidates",), None, "a list"),
        (("candidates", 0, "samples", 0, "values", "step_ms"), "fast", "a number"),
        (("candidates", 0, "samples", 0, "values", "step_ms"), 10**400, "finite"),
        (("candidates", 0, "samples", 0, "values", "step_ms"), math.nan, "finite"),
        (("candidates", 0, "settings"), {"x": math.inf}, "finite"),
        (("model",), 3, "an object"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(path: tuple[str | int, ...], value: object, wanted: str) -> None:
    document: Any = gpu_record().to_json()
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(LabError) as refused:
        Record.from_json(document)
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    assert refused.value.where.startswith(f"record{place}")
    assert wanted in refused.value.wanted


def test_an_unknown_and_an_absent_field_are_refused() -> None:
    document = gpu_record().to_json()
    document["model"]["vendor"] = "x"
    with pytest.raises(LabError, match="vendor"):
        Record.from_json(document)
    document = gpu_record().to_json()
    del document["model"]["id"]
    with pytest.raises(LabError, match="field id"):
        Record.from_json(document)


def test_registered_means_exactly_the_registered_workload() -> None:
    workload = Workload(name="smoke", digest=DIGEST, knobs={}, dtype="float32", batch=1, sequence_length=2)
    assert not workload.registered
    assert replace(workload, registered_digest=DIGEST).registered
    assert not replace(workload, registered_digest="sha256:" + "00" * 32).registered


def test_the_digest_ignores_order_and_nothing_else() -> None:
    assert digest_of({"a": 1, "b": [1, 2]}) == digest_of({"b": (1, 2), "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})
    assert digest_of({"a": [1, 2]}) != digest_of({"a": [2, 1]})
    assert digest_of("ü") == digest_of("\u00fc")


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=count(150), deadline=None)
@given(value=JSON_VALUES)
def test_decoding_anything_answers_with_a_record_or_a_finding(value: Any) -> None:
    with pytest.raises(LabError):
        from_json(Record, value)


@settings(max_examples=count(200), deadline=None)
@given(data=st.data(), value=JSON_VALUES)
def test_decoding_a_record_with_one_value_replaced_never_fails_otherwise(data: st.DataObject, value: Any) -> None:
    document: Any = gpu_record().to_json()
    inner, key = document, data.draw(st.sampled_from(list(document)))
    while isinstance(inner[key], dict | list) and inner[key] and data.draw(st.booleans()):
        inner = inner[key]
        key = data.draw(st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner))))
    inner[key] = value
    with suppress(LabError):
        json.dumps(Record.from_json(document).to_json(), allow_nan=False)

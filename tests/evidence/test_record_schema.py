"""The schema file: generated, valid, current, and as strict as the dataclasses."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sample_records import cpu_record, gpu_record

from experiments.evidence import schema, validation
from experiments.evidence.vocabulary import SCHEMA_VERSION
from tools.environments.errors import LabError
from tools.environments.layout import ROOT


def test_the_file_is_what_the_dataclasses_say() -> None:
    assert schema.SCHEMA_PATH.read_text(encoding="utf-8") == schema.text(), (
        "run: python -m experiments.evidence.schema --write"
    )


def test_it_is_a_valid_schema_of_the_dialect() -> None:
    document = json.loads(schema.text())
    assert document["$schema"].endswith("2020-12/schema")
    assert SCHEMA_VERSION in document["$id"]
    Draft202012Validator.check_schema(document)


def test_every_object_is_closed_and_requires_all_its_fields_but_those_of_a_later_version() -> None:
    document = schema.build()
    for name, shape in {"Record": document, **document["$defs"]}.items():
        assert shape["additionalProperties"] is False
        later = ["probes"] if name == "Candidate" else []
        assert [field for field in shape["properties"] if field not in shape["required"]] == later
        assert shape["description"]


def test_the_groups_of_the_contract_are_all_there() -> None:
    groups = set(schema.build()["properties"])
    assert groups >= {
        "identity", "source", "backend", "profile", "runtime", "model", "workload", "candidates",
        "comparisons", "claims", "decision", "evidence_level", "limits",
    }  # fmt: skip


@pytest.mark.parametrize("make", [gpu_record, cpu_record])
def test_records_validate(make: Any) -> None:
    validation.validate(json.loads(json.dumps(make().to_json())), "here")


@pytest.mark.parametrize(
    ("group", "field", "value", "named"),
    [
        ("identity", "run_mode", "fast", "record.identity.run_mode"),
        ("source", "files", "20", "record.source.files"),
        ("source", "digest", "sha256:xyz", "record.source.digest"),
        ("workload", "batch", -1, "record.workload.batch"),
        ("runtime", "devices", {}, "record.runtime.devices"),
    ],
)
def test_a_fault_is_named_with_its_place(group: str, field: str, value: object, named: str) -> None:
    document = gpu_record().to_json()
    document[group][field] = value
    with pytest.raises(LabError) as refused:
        validation.validate(document, "here")
    assert named in refused.value.wanted
    assert refused.value.where == "here"


def test_absent_and_unknown_fields_are_named() -> None:
    document = gpu_record().to_json()
    del document["model"]["parameter_count"]
    with pytest.raises(LabError, match="the field parameter_count"):
        validation.validate(document, "here")
    document = gpu_record().to_json()
    document["model"]["extra"] = 1
    with pytest.raises(LabError, match="only the fields"):
        validation.validate(document, "here")


@pytest.mark.parametrize(
    ("version", "mend"), [("2.0.0", "update this checkout"), ("0.9.0", "check out the version"), ("1.99.0", "update")]
)
def test_another_major_and_a_newer_minor_version_are_refused(version: str, mend: str) -> None:
    document = gpu_record().to_json()
    document["identity"]["schema_version"] = version
    with pytest.raises(LabError) as refused:
        validation.check_version(document, "here")
    assert version in refused.value.found
    assert mend in refused.value.next


@pytest.mark.parametrize("version", [None, 1, "1", "1.0", "1.0.x", "1.0.0.0", "", "².0.0", "9999999.0.0", []])
def test_no_version_is_a_finding(version: object) -> None:
    document: Any = gpu_record().to_json()
    document["identity"]["schema_version"] = version
    with pytest.raises(LabError, match="schema_version"):
        validation.check_version(document, "here")


@pytest.mark.parametrize("document", [None, [], 3, {}, {"identity": 3}, {"identity": {}}])
def test_what_is_no_record_has_no_version(document: object) -> None:
    with pytest.raises(LabError, match="schema_version"):
        validation.check_version(document, "here")


def test_jsonschema_is_imported_only_to_validate_and_without_its_slow_extras() -> None:
    code = (
        "import sys\n"
        "from experiments.evidence import store, validation\n"
        "print('jsonschema' in sys.modules)\n"
        "validation.require()\n"
        "print('rfc3987_syntax' in sys.modules, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]

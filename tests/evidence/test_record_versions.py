"""Schema versions: committed records read as they stand, and a field belongs to the version that brought it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sample_records import gpu_record

from experiments.evidence import earlier_shapes, store
from tools.environments.errors import LabError
from tools.environments.layout import ROOT


@pytest.mark.parametrize("path", sorted((ROOT / "experiments" / "results").rglob("*.json")), ids=lambda path: path.stem)
def test_a_committed_record_reads_and_is_told_as_its_file_tells_it(path: Path) -> None:
    assert store.read(path).to_json() == json.loads(path.read_text(encoding="utf-8"))


ABSENT = object()


def _versioned(version: str, probes: object = ABSENT) -> bytes:
    """The good record as that version, with these probes in each candidate, or without the field."""
    document = earlier_shapes.downgrade(gpu_record().to_json())
    document["identity"]["schema_version"] = version
    for candidate in document["candidates"]:
        candidate["probes"] = probes
        if probes is ABSENT:
            del candidate["probes"]
    return json.dumps(document).encode()


def test_a_record_of_schema_1_0_has_no_probes() -> None:
    record = store.parse(_versioned("1.0.0"), "here")
    assert {candidate.probes for candidate in record.candidates} == {None}
    assert "probes" not in record.to_json()["candidates"][0]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (_versioned("1.0.0", {}), "has probes, of schema version 1.0.0"),
        (_versioned("1.1.0"), "lacks probes, of schema version 1.1.0"),
        (_versioned("1.1.0", None), "].probes: type object"),
        (_versioned("1.1.0", {"injected_inf": 3}), "].probes.injected_inf: type object"),
    ],
)
def test_probes_belong_to_the_version_that_brought_them(data: bytes, named: str) -> None:
    with pytest.raises(LabError) as refused:
        store.parse(data, "here")
    assert named in str(refused.value)

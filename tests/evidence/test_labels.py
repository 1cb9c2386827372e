"""Run labels: what may be one, and that each is used once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_records import gpu_record

from experiments.evidence import labels, store
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import ROOT, RUNS


@pytest.mark.parametrize("label", ["a", "2026-12-01-first", "A.b_c-1", "x" * 64])
def test_good_labels(label: str) -> None:
    assert labels.check(label) == label


@pytest.mark.parametrize(
    "label",
    ["", " ", "a/b", "a\\b", "..", "a..b", ".a", "-a", "a.", "x" * 65, "a b", "a\n", "a\0", "é", "/etc/passwd", "~"],
)
def test_bad_labels(label: str) -> None:
    with pytest.raises(LabError) as refused:
        labels.check(label)
    assert refused.value.code == EXIT_USAGE


def test_a_label_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "carol")
    for label in ("carol-1", "try-hf_abcdefghijklmnop"):
        with pytest.raises(LabError, match="published"):
            labels.check(label)
    assert labels.check("carols-1") == "carols-1"


@given(st.text(max_size=70))
def test_a_label_that_passes_stays_inside_its_folder(label: str) -> None:
    try:
        labels.check(label)
    except LabError:
        return
    folder = labels.run_folder("x", label)
    assert os.path.normpath(folder) == str(folder)
    assert folder.parent == labels.runs_folder() / "x"


def test_where_things_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(labels.RUNS_VARIABLE, raising=False)
    monkeypatch.delenv(labels.RESULTS_VARIABLE, raising=False)
    assert labels.record_path("x", "a") == RUNS / "x" / "a" / "record.json"
    assert labels.promoted_path("x", "a") == ROOT / "experiments" / "results" / "x" / "a.json"
    monkeypatch.setenv(labels.RUNS_VARIABLE, str(tmp_path))
    assert labels.run_folder("x", "a") == tmp_path / "x" / "a"


@pytest.mark.parametrize("where", ["runs", "results"])
def test_a_label_is_used_once(where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(labels.RUNS_VARIABLE, str(tmp_path / "runs"))
    monkeypatch.setenv(labels.RESULTS_VARIABLE, str(tmp_path / "results"))
    labels.refuse_used("activation_checkpointing", "2026-12-01-a")
    path = labels.record_path if where == "runs" else labels.promoted_path
    store.write(gpu_record(), path("activation_checkpointing", "2026-12-01-a"))
    with pytest.raises(LabError, match="names a finished record"):
        labels.refuse_used("activation_checkpointing", "2026-12-01-a")
    labels.refuse_used("activation_offload", "2026-12-01-a")

"""The command line around records, over folders of its own: what tests of `show`, `results` and the rest share."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_records import KNOBS

from experiments.cli import discovery, entry
from experiments.evidence import labels, store
from experiments.evidence.digests import digest_of
from experiments.evidence.record import Record

REAL_DIGESTS = discovery.registered_digests  # `folders` puts known ones in its place
LABEL = "2026-12-01-a"
NAME = "activation_checkpointing"


def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs and results under `tmp_path`, the working folder too; the workload of the sample records is registered."""
    monkeypatch.setenv(labels.RUNS_VARIABLE, str(tmp_path / "runs"))
    monkeypatch.setenv(labels.RESULTS_VARIABLE, str(tmp_path / "results"))
    monkeypatch.setenv("NO_COLOR", "1")
    registered = {NAME: {"large": digest_of(KNOBS)}, "mixed_precision_backward": {"large": digest_of(KNOBS)}}
    monkeypatch.setattr(discovery, "registered_digests", lambda: registered)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_of(record: Record) -> Path:
    """Write a record where its run would, and say where."""
    path = labels.record_path(record.identity.experiment, record.identity.run_label)
    store.write(record, path)
    return path


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `python -m experiments ...`."""
    code = entry.main(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err

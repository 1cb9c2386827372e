"""A record is shown by its experiment's own table, whatever it ran on and whether or not it holds numerics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import record_command
from record_command import call, run_of
from sample_records import cpu_record, gpu_record

from experiments.cli import discovery
from experiments.cli.showing import own_table
from experiments.evidence.record import Record
from tools.rendering import result_parts


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return record_command.folders(tmp_path, monkeypatch)


def of(experiment: str, record: Record, *, numerics: bool) -> Record:
    """A sample record as a run of that experiment; with or without the formats its candidates computed in."""
    candidates = tuple(one if numerics else replace(one, numerics=None) for one in record.candidates)
    identity = replace(record.identity, experiment=experiment)
    return replace(record, identity=identity, candidates=candidates)


@pytest.mark.parametrize("experiment", sorted(discovery.packages()))
@pytest.mark.parametrize("numerics", [True, False], ids=["numerics", "none"])
@pytest.mark.parametrize("sample", [gpu_record, cpu_record])
def test_every_door_draws_the_experiment_s_own_table(
    sample: object, numerics: bool, experiment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(sample)
    record = of(experiment, sample(), numerics=numerics)
    assert any(one.numerics for one in record.candidates) <= numerics
    wanted = discovery.load(experiment).table(record)
    assert own_table(record) == wanted
    assert result_parts._table(record) == (wanted.columns, wanted.rows)  # what the documents show
    run_of(record)
    code, out, _ = call(capsys, "show", experiment)
    assert code == 0
    head = out.splitlines()[2].split()
    assert head == " ".join(wanted.columns).split()


def test_a_card_s_record_has_the_general_table_below_only_where_it_adds_something(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for experiment, tables in (("mixed_precision_backward", 2), ("activation_checkpointing", 1)):
        run_of(of(experiment, gpu_record(), numerics=False))
        _, out, _ = call(capsys, "show", experiment)
        assert sum(line.split()[:1] == ["candidate"] for line in out.splitlines()) == tables, out

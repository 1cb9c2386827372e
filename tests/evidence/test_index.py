"""The index: each profile's own rows, reproduction only from independent records that agree."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_records import H200, candidate, cpu_record, gpu_record, second

from experiments.evidence import index, store
from experiments.evidence.index import NOT_MEASURED, Entry, agree, independent, rows, status_of
from experiments.evidence.record import Record

WANTED = {
    "TRAIN-CUDA-MECHANISM": [("activation_checkpointing", "large")],
    "TRAIN-CUDA130-MECHANISM": [("activation_checkpointing", "large"), ("activation_checkpointing", "smoke")],
}


def entry(record: Record) -> Entry:
    return Entry(Path(f"{record.identity.run_label}.json"), record)


def test_a_row_is_not_measured_until_its_own_profile_was() -> None:
    table = rows(WANTED, [entry(gpu_record())])
    found = {(row.profile, row.workload): row.status for row in table}
    assert found == {
        ("TRAIN-CUDA-MECHANISM", "large"): NOT_MEASURED,
        ("TRAIN-CUDA130-MECHANISM", "large"): "gpu_measured",
        ("TRAIN-CUDA130-MECHANISM", "smoke"): NOT_MEASURED,
    }


def test_a_changed_workload_never_fills_the_row_of_the_registered_one() -> None:
    changed = replace(gpu_record().workload, registered_digest="sha256:" + "0" * 64)
    entries = [Entry(Path("a"), gpu_record(workload=changed))]
    record = entries[0].record
    wanted = {record.profile.id: [(record.identity.experiment, record.workload.name)]}
    table = index.rows(wanted, entries)
    assert [(row.workload, row.status) for row in table] == [("large", "not measured"), ("large, changed", "gpu_smoke")]
    assert index.differing_rows(gpu_record(), record) == ["workload"]


def test_rows_come_in_the_order_of_the_profiles_and_none_is_lost() -> None:
    table = rows(WANTED, [entry(cpu_record()), entry(gpu_record())])
    assert [row.profile for row in table] == [
        "TRAIN-CUDA-MECHANISM",
        "TRAIN-CUDA130-MECHANISM",
        "TRAIN-CUDA130-MECHANISM",
        "TRAIN-CPU",
    ]
    assert rows(WANTED, [])[0].status == NOT_MEASURED


def test_two_independent_records_that_agree_are_reproduced() -> None:
    assert agree(gpu_record(), second())
    assert status_of([gpu_record(), second()]) == "gpu_reproduced"
    (row, *_) = [row for row in rows(WANTED, [entry(gpu_record()), entry(second())]) if row.entries]
    assert row.status == "gpu_reproduced"
    assert [e.record.identity.run_label for e in row.entries] == ["2026-12-01-b", "2026-12-01-a"]


def test_a_copy_under_another_label_reproduces_nothing() -> None:
    copy = gpu_record(identity=replace(second().identity))
    assert not independent(gpu_record(), copy)
    assert status_of([gpu_record(), copy]) == "gpu_measured"
    assert not independent(gpu_record(), gpu_record())


@pytest.mark.parametrize(
    "other",
    [
        second(every_ms=300.0),
        second(runtime=replace(gpu_record().runtime, devices=(replace(H200, memory_cap_gib=12.0),))),
        second(source=replace(gpu_record().source, dirty=True)),
    ],
)
def test_records_that_differ_do_not_reproduce_each_other(other: Record) -> None:
    assert status_of([gpu_record(), other]) == "gpu_measured"


def test_memory_has_to_agree_too() -> None:
    found = second()
    layer = found.candidates[2]
    assert layer.memory is not None
    bigger = replace(layer, memory=replace(layer.memory, peak_allocated_bytes=40 * 2**30))
    other = replace(found, candidates=(*found.candidates[:2], bigger, found.candidates[3]))
    assert not agree(gpu_record(), other)


@pytest.mark.parametrize(
    ("factor", "same"), [(1.009, True), (1 / 1.009, True), (1.011, False), (1 / 1.011, False), (1.1, False)]
)
def test_peaks_one_percent_apart_agree_and_those_further_apart_do_not(factor: float, same: bool) -> None:
    found = second()
    layer = found.candidates[2]
    assert layer.memory is not None
    assert layer.memory.peak_allocated_bytes is not None
    peak = round(layer.memory.peak_allocated_bytes * factor)
    moved = replace(layer, memory=replace(layer.memory, peak_allocated_bytes=peak))
    other = replace(found, candidates=(*found.candidates[:2], moved, found.candidates[3]))
    assert agree(gpu_record(), other) is same
    assert agree(other, gpu_record()) is same


def test_another_outcome_of_a_candidate_is_no_agreement() -> None:
    found = second()
    fits = candidate("everything kept", "candidate", 400.0, 9)
    assert not agree(gpu_record(), replace(found, candidates=(*found.candidates[:3], fits)))
    assert not agree(gpu_record(), replace(found, candidates=found.candidates[:3]))


def test_the_status_of_lower_records_is_their_highest_level() -> None:
    smoke = gpu_record(source=replace(gpu_record().source, dirty=True))
    assert status_of([cpu_record(), smoke]) == "gpu_smoke"
    assert status_of([]) == NOT_MEASURED


def test_devices_make_rows_of_their_own() -> None:
    capped: Any = second(runtime=replace(gpu_record().runtime, devices=(replace(H200, memory_cap_gib=12.0),)))
    table = rows({}, [entry(gpu_record()), entry(capped)])
    assert [row.device for row in table] == ["NVIDIA H200", "NVIDIA H200 capped at 12 GiB"]
    assert index.differing_rows(gpu_record(), capped) == ["device"]


def test_loading_a_folder_tells_what_is_no_record(tmp_path: Path) -> None:
    folder = tmp_path / "activation_checkpointing"
    store.write(gpu_record(), folder / "2026-12-01-a.json")
    (folder / "torn.json").write_bytes((folder / "2026-12-01-a.json").read_bytes()[:500])
    entries, refused = index.load(tmp_path)
    assert [found.record.identity.run_label for found in entries] == ["2026-12-01-a"]
    assert len(refused) == 1
    assert refused[0].where.endswith("torn.json")


def test_a_copy_of_a_record_under_another_name_is_refused(tmp_path: Path) -> None:
    store.write(gpu_record(), tmp_path / "activation_checkpointing" / "2026-12-01-a.json")
    for copy in ("activation_checkpointing/2026-12-01-zz.json", "other/2026-12-01-a.json"):
        (tmp_path / copy).parent.mkdir(exist_ok=True)
        shutil.copy(tmp_path / "activation_checkpointing" / "2026-12-01-a.json", tmp_path / copy)
    entries, refused = index.load(tmp_path)
    assert [entry.path.stem for entry in entries] == ["2026-12-01-a"]
    assert [error.where for error in refused] == ["activation_checkpointing/2026-12-01-zz", "other/2026-12-01-a"]
    assert refused[0].found == "activation_checkpointing/2026-12-01-a"

"""Records on disk: whole or not there, never replaced, and any bytes at all answered with a record or a finding."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_records import KNOBS, cpu_record, gpu_record
from stages import count

from experiments.evidence import layout_text, store, write_once
from experiments.evidence.privacy import Known
from experiments.evidence.record import Record
from tools.environments.errors import LabError
from tools.environments.layout import ROOT

NOBODY = Known()


def good() -> bytes:
    return layout_text.dumps(gpu_record().to_json()).encode()


def edited(change: Callable[[Any], None]) -> bytes:
    document = gpu_record().to_json()
    change(document)
    return json.dumps(document).encode()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "record.json"
    written = store.write(gpu_record(), path, NOBODY)
    assert store.read(path) == written == gpu_record()
    assert [entry.name for entry in path.parent.iterdir()] == ["record.json"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_record_without_a_level_is_graded_on_writing(tmp_path: Path) -> None:
    bare = replace(gpu_record(), evidence_level=None, limits=())
    assert store.write(bare, tmp_path / "record.json", NOBODY) == gpu_record()


def test_what_its_own_reader_refuses_is_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    procedure = replace(gpu_record().procedure, order_seed=2**53 + 1)
    with pytest.raises(LabError, match="can be read back") as refused:
        store.write(replace(gpu_record(), procedure=procedure), tmp_path / "record.json", NOBODY)
    assert "2^53" in refused.value.wanted
    assert "restore" not in refused.value.next
    monkeypatch.setattr(store, "LARGEST_FILE", 100)
    with pytest.raises(LabError, match="MiB"):
        store.write(gpu_record(), tmp_path / "record.json", NOBODY)
    assert list(tmp_path.iterdir()) == []


def test_a_boast_is_refused_on_writing(tmp_path: Path) -> None:
    with pytest.raises(LabError) as refused:
        store.write(replace(cpu_record(), evidence_level="gpu_measured"), tmp_path / "record.json", NOBODY)
    assert "cpu_mechanism" in refused.value.wanted
    assert "gpu_measured" in refused.value.found
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("something else")
    with pytest.raises(LabError, match="never overwritten"):
        store.write(gpu_record(), path, NOBODY)
    assert path.read_text() == "something else"
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


def test_a_file_system_without_hard_links_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    store.write(gpu_record(), tmp_path / "record.json", NOBODY)
    assert store.read(tmp_path / "record.json") == gpu_record()
    with pytest.raises(LabError, match="never overwritten"):
        store.write(gpu_record(), tmp_path / "record.json", NOBODY)


def test_a_full_disk_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def full(descriptor: int, data: Any) -> int:
        if len(data) > 1000:
            return real(descriptor, data[:1000])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LabError, match="disk is full"):
        store.write(gpu_record(), tmp_path / "record.json", NOBODY)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("mount") is None or os.getuid() != 0, reason="needs root to mount a small tmpfs")
def test_a_really_full_disk_leaves_nothing_half(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        (small / "filler").write_bytes(b"x" * 12_000)
        with pytest.raises(LabError, match="disk is full"):
            store.write(gpu_record(), small / "record.json", NOBODY)
        assert [entry.name for entry in small.iterdir()] == ["filler"]
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_folder_that_cannot_be_made_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="can be written"):
        store.write(gpu_record(), tmp_path / "file" / "record.json", NOBODY)


KILLED = """
import os, sys
from pathlib import Path
sys.path[:0] = ["tests", "."]
from experiments.evidence import write_once
real = os.fsync
def slow(descriptor):
    print("writing", flush=True)
    import time; time.sleep(30)
os.fsync = slow
write_once.write_once(Path(sys.argv[1]), b"x" * 5000, "here")
"""


@pytest.mark.race
def test_a_kill_while_writing_leaves_no_record_and_a_later_write_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    child = subprocess.Popen([sys.executable, "-c", KILLED, path], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "writing\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert not path.exists()
    store.write(gpu_record(), path, NOBODY)
    assert store.read(path) == gpu_record()


def test_a_left_over_of_the_same_process_number_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / f".record.json.{os.getpid()}.writing").write_text("half")
    store.write(gpu_record(), tmp_path / "record.json", NOBODY)
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


def test_of_many_writers_one_wins(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from experiments.evidence.write_once import write_once\n"
        "from tools.environments.errors import LabError\n"
        "try: write_once(Path(sys.argv[1]), sys.argv[2].encode() * 1000, 'x')\n"
        "except LabError: sys.exit(1)\n"
    )
    path = tmp_path / "record.json"
    writers = [subprocess.Popen([sys.executable, "-c", code, path, str(n)], cwd=ROOT) for n in range(4)]
    assert sorted(writer.wait() for writer in writers) == [0, 1, 1, 1]
    assert len(set(path.read_text())) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"\xff\xfe", "UTF-8"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"null", "schema_version"),
        (b"[]", "schema_version"),
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 100_000, "nested"),
        (b"1" * 5000, "integer"),
        (b"NaN", "finite"),
        (b'{"a": Infinity}', "finite"),
        (b'{"a": 1e999}', "finite"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b"\x00", "JSON"),
    ],
)
def test_bytes_that_are_no_record(data: bytes, named: str) -> None:
    with pytest.raises(LabError) as refused:
        store.parse(data, "here")
    assert named in str(refused.value)
    assert refused.value.where == "here"
    if named != "schema_version":
        assert refused.value.next == store.MEND  # never "mend that line": a record is not edited


def test_every_torn_record_is_a_finding() -> None:
    whole = good()
    for end in range(0, len(whole) - 2, 97):
        with pytest.raises(LabError):
            store.parse(whole[:end], "here")


def _set(group: str, field: str, value: object) -> Callable[[Any], None]:
    return lambda document: document[group].__setitem__(field, value)


def _put(field: str, value: object) -> Callable[[Any], None]:
    return lambda document: document.__setitem__(field, value)


def _gate(word: str, **changes: object) -> Callable[[Any], None]:
    return lambda document: document["candidates"][2]["checks"]["gates"][word].update(changes)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_put("comment", "faster than it looks"), "found  the field 'comment'"),
        (_put("evidence_level", "cpu_mechanism"), "gpu_measured, as recomputed"),
        (_put("evidence_level", None), "gpu_measured, as recomputed"),
        (_put("limits", []), "random_init, as recomputed"),
        (lambda d: d["limits"][0].__setitem__("code", "dirty_tree"), "as recomputed"),
        (lambda d: d["claims"][0].__setitem__("level", "plan"), "claim memory at gpu_measured"),
        (lambda d: d["claims"][0].__setitem__("limits", d["limits"]), "claim memory"),
        (_set("workload", "knobs", {"batch": 9}), "workload.digest"),
        (_set("identity", "created_at", "2026-02-30T10:00:00Z"), "no moment"),
        (_set("model", "weights_source", "hub"), "resolved_commit is null"),
        (_set("model", "resolved_commit", "abc"), "weights are random"),
        (_set("source", "commit", None), "dirty is set without a commit"),
        (_set("profile", "id", "TRAIN-CPU"), "not about TRAIN-CPU"),
        (_set("profile", "registry_digest", "sha256:" + "00" * 32), "another registry"),
        (_set("profile", "preflight", None), "preflight is null"),
        (_set("identity", "run_mode", "cpu_mechanism"), "holds a card"),
        (lambda d: d["candidates"][1].__setitem__("name", "none"), "two candidates are called"),
        (lambda d: d["candidates"][2].__setitem__("role", "baseline"), "more than one candidate is baseline"),
        (lambda d: d["candidates"][0].__setitem__("status", "failed"), "without a failure"),
        (lambda d: d["candidates"][3].__setitem__("status", "ok"), "with a failure"),
        (lambda d: d["candidates"][0].__setitem__("samples", []), "a summary without samples"),
        (lambda d: d["candidates"][0]["samples"][1].__setitem__("step", 0), "there twice"),
        (lambda d: d["candidates"][0]["predictions"][0].__setitem__("residual", 0.5), "residual"),
        (lambda d: d["candidates"][0]["predictions"][0].__setitem__("residual", None), "residual"),
        (lambda d: d["candidates"][0].__setitem__("marks", ["not_executed"]), "marked not_executed"),
        (_gate("gradient", error=0.9, tolerance=1e-6), "gradient gate passed, although it has error 0.9"),
        (_gate("update", error=None), "update gate passed, although it has error None"),
        (_gate("update", tolerance=None), "tolerance None"),
        (_gate("gradient", passed=False), "gradient gate failed, although"),
        (lambda d: d["comparisons"][0].__setitem__("candidate", "nobody"), "no candidate is called"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(change: Callable[[Any], None], named: str) -> None:
    with pytest.raises(LabError) as refused:
        store.parse(edited(change), "here")
    assert named in str(refused.value)


def test_a_contradiction_is_refused_on_writing_too(tmp_path: Path) -> None:
    record = gpu_record(workload=replace(gpu_record().workload, knobs={**KNOBS, "batch": 9}))
    with pytest.raises(LabError, match=r"workload\.digest"):
        store.write(record, tmp_path / "record.json", NOBODY)
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_with_samples_is_refused() -> None:
    record = gpu_record(identity=replace(gpu_record().identity, run_mode="dry_run"))
    with pytest.raises(LabError, match="although the run was dry"):
        store.parse(layout_text.dumps(record.to_json()).encode(), "here")


def test_paths_that_are_no_record_file(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    (tmp_path / "big").write_bytes(b" " * (store.LARGEST_FILE + 1))
    for path, named in (
        (tmp_path, "a folder"),
        (tmp_path / "missing", "no such file"),
        (fifo, "no regular file"),
        (tmp_path / "link", "no regular file"),
        (tmp_path / "big", "a larger file"),
        (Path("nul\0name"), "no such file"),
        (Path("x" * 5000), "too long"),
    ):
        with pytest.raises(LabError) as refused:
            store.read(path)
        assert named in refused.value.found, path


def test_an_unreadable_file_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(good())

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(LabError, match="Permission denied"):
        store.read(path)


def test_the_file_can_be_read_by_people() -> None:
    text = good().decode()
    assert text.endswith("}\n")
    assert max(map(len, text.splitlines())) < 400
    assert json.loads(text) == gpu_record().to_json()
    assert len(text) < 40_000


@settings(max_examples=count(200), deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_finding(data: bytes) -> None:
    with pytest.raises(LabError):
        store.parse(data, "here")


@settings(max_examples=count(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_garbled_record_is_a_record_or_a_finding(data: st.DataObject) -> None:
    whole = bytearray(good())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(store.parse(bytes(whole), "here"), Record)
    except LabError as error:
        str(error).encode("utf-8")


@settings(max_examples=count(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.data(),
    value=st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.just([]) | st.just({}) | st.floats(),
)
def test_a_record_with_any_one_value_replaced_is_a_record_or_a_finding(data: st.DataObject, value: Any) -> None:
    document: Any = gpu_record().to_json()
    inner, key = document, data.draw(st.sampled_from(list(document)))
    while isinstance(inner[key], dict | list) and inner[key] and data.draw(st.integers(0, 3)):
        inner = inner[key]
        key = data.draw(st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner))))
    inner[key] = value
    text = json.dumps(document).encode("utf-8", "surrogatepass")
    try:
        assert isinstance(store.parse(text, "here"), Record)
    except LabError as error:
        str(error).encode("utf-8")


def test_write_once_syncs_the_file_before_it_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    real_sync, real_link = os.fsync, os.link
    monkeypatch.setattr(os, "fsync", lambda fd: (happened.append("sync"), real_sync(fd))[1])
    monkeypatch.setattr(os, "link", lambda a, b: (happened.append("appear"), real_link(a, b))[1])
    write_once.write_once(tmp_path / "x", b"1", "x")
    assert happened == ["sync", "appear", "sync"]

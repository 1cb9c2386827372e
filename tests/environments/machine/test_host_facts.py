"""Host facts: read from this real machine, and from small made-up /proc and cgroup folders."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools.environments.machine import host_facts


def test_gather_describes_this_machine() -> None:
    facts = host_facts.gather(gpu=False)
    assert facts.python == ".".join(map(str, sys.version_info[:3]))
    assert facts.system.startswith(os.uname().sysname.lower())
    assert facts.cores >= 1
    assert facts.memory_gib is not None
    assert facts.memory_gib > 0.1
    assert facts.disk.free_gib is not None
    assert facts.gpu is None


def test_gather_asks_the_driver_when_told_to() -> None:
    assert host_facts.gather(time_limit_s=5).gpu is not None


@pytest.mark.parametrize(
    ("meminfo", "files", "expected"),
    [
        ("MemTotal:       16777216 kB\n", {}, 16.0),
        ("MemTotal:       16777216 kB\n", {"memory.max": "max\n"}, 16.0),
        ("MemTotal:       16777216 kB\n", {"memory.max": "2147483648\n"}, 2.0),
        ("MemTotal:       16777216 kB\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16.0),
        ("MemTotal:       16777216 kB\n", {"memory/memory.limit_in_bytes": "4294967296\n"}, 4.0),
    ],
)
def test_memory_is_the_smaller_of_machine_and_container(
    tmp_path: Path, meminfo: str, files: dict[str, str], expected: float
) -> None:
    (tmp_path / "meminfo").write_text(meminfo)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert host_facts.memory_gib(tmp_path, tmp_path) == expected


@pytest.mark.parametrize("meminfo", [None, "MemTotal:\n", "MemFree: 3 kB\n"])
def test_without_a_usable_meminfo_the_system_is_asked(tmp_path: Path, meminfo: str | None) -> None:
    if meminfo is not None:
        (tmp_path / "meminfo").write_text(meminfo)
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert host_facts.memory_gib(tmp_path, tmp_path) == pytest.approx(pages / 2**30, abs=0.01)


def test_memory_that_nothing_tells_is_missing_not_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_name: str) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", refuse)
    assert host_facts.memory_gib(tmp_path, tmp_path) is None


def test_disk_of_a_folder_that_is_not_there_yet_is_its_parents(tmp_path: Path) -> None:
    here = host_facts.disk(tmp_path)
    there = host_facts.disk(tmp_path / "not" / "yet")
    assert there.path == str(tmp_path / "not" / "yet")
    assert here.free_gib is not None
    assert there.free_gib == pytest.approx(here.free_gib, abs=1)


def test_disk_that_cannot_be_asked_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_path: object) -> None:
        raise OSError("stale file handle")

    monkeypatch.setattr(os, "statvfs", refuse)
    assert host_facts.disk(tmp_path).free_gib is None


def test_container_is_named_by_its_mark(tmp_path: Path) -> None:
    assert host_facts.container({}, tmp_path) is None
    assert host_facts.container({"container": "lxc"}, tmp_path) == "lxc"
    assert host_facts.container({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path) == "kubernetes"
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.containerenv").touch()
    assert host_facts.container({}, tmp_path) == "podman"
    (tmp_path / ".dockerenv").touch()
    assert host_facts.container({}, tmp_path) == "docker"


def test_musl_and_foreign_systems_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_name: str) -> str:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "uname", lambda: type("U", (), {"sysname": "Linux", "machine": "x86_64"})())
    assert host_facts.system() == "linux-x86_64"
    monkeypatch.setattr(os, "confstr", refuse)
    assert host_facts.system() == "linux-x86_64-musl"
    monkeypatch.delattr(os, "uname")
    assert host_facts.system() == sys.platform


def test_cores_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert host_facts.cores() == (os.cpu_count() or 1)

"""Installed distributions read from real folders: dist-info, egg-info, and every way to be unreadable."""

from __future__ import annotations

import importlib.metadata
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from hand_made_environment import install
from hypothesis import given
from hypothesis import strategies as st

from tools.environments.installed import module_facts, package_facts
from tools.environments.registry.pep508 import normalise


def test_agrees_with_importlib_metadata_on_this_environment() -> None:
    site = sysconfig.get_path("purelib")
    ours = {name: found.version for name, found in package_facts.gather([site]).installed.items()}
    theirs = {normalise(d.name): d.version for d in importlib.metadata.distributions(path=[site])}
    assert ours == theirs
    numpy = package_facts.gather([site]).installed
    for name in ("pytest", "pluggy"):
        assert list(numpy[name].requires) == (importlib.metadata.requires(name) or [])


def test_first_on_the_path_wins_and_the_rest_is_shadowed(tmp_path: Path) -> None:
    install(tmp_path / "a", "numpy", "2.0")
    install(tmp_path / "b", "NumPy", "1.0")
    facts = package_facts.gather([str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "gone")])
    assert facts.installed["numpy"].version == "2.0"
    assert facts.installed["numpy"].installer == "pip"
    assert [found.version for found in facts.shadowed] == ["1.0"]
    assert facts.problems == ()


def test_egg_info_folder_and_file(tmp_path: Path) -> None:
    (tmp_path / "old.egg-info").mkdir()
    (tmp_path / "old.egg-info" / "PKG-INFO").write_text("Name: Old.Thing\r\nVersion: 1.2\r\n\r\nText: no header\r\n")
    (tmp_path / "older-1.egg-info").write_text("Metadata-Version: 1.0\nName: older\nVersion: 1\n  continued: x\n")
    facts = package_facts.gather([str(tmp_path)])
    assert {name: found.version for name, found in facts.installed.items()} == {"old-thing": "1.2", "older": "1"}
    assert facts.installed["older"].installer is None


def test_link_to_nowhere_is_skipped_and_a_file_as_folder_told(tmp_path: Path) -> None:
    (tmp_path / "gone.egg-info").symlink_to(tmp_path / "nowhere")
    (tmp_path / "odd-1.dist-info").write_text("Name: odd\n")
    facts = package_facts.gather([str(tmp_path)])
    assert facts.installed == {}
    assert [problem.words for problem in facts.problems] == ["cannot be read: Not a directory"]


def test_folder_that_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: str) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(package_facts.os, "listdir", refuse)
    (problem,) = package_facts.gather([str(tmp_path)]).problems
    assert problem.words == "cannot be listed: Permission denied"


def test_modules_are_located_without_importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "solid_module.py").write_text("raise RuntimeError\n")
    (tmp_path / "space_package").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "half_made", type(sys)("half_made"))
    found = module_facts.locate(["solid_module", "space_package", "does_not_exist", "half_made", "sys"])
    assert found == {
        "solid_module": str(tmp_path / "solid_module.py"),
        "space_package": str(tmp_path / "space_package"),
        "does_not_exist": None,
        "half_made": None,
        "sys": "",
    }


def test_metadata_that_cannot_be_read_or_names_nothing(tmp_path: Path) -> None:
    (tmp_path / "a-1.dist-info" / "METADATA").mkdir(parents=True)
    (tmp_path / "b-1.dist-info").mkdir()
    (tmp_path / "c-1.dist-info").mkdir()
    (tmp_path / "c-1.dist-info" / "METADATA").write_bytes(b"\xff\x00: x\nName: -\nVersion: 1\n")
    (tmp_path / "~d").mkdir()
    install(tmp_path, "twice", "1")
    install(tmp_path, "twice", "2")
    facts = package_facts.gather([str(tmp_path)])
    assert {Path(problem.path).name: problem.words for problem in facts.problems} == {
        "a-1.dist-info": "cannot be read: Is a directory",
        "b-1.dist-info": "has no METADATA file",
        "c-1.dist-info": "its METADATA names no package or no version",
        "twice-2.dist-info": "twice is recorded twice here, also as twice-1.dist-info",
        "~d": "left behind by an interrupted uninstall or upgrade",
    }


@given(st.binary(max_size=400))
def test_no_metadata_is_too_odd_to_read(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        info = Path(folder) / "odd-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_bytes(text)
        facts = package_facts.gather([folder])
        assert len(facts.installed) + len(facts.problems) == 1

"""The stamp: written whole, read strictly, and honest about what is no longer as it was."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.environments.errors import LabError
from tools.environments.installed import stamp
from tools.environments.installed.stamp import Stamp
from tools.environments.model import Profile
from tools.environments.registry import registry

TRAIN: Profile = registry.load().get("TRAIN-CPU")


def environment(folder: Path, packages: dict[str, str]) -> Path:
    prefix = folder / "env"
    (prefix / "bin").mkdir(parents=True)
    os.symlink("/bin/sh", prefix / "bin" / "python")
    site = prefix / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    for name, version in packages.items():
        (site / f"{name.replace('-', '_')}-{version}.dist-info").mkdir()
    return prefix


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return environment(tmp_path, {"torch": "2.13.0+cpu", "Hugging-Face_hub": "2.4.0", "pip": "26.0"})


@pytest.fixture
def written(prefix: Path) -> Stamp:
    made = Stamp(
        profile="TRAIN-CPU",
        requirement_digest="sha256:a",
        prefix=str(prefix),
        interpreter={"version": "3.11.7", "base": "/usr/bin/python3.11"},
        torch="2.13.0+cpu",
        backend="uv",
        index={"index_url": None},
        packages=stamp.installed(prefix),
    )
    stamp.write(made)
    return made


def test_read_gives_back_what_was_written(prefix: Path, written: Stamp) -> None:
    assert stamp.read(prefix) == written
    assert written.packages == {"hugging-face-hub": "2.4.0", "torch": "2.13.0+cpu"}
    assert not list(prefix.glob("*.part"))


def test_no_stamp_is_none(tmp_path: Path) -> None:
    assert stamp.read(tmp_path) is None
    (tmp_path / "file").touch()
    assert stamp.read(tmp_path / "file") is None


def test_current(prefix: Path, written: Stamp) -> None:
    assert stamp.is_current(written, TRAIN, "sha256:a", prefix) == []


def test_another_profiles_comes_first_and_alone(prefix: Path, written: Stamp) -> None:
    other = dataclasses.replace(written, profile="BASE-CPU")
    assert stamp.is_current(other, TRAIN, "sha256:b", prefix) == ["it belongs to BASE-CPU"]


def test_changed_requirements_are_seen(prefix: Path, written: Stamp) -> None:
    """Fault 26: a reused environment whose requirements changed."""
    (reason,) = stamp.is_current(written, TRAIN, "sha256:b", prefix)
    assert "asks for other packages" in reason


def test_packages_changed_by_hand_are_named(prefix: Path, written: Stamp) -> None:
    site = prefix / "lib/python3.11/site-packages"
    (site / "torch-2.13.0+cpu.dist-info").rename(site / "torch-2.13.0.dist-info")
    (site / "vllm-0.25.1.dist-info").mkdir()
    (site / "Hugging_Face_hub-2.4.0.dist-info").rmdir()
    (reason,) = stamp.is_current(written, TRAIN, "sha256:a", prefix)
    assert "torch 2.13.0+cpu -> 2.13.0" in reason
    assert "vllm 0.25.1 added" in reason
    assert "hugging-face-hub 2.4.0 removed" in reason


def test_another_pip_is_not_another_environment(prefix: Path, written: Stamp) -> None:
    site = prefix / "lib/python3.11/site-packages"
    (site / "pip-26.0.dist-info").rename(site / "pip-26.3.dist-info")
    assert stamp.is_current(written, TRAIN, "sha256:a", prefix) == []


def test_many_changes_are_counted() -> None:
    many = {f"p{n}": "1" for n in range(9)}
    assert stamp.changed(many, {}).endswith("and 5 more")
    assert stamp.changed(many, many) == ""


def test_a_moved_environment_and_a_vanished_interpreter(tmp_path: Path, prefix: Path, written: Stamp) -> None:
    moved = tmp_path / "moved"
    prefix.rename(moved)
    (moved / "bin" / "python").unlink()
    os.symlink("/nowhere/python3.11", moved / "bin" / "python")
    reasons = stamp.is_current(written, TRAIN, "sha256:a", moved)
    assert any("moved from" in reason for reason in reasons)
    assert any("interpreter is gone" in reason for reason in reasons)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"profile": 3},
        {"packages": {"torch": 2}},
        {"packages": {"torch": "2.12.0"}},
        {"packages": []},
        {"interpreter": None},
        {"index": 1},
        {"torch": ["x"]},
    ],
)
def test_a_wrong_field_is_a_finding(prefix: Path, written: Stamp, change: dict[str, Any]) -> None:
    path = prefix / stamp.FILE_NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(LabError) as caught:
        stamp.read(prefix, "TRAIN-CPU")
    assert "--recreate" in caught.value.next


@pytest.mark.parametrize("content", ["[]", "3", "{}", '{"format": 1}', '{"format": []}'])
def test_a_torn_stamp_is_told_in_our_words_with_a_command_to_paste(prefix: Path, content: str) -> None:
    (prefix / stamp.FILE_NAME).write_text(content)
    with pytest.raises(LabError) as caught:
        stamp.read(prefix, "TRAIN-CPU")
    command = "python tools/install_environment_profile.py --profile TRAIN-CPU --env-name env --recreate"
    assert caught.value.next.endswith(f": {command}")
    assert "indices" not in caught.value.found
    assert caught.value.found.startswith(("it is JSON, but", "it has no ", "format []"))


def test_cut_off_anywhere_it_is_torn(prefix: Path, written: Stamp) -> None:
    path = prefix / stamp.FILE_NAME
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(LabError) as caught:
            stamp.read(prefix)
        assert "not whole JSON" in caught.value.found


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_no_content_makes_it_crash(content: object) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / stamp.FILE_NAME).write_text(json.dumps(content))
        with pytest.raises(LabError):
            stamp.read(Path(folder))


def test_a_stamp_that_cannot_be_read_or_written(tmp_path: Path, written: Stamp) -> None:
    (tmp_path / stamp.FILE_NAME).mkdir()
    with pytest.raises(LabError):
        stamp.read(tmp_path)
    with pytest.raises(LabError) as caught:
        stamp.write(dataclasses.replace(written, prefix=str(tmp_path / "gone")))
    assert "to write under" in caught.value.wanted

"""Looking for Pythons, conda and torch pins on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.install import planning_facts
from tools.environments.install.planning import InstallRequest
from tools.environments.layout import ROOT
from tools.environments.registry import registry, requirement_text
from tools.environments.sources import indexes, torch_wheel
from tools.environments.sources.index_settings import IndexSettings

TRAIN = registry.load().get("TRAIN-CPU")
RUNNING = f"{sys.version_info[0]}.{sys.version_info[1]}"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def says(version: str, base: str = "/base/python") -> str:
    return f"""echo '["{version}", "{base}"]'"""


@pytest.fixture
def only_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The running Python is none of the profile's, and no fixed folder is looked into."""
    monkeypatch.setattr(sys, "version_info", (3, 14, 0, "final", 0))
    monkeypatch.setattr(planning_facts, "PLACES", ())


def test_the_running_python_is_taken_by_its_base() -> None:
    found = planning_facts.interpreter(TRAIN, None, {})
    assert found is not None
    assert found.executable == sys._base_executable  # type: ignore[attr-defined]
    assert found.version.startswith(f"{RUNNING}.")


def test_a_path_is_asked_what_it_is() -> None:
    found = planning_facts.interpreter(TRAIN, sys.executable, {})
    assert found is not None
    assert found.version.startswith(RUNNING)


def test_the_newest_on_path_that_starts(tmp_path: Path, only_path: None) -> None:
    program(tmp_path / "shims" / "python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    program(tmp_path / "odd" / "python3.12", says("3.11.2"))
    program(tmp_path / "good" / "python3.12", says("3.12.4"))
    program(tmp_path / "good" / "python3.11", says("3.11.9"))
    path = os.pathsep.join(str(tmp_path / name) for name in ("shims", "odd", "good"))
    found = planning_facts.interpreter(TRAIN, None, {"PATH": path})
    assert found is not None
    assert (found.version, found.executable) == ("3.12.4", "/base/python")
    older = planning_facts.interpreter(TRAIN, "3.11", {"PATH": path})
    assert older is not None
    assert older.version == "3.11.9"


def test_pyenvs_own_folder_is_looked_into(tmp_path: Path, only_path: None) -> None:
    program(tmp_path / "versions" / "3.12.1" / "bin" / "python3.12", says("3.12.1"))
    found = planning_facts.interpreter(TRAIN, None, {"PATH": "", "PYENV_ROOT": str(tmp_path)})
    assert found is not None
    assert found.version == "3.12.1"


def test_none_at_all(only_path: None) -> None:
    assert planning_facts.interpreter(TRAIN, None, {"PATH": ""}) is None
    with pytest.raises(LabError) as caught:
        planning_facts.interpreter(TRAIN, "3.12", {"PATH": ""})
    assert "none on PATH" in caught.value.found
    assert "Python 3.14.0 runs this" in planning_facts.no_interpreter(TRAIN).found


def test_a_python_of_another_version_by_path(tmp_path: Path) -> None:
    old = program(tmp_path / "python3.9", says("3.9.2"))
    with pytest.raises(LabError) as caught:
        planning_facts.interpreter(TRAIN, str(old), {})
    assert (caught.value.code, caught.value.found) == (EXIT_USAGE, "3.9.2")


@pytest.mark.parametrize("text", ["exit 1", "echo nonsense", "echo '[1]'", "echo '{}'"])
def test_a_conda_that_does_not_answer_as_conda(tmp_path: Path, text: str) -> None:
    with pytest.raises(LabError) as caught:
        planning_facts.conda_prefix(str(program(tmp_path / "conda", text)), "lab", {})
    assert "conda info" in caught.value.wanted


def test_where_conda_has_it_or_will_put_it(tmp_path: Path) -> None:
    conda = program(tmp_path / "conda", """echo '{"envs": ["/a", "/b/lab", "/x/new"], "envs_dirs": ["/c", "/b"]}'""")
    assert planning_facts.conda_prefix(str(conda), "lab", {}) == Path("/b/lab")
    assert planning_facts.conda_prefix(str(conda), "new", {}) == Path("/c/new")
    planning_facts.remove_by_conda(str(tmp_path / "gone"), "lab", {})


def test_the_torch_files_own_pin() -> None:
    pinned = planning_facts.pinned_by_file(TRAIN, requirement_text.flatten(TRAIN), "3.12.3")
    assert TRAIN.torch is not None
    if sys.platform == "linux":
        assert pinned is not None
        assert pinned.endswith("+cpu")
    delivery = registry.load().get("PERF-DELIVERY")
    assert planning_facts.pinned_by_file(delivery, requirement_text.flatten(delivery), "3.12.3") is None
    assert planning_facts.choose_torch(delivery, InstallRequest("PERF-DELIVERY"), "3.12", ROOT) is None


@pytest.mark.skipif(sys.platform != "linux", reason="the file pins exactly on Linux only")
def test_behind_a_socks_proxy_the_files_pin_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """urllib speaks no SOCKS, pip and uv do: what cannot be judged is no reason to stop."""

    def refused(*_: object, **__: object) -> torch_wheel.TorchChoice:
        raise LabError("an index that answers", "no answer", "")

    monkeypatch.setattr(torch_wheel, "choose", refused)
    monkeypatch.setattr(indexes, "cannot_judge", lambda error: True)
    chosen = planning_facts.choose_torch(TRAIN, InstallRequest("TRAIN-CPU", settings=IndexSettings()), "3.12.3", ROOT)
    assert chosen is not None
    assert chosen.kind == "assumed"
    monkeypatch.setattr(indexes, "cannot_judge", lambda error: False)
    with pytest.raises(LabError):
        planning_facts.choose_torch(TRAIN, InstallRequest("TRAIN-CPU", settings=IndexSettings()), "3.12.3", ROOT)

"""The automation environment: what counts as whole, how a new one takes its place, and what it leaves alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bootstrap_checkout import (
    Index,
    automation_requirements,
    call,
    copy_checkout,
    environ,
    fill_index,
    made_current,
    served,
    start,
    wait_until,
)
from stages import few

from tools.environments import automation
from tools.environments.errors import LabError
from tools.environments.sources import index_settings, indexes

# what a user, or a sweep of old files, may have taken away
DAMAGES = {
    "script gone": "bin/nox",
    "module gone": "lib/python*/site-packages/lab_tool.py",
    "metadata gone": "lib/python*/site-packages/nox-*.dist-info",
    "packages gone": "lib/python*/site-packages",
}


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_index(tmp_path_factory.mktemp("index"))


@pytest.fixture
def index(wheels: Path) -> Iterator[Index]:
    with served(wheels) as index:
        yield index


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone, in a folder with a space in its name."""
    return copy_checkout(tmp_path / "a clone")


@pytest.fixture(scope="module")
def shared_clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("shared") / "a clone")


@pytest.fixture
def made(shared_clone: Path, index: Index) -> Path:
    return made_current(shared_clone, index)


@pytest.mark.parametrize("change", few(3, ["requirements", "torn stamp", *DAMAGES, "interpreter gone", "moved"]))
def test_what_is_no_longer_true_is_made_anew(made: Path, index: Index, change: str) -> None:
    leftover = made / ".envs" / "automation" / "leftover"
    leftover.touch()
    if change == "requirements":
        automation_requirements(made).write_text("nox>=2025\n")
    elif change == "moved":
        made = made.rename(made.with_name("elsewhere"))
        leftover = made / leftover.relative_to(made.with_name("a clone"))
    elif change == "interpreter gone":
        (made / ".envs" / "automation" / "bin" / "python").unlink()
    elif change in DAMAGES:
        (found,) = (made / ".envs" / "automation").glob(DAMAGES[change])
        shutil.rmtree(found) if found.is_dir() else found.unlink()
    else:
        stamp = made / ".envs" / "automation" / "automation-stamp.json"
        stamp.write_text(stamp.read_text()[:-5])
    code, _, err = call(made, "nox", **environ(index))
    assert code == 7
    assert "making" in err
    assert not leftover.exists()


@pytest.mark.parametrize("files", few(1, [{"nowhere": ["x"]}, None, ["bin/nox"], {"bin": 1}, 0]))
def test_a_stamp_that_was_written_by_hand_is_not_believed(made: Path, index: Index, files: object) -> None:
    """0 is for a stamp that is no object at all."""
    stamp = made / ".envs" / "automation" / "automation-stamp.json"
    told = json.loads(stamp.read_text())
    stamp.write_text("[]" if files == 0 else json.dumps({**told, "files": files}))
    assert call(made, "nox", **environ(index))[0] == 7
    assert json.loads(stamp.read_text()) == told


@pytest.mark.race
def test_it_is_used_until_the_next_one_is_finished(made: Path, index: Index) -> None:
    """Whoever runs it while another call makes a new one goes on running it."""
    python = made / ".envs" / "automation" / "bin" / "python"
    automation_requirements(made).write_text("nox>=2025\n")
    index.held = "nox-2026.1"
    builder = start(made, "nox", **environ(index))
    wait_until(lambda: any("nox-2026.1" in path for path in index.asked))
    assert subprocess.run([python, "-c", "import lab_tool"], check=False).returncode == 0
    index.release.set()
    out, _ = builder.communicate(timeout=60)
    assert (builder.returncode, json.loads(out)["arguments"]) == (7, [])
    assert sorted(path.name for path in (made / ".envs").iterdir()) == ["automation", "automation.lock"]


def test_one_that_cannot_be_made_anew_leaves_the_old_one_as_it_was(made: Path, index: Index) -> None:
    automation_requirements(made).write_text("nox\na-package-nobody-has\n")
    assert call(made, "nox", **environ(index))[0] == 1
    automation_requirements(made).write_text("nox>=2026\n")
    assert call(made, "nox", **environ(index))[::2] == (7, "")


@pytest.mark.full
def test_a_second_python_gets_its_own_and_leaves_the_first_alone(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements = tmp_path / "automation.txt"
    requirements.write_text("nox\n")
    first = tmp_path / "envs" / "automation"
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert automation.ensure(environ(index), first, requirements) == first
    stamp = first / "automation-stamp.json"
    stamp.write_text(json.dumps({**json.loads(stamp.read_text()), "python": "3.99"}))  # as if another had made it
    second = automation.ensure(environ(index), first, requirements)
    assert second == tmp_path / "envs" / f"automation-{ours}"
    assert automation.is_current(second, requirements)
    assert json.loads(stamp.read_text())["python"] == "3.99"
    (first / "bin" / "python").unlink()
    assert automation.ensure(environ(index), first, requirements) == second
    shutil.rmtree(second)
    assert automation.ensure(environ(index), first, requirements) == first  # of a Python that is gone


def test_the_scripts_know_where_they_lie(made: Path) -> None:
    prefix = made / ".envs" / "automation"
    assert subprocess.run([prefix / "bin" / "nox"], stdout=subprocess.DEVNULL, check=False).returncode == 7
    for path in (prefix / "pyvenv.cfg", *(path for path in (prefix / "bin").iterdir() if path.is_file())):
        assert b".automation.new" not in path.read_bytes()


def test_a_dollar_in_the_checkout_s_path_is_no_variable(tmp_path: Path, index: Index) -> None:
    clone = copy_checkout(tmp_path / "a $HOME of my own")
    assert call(clone, "nox", **environ(index))[0] == 7


def test_a_file_in_its_place_is_left_to_its_owner(clone: Path, index: Index) -> None:
    place = clone / ".envs" / "automation"
    place.parent.mkdir()
    place.write_text("mine")
    code, _, err = call(clone, "nox", **environ(index))
    assert code == 1
    assert err.splitlines()[:3] == ["blocked", f"  wanted a folder at {place}, or nothing", "  found  a file"]
    assert f"mv '{place}'" in err
    assert place.read_text() == "mine"
    assert index.asked == []


def test_a_link_in_its_place_is_replaced_and_what_it_leads_to_is_kept(clone: Path, index: Index) -> None:
    elsewhere = clone / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").touch()
    (clone / ".envs").mkdir()
    (clone / ".envs" / "automation").symlink_to(elsewhere)
    assert call(clone, "nox", **environ(index))[0] == 7
    assert (elsewhere / "mine").exists()
    assert not (clone / ".envs" / "automation").is_symlink()


def test_a_folder_that_cannot_hold_an_environment_is_told(tmp_path: Path, index: Index) -> None:
    code, _, err = call(copy_checkout(tmp_path / "a:b"), "nox", **environ(index))
    assert code == 1
    assert "plain name" in err.splitlines()[-1]


def test_a_tool_that_the_system_does_not_start_is_told(made: Path, index: Index) -> None:
    (made / ".envs" / "automation" / "bin" / "uv").write_text("")
    os.chmod(made / ".envs" / "automation" / "bin" / "uv", 0o755)
    code, _, err = call(made, "uv", **environ(index))
    assert code == 1
    assert err.startswith("blocked\n  wanted to start uv\n  found  Exec format error (")
    assert f"rm -r '{made}/.envs/automation'" in err


def test_a_python_that_brings_no_pip_takes_it_from_the_index(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare Debian: neither pip nor ensurepip."""
    monkeypatch.setattr(indexes, "_places_of_python", lambda: ())
    requirements = tmp_path / "automation.txt"
    requirements.write_text("nox\n")
    prefix = tmp_path / "envs" / "automation"
    automation.ensure(environ(index), prefix, requirements)
    assert any(path.startswith("/simple/pip/pip-") for path in index.asked)
    assert automation.is_current(prefix, requirements)
    assert os.access(prefix / "bin" / "nox", os.X_OK)
    assert not (prefix / "pip-wheel").exists()


def test_a_python_without_venv_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "venv", None)
    requirements = tmp_path / "automation.txt"
    requirements.write_text("nox\n")
    with pytest.raises(LabError, match="python3-venv"):
        automation.ensure({}, tmp_path / "envs" / "automation", requirements)


def test_a_user_s_pip_settings_keep_the_network_and_lose_the_target() -> None:
    settings = index_settings.IndexSettings(
        index_url="https://mirror/simple", find_links=("/a b",), network={"PIP_RETRIES": "3"}
    )
    assert automation.pip_options(settings, {}) == ["--index-url", "https://mirror/simple", "--find-links", "/a b"]
    assert automation.pip_options(index_settings.IndexSettings(), {}) == ["--retries", "1"]
    assert automation.pip_options(index_settings.IndexSettings(), {"PIP_RETRIES": "9"}) == []
    assert automation.pip_options(index_settings.IndexSettings(offline=True), {}) == ["--no-index"]


def test_a_checkout_that_is_not_this_user_s_has_it_in_the_user_s_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an image, whose code and environment are root's. Root itself may write anywhere: so the answer is given."""
    envs = tmp_path / "lab" / ".envs"
    assert automation.place(envs, {}) == envs / "automation"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert automation.place(envs, {"HOME": "/h"}) == Path("/h/.cache/training-mechanism-lab/automation")
    assert automation.place(envs, {"HOME": "/h", "XDG_CACHE_HOME": "/c"}).parts[:3] == (
        "/",
        "c",
        "training-mechanism-lab",
    )

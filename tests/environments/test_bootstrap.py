"""The bootstrap against a real index on loopback: made, reused, raced, killed, refused."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from bootstrap_checkout import (
    Index,
    call,
    copy_checkout,
    environ,
    fill_index,
    made_current,
    served,
    start,
    wait_until,
)


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


def test_the_first_call_makes_it_and_hands_over(clone: Path, index: Index) -> None:
    code, out, err = call(clone, "nox", "-s", "A B", "--", "x", **environ(index, PYTHONPATH="/opt/ros"))
    told = json.loads(out)  # the tool's own output and nothing else
    assert code == 7  # the tool's own code
    assert told["arguments"] == ["-s", "A B", "--", "x"]
    assert told["cwd"] == str(clone)
    assert (told["PYTHONPATH"], told["TMLAB_STRIPPED_PYTHONPATH"]) == (None, "/opt/ros")
    assert told["PATH"].endswith(f":{clone}/.envs/automation/bin")
    assert "making" in err
    assert err.splitlines()[-1].split() == ["automation", "done"]


def test_a_second_call_only_looks(made: Path, index: Index) -> None:
    code, out, err = call(made, "nox", **environ(index))
    assert (code, err) == (7, "")
    assert json.loads(out)["arguments"] == []
    assert index.asked == []  # 0.1 s on an idle machine, which the benchmarks watch


@pytest.mark.race
def test_of_two_at_once_one_builds_and_the_other_waits(clone: Path, index: Index) -> None:
    index.held = "nox-2026.1"
    first = start(clone, "nox", **environ(index))
    wait_until(lambda: any("nox-2026.1" in path for path in index.asked))
    second = start(clone, "nox", **environ(index))
    assert second.stderr is not None
    assert second.stderr.readline() == f"automation   waiting for {first.pid}, which is making one in {clone}/.envs\n"
    index.release.set()
    assert [child.wait(60) for child in (first, second)] == [7, 7]
    assert sum(path.endswith("nox-2026.1-py3-none-any.whl") for path in index.asked) == 1
    for child in (first, second):
        child.communicate()


@pytest.mark.race
def test_killed_in_the_middle_it_is_made_anew_and_never_beside_the_old_pip(clone: Path, index: Index) -> None:
    index.held = "nox-2026.1"
    first = start(clone, "nox", **environ(index))
    wait_until(lambda: any("nox-2026.1" in path for path in index.asked))
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = start(clone, "nox", **environ(index))  # the orphaned pip still holds the lock, and still installs
    assert second.stderr is not None
    assert "waiting for" in second.stderr.readline()
    index.release.set()
    out, err = second.communicate(timeout=60)
    first.communicate()
    assert second.returncode == 7
    assert "making" in err
    assert json.loads(out)["arguments"] == []


@pytest.mark.race
def test_ctrl_c_ends_it_with_130(clone: Path, index: Index) -> None:
    index.held = "nox-2026.1"
    child = start(clone, "nox", **environ(index))
    wait_until(lambda: any("nox-2026.1" in path for path in index.asked))
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Traceback" not in err
    assert "the next call makes the environment anew" in err


def test_an_index_that_does_not_answer_is_told_soon(clone: Path) -> None:
    code, out, err = call(clone, "nox", **environ(TMLAB_INDEX_URL="http://me:secret@127.0.0.1:9/simple"))
    assert (code, out) == (1, "")
    assert err.splitlines()[1].startswith("blocked")
    assert "TMLAB_INDEX_URL" in err.splitlines()[-1]
    assert "secret" not in err
    assert not (clone / ".envs" / "automation" / "automation-stamp.json").exists()


def test_an_index_that_lacks_a_package_is_told_with_what_pip_said(clone: Path, index: Index) -> None:
    (clone / "requirements" / "automation.txt").write_text("nox\na-package-nobody-has\n")
    code, _, err = call(clone, "nox", **environ(index))
    assert code == 1
    assert "No matching distribution found for a-package-nobody-has" in err


def test_a_folder_of_wheels_is_enough_without_network(clone: Path, wheels: Path, tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for wheel in wheels.rglob("*.whl"):
        shutil.copy(wheel, folder)
    settings = environ(TMLAB_FIND_LINKS=str(folder), TMLAB_OFFLINE="1", TMLAB_INDEX_URL="http://127.0.0.1:9/simple")
    code, out, _ = call(clone, "nox", "-l", **settings)
    assert (code, json.loads(out)["arguments"]) == (7, ["-l"])


def test_a_place_that_cannot_be_written_is_told(clone: Path, index: Index) -> None:
    (clone / ".envs").write_text("a file where a folder belongs")
    code, _, err = call(clone, "nox", **environ(index))
    assert code == 1
    assert err.startswith("blocked\n  wanted to write under ")


def test_without_a_tool_it_says_what_next(made: Path, index: Index) -> None:
    code, out, _ = call(made, **environ(index))
    assert code == 0
    assert out == f"{made}/.envs/automation is ready; next: python3 tools/bootstrap.py nox -l\n"


def test_an_unknown_tool_is_wrong_usage_and_downloads_nothing(clone: Path, index: Index) -> None:
    code, out, err = call(clone, "make", **environ(index))
    assert (code, out) == (2, "")
    assert "one of nox, invoke, uv, python" in err
    assert index.asked == []
    assert call(clone, "--help", **environ(index))[0] == 0

"""The bootstrap against a real index on loopback: made, reused, rebuilt, raced, killed, refused."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from own_pip import wheel_of_pip

from tools.environments import automation, index_settings, indexes
from tools.environments.errors import LabError
from tools.environments.layout import ROOT

TOOL = """
import json, os, sys
def main():
    names = ("PYTHONPATH", "TMLAB_STRIPPED_PYTHONPATH", "PATH")
    print(json.dumps({"arguments": sys.argv[1:], "cwd": os.getcwd(), **{name: os.environ.get(name) for name in names}}))
    return 7
"""


def write_wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> Path:
    """A wheel as small as the format allows; files under {dist-info}/ go there."""
    info = f"{name}-{version}.dist-info"
    content = {path.replace("{dist-info}", info): data for path, data in files.items()}
    content.setdefault(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode())
    content[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = [f"{path},sha256={_record_digest(data)},{len(data)}" for path, data in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    return wheel


def _record_digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


class Index(ThreadingHTTPServer):
    """A folder served as a simple index. It keeps what was asked, and can hold one file back until `release` is set."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.held = ""
        self.release = threading.Event()
        index = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(folder))

            def do_GET(self) -> None:
                index.asked.append(self.path)
                if index.held and index.held in self.path:
                    index.release.wait(30)
                super().do_GET()

            def log_message(self, *arguments: Any) -> None:
                pass

            def copyfile(self, source: Any, outputfile: Any) -> None:
                with contextlib.suppress(OSError):  # the client was killed, which is what some of these tests do
                    super().copyfile(source, outputfile)

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/simple"


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of two projects: the pip installed here, packed again, and a `nox` that tells how it was called."""
    folder = tmp_path_factory.mktemp("index")
    (folder / "simple" / "pip").mkdir(parents=True)
    wheel_of_pip(folder / "simple" / "pip")
    entry = b"[console_scripts]\nnox = lab_tool:main\n"
    tool = {"lab_tool.py": TOOL.encode(), "{dist-info}/entry_points.txt": entry}
    write_wheel(folder / "simple" / "nox", "nox", "2026.1", tool)
    return folder


@pytest.fixture
def index(wheels: Path) -> Iterator[Index]:
    server = Index(wheels)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()


def copy_checkout(root: Path) -> Path:
    """What of a fresh clone the bootstrap needs."""
    shutil.copytree(ROOT / "tools", root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "requirements").mkdir()
    (root / "requirements" / "automation.txt").write_text("nox>=2026\n")
    return root


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone, in a folder with a space in its name."""
    return copy_checkout(tmp_path / "a clone")


@pytest.fixture(scope="module")
def shared_clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("shared") / "a clone")


@pytest.fixture
def made(shared_clone: Path, index: Index) -> Path:
    """A clone whose environment is current; what a test breaks, the next use mends."""
    if not shared_clone.exists():  # a test has moved it
        shared_clone.with_name("elsewhere").rename(shared_clone)
    automation_requirements(shared_clone).write_text("nox>=2026\n")
    assert call(shared_clone, **environ(index))[0] == 0
    index.asked.clear()
    return shared_clone


def automation_requirements(clone: Path) -> Path:
    return clone / "requirements" / "automation.txt"


def environ(index: Index | None = None, **given: str) -> dict[str, str]:
    """A user's variables, with nothing of this machine's package settings; caches of other runs do not help."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "TMLAB_", "PYTHON"))
    }
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", "no_proxy": "127.0.0.1"}
    return {**kept, **settings, **({"TMLAB_INDEX_URL": index.url} if index else {}), **given}


def start(clone: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", str(clone / "tools" / "bootstrap.py"), *arguments]
    return subprocess.Popen(
        command, cwd=clone.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def call(clone: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    child = start(clone, *arguments, **environment)
    out, err = child.communicate(timeout=60)
    assert "Traceback" not in err
    return child.returncode, out, err


def wait_until(condition: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


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
    begin = time.monotonic()
    code, out, err = call(made, "nox", **environ(index))
    assert (code, err) == (7, "")
    assert json.loads(out)["arguments"] == []
    assert index.asked == []
    assert time.monotonic() - begin < 2  # 0.1 s on an idle machine; the ratio stands in the benchmarks


@pytest.mark.parametrize("change", ["requirements", "interpreter gone", "torn stamp", "moved"])
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
    else:
        stamp = made / ".envs" / "automation" / "automation-stamp.json"
        stamp.write_text(stamp.read_text()[:-5])
    code, _, err = call(made, "nox", **environ(index))
    assert code == 7
    assert "making" in err
    assert not leftover.exists()


def test_of_two_at_once_one_builds_and_the_other_waits(clone: Path, index: Index) -> None:
    index.held = "nox-2026.1"
    first = start(clone, "nox", **environ(index))
    wait_until(lambda: any("nox-2026.1" in path for path in index.asked))
    second = start(clone, "nox", **environ(index))
    assert second.stderr is not None
    assert (
        second.stderr.readline() == f"automation   waiting for {first.pid}, which is making {clone}/.envs/automation\n"
    )
    index.release.set()
    assert [child.wait(60) for child in (first, second)] == [7, 7]
    assert sum(path.endswith("nox-2026.1-py3-none-any.whl") for path in index.asked) == 1
    for child in (first, second):
        child.communicate()


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
    begin = time.monotonic()
    code, out, err = call(clone, "nox", **environ(TMLAB_INDEX_URL="http://me:secret@127.0.0.1:9/simple"))
    assert (code, out) == (1, "")
    assert err.splitlines()[1].startswith("blocked")
    assert "TMLAB_INDEX_URL" in err.splitlines()[-1]
    assert "secret" not in err
    assert time.monotonic() - begin < 20
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

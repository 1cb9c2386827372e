"""A fresh clone as far as the bootstrap reads it, a package index on loopback that serves it, and calls of it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from own_pip import wheel_of_pip

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


def fill_index(folder: Path) -> Path:
    """An index of two projects: the pip installed here, packed again, and a `nox` that tells how it was called."""
    (folder / "simple" / "pip").mkdir(parents=True)
    wheel_of_pip(folder / "simple" / "pip")
    entry = b"[console_scripts]\nnox = lab_tool:main\n"
    tool = {"lab_tool.py": TOOL.encode(), "{dist-info}/entry_points.txt": entry}
    write_wheel(folder / "simple" / "nox", "nox", "2026.1", tool)
    return folder


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Index]:
    server = Index(folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        server.server_close()


def copy_checkout(root: Path) -> Path:
    """What of a fresh clone the bootstrap needs."""
    shutil.copytree(ROOT / "tools", root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "requirements").mkdir()
    (root / "requirements" / "automation.txt").write_text("nox>=2026\n")
    return root


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


def made_current(clone: Path, index: Index) -> Path:
    """The clone with an environment that is current, whatever the test before has broken or moved."""
    if not clone.exists():
        clone.with_name("elsewhere").rename(clone)
    automation_requirements(clone).write_text("nox>=2026\n")
    assert call(clone, **environ(index))[0] == 0
    index.asked.clear()
    return clone


def wait_until(condition: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)

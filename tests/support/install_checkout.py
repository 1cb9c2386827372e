"""A small checkout to install from: our own tools, a registry of tiny profiles, and a folder of tiny wheels.

The wheels are made here with zipfile; torch is the stand-in that the preflight tests use. What an install does with
them is real: real uv, real pip, real environments, the real preflight at the end.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import http.server
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import child_coverage
import hand_made_environment
import pytest
from own_pip import wheel_of_pip

from tools.environments.errors import LabError
from tools.environments.install import planning, planning_facts
from tools.environments.installed import installed_files
from tools.environments.layout import ROOT
from tools.environments.machine import host_facts
from tools.environments.registry import registry
from tools.environments.sources import index_settings

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
SCRIPT = "tools/install_environment_profile.py"
HAS_ENSUREPIP = importlib.util.find_spec("ensurepip") is not None
UV = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
# What a caller's shell may hold and a test must not depend on.
FOREIGN = ("PIP_", "UV_", "TMLAB_", "CONDA_", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")


def wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str] | None = None,
    *,
    requires: tuple[str, ...] = (),
    tag: str = "py3-none-any",
) -> Path:
    """A wheel with these files (default: one small module) and a right RECORD."""
    module = name.replace("-", "_")
    content = dict(files if files is not None else {f"{module}/__init__.py": f"version = {version!r}\n"})
    info = f"{module}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    content[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    record = io.StringIO()
    rows = [(path, f"sha256={_digest(text)}", len(text.encode())) for path, text in content.items()]
    csv.writer(record, lineterminator="\n").writerows([*rows, (f"{info}/RECORD", "", "")])
    content[f"{info}/RECORD"] = record.getvalue()
    target = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
    return target


def torch_wheel(folder: Path, version: str = "2.13.0+cpu", cuda: str | None = None, tag: str | None = None) -> Path:
    """The stand-in for torch as a wheel for this machine; `tag` for another."""
    system, _, machine = host_facts.system().partition("-")
    platform = "macosx_11_0_" if system == "darwin" else "manylinux_2_17_"
    files = hand_made_environment.torch_files(version, cuda)
    files |= {f"torch/part_{number}.py": f"x = {number}\n" * 50 for number in range(200)}  # long enough to be killed in
    return wheel(folder, "torch", version, files, tag=tag or f"{TAG}-{TAG}-{platform}{machine}")


def wheels(folder: Path) -> Path:
    """Everything that TINY-CPU needs: on a bare Debian, whose Python brings no pip along, that too."""
    folder.mkdir(parents=True, exist_ok=True)
    if not HAS_ENSUREPIP:
        wheel_of_pip(folder)
    torch_wheel(folder)
    many = {f"tiny_alpha/{part}.py": f"y = {part!r}\n" * 20 for part in ("__init__", *(f"m{n}" for n in range(200)))}
    wheel(folder, "tiny-alpha", "1.2.0", many, requires=("tiny-beta>=1", "torch>=2"))
    wheel(folder, "tiny-beta", "1.0.0")
    wheel(folder, "tiny-beta", "1.1.0")
    return folder


def registry_text() -> dict[str, Any]:
    """A registry of three tiny profiles under the real isolation table."""
    document: dict[str, Any] = json.loads((ROOT / "requirements" / "environment-profiles.json").read_text())
    host = {"download_gib": 0.1, "disk_gib": 0.1, "minutes": "1"}
    entry = {
        "extends": "cpu",
        "title": "tiny packages",
        "title_zh": "tiny",
        "purpose": "Tests the installer.",
        "purpose_zh": "test",
        "required_modules": ["torch", "tiny_alpha", "tiny_beta"],
        "host": host,
        "experiments": [],
        "topic": next(iter(document["topics"])),
    }
    tiny = {**entry, "id": "TINY-CPU", "requirements": ["torch-cpu.txt", "tiny.txt"], "environment": "tiny_cpu"}
    other = {**tiny, "id": "OTHER-CPU", "environment": "other_cpu"}
    plain = {**entry, "id": "TINY-DELIVERY", "extends": "delivery", "requirements": ["tiny-delivery.txt"]}
    plain |= {"environment": "tiny_delivery", "required_modules": ["tiny_beta"]}
    cuda = next(item for item in document["profiles"] if item["id"] == "TRAIN-CUDA-MECHANISM")
    cuda = {**cuda, "requirements": ["torch-cu128.txt", "tiny.txt"], "required_modules": ["torch", "tiny_alpha"]}
    document["profiles"] = [tiny, other, plain, cuda]
    return document


@dataclass
class Checkout:
    """The checkout and how its installer is called: without the caller's package settings, with its own cache."""

    root: Path
    wheels: Path
    cache: Path
    extra: dict[str, str] = field(default_factory=dict)
    keeps_sources: bool = False

    @property
    def environ(self) -> dict[str, str]:
        """The variables a call sees."""
        if self.keeps_sources:
            return {**os.environ, "PATH": f"{Path(UV).parent}{os.pathsep}{os.environ['PATH']}"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        own = {"HOME": str(self.cache), "XDG_CONFIG_HOME": str(self.cache / "config"), "UV_CACHE_DIR": str(self.cache)}
        return {**kept, **own, "PATH": f"{Path(UV).parent}{os.pathsep}{kept['PATH']}", **self.extra}

    def command(self, *arguments: str, profile: str = "TINY-CPU", offline: bool = True) -> list[str]:
        """The command line; wheels come from the folder alone unless `offline` is False."""
        folder = ["--find-links", str(self.wheels), "--offline"] if offline else []
        return [sys.executable, "-I", str(self.root / SCRIPT), "--profile", profile, *folder, *arguments]

    def install(
        self, *arguments: str, profile: str = "TINY-CPU", offline: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run the installer to its end; a traceback fails here."""
        answer = subprocess.run(
            self.command(*arguments, profile=profile, offline=offline),
            cwd=self.root,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert "Traceback" not in answer.stderr + answer.stdout, answer.stderr + answer.stdout
        return answer

    def start(self, *arguments: str, profile: str = "TINY-CPU", offline: bool = True) -> subprocess.Popen[str]:
        """Start the installer in a process group of its own, to be interrupted whole, or waited for."""
        return self._started(self.command(*arguments, profile=profile, offline=offline), self.environ)

    def start_to_kill(self, *arguments: str, profile: str = "TINY-CPU", offline: bool = True) -> subprocess.Popen[str]:
        """The same for one that is to be killed, with all that it has started."""
        unmeasured = child_coverage.unmeasured(self.environ)
        return self._started(self.command(*arguments, profile=profile, offline=offline), unmeasured)

    def _started(self, command: list[str], environ: dict[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.root,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def prefix(self, name: str = "tiny_cpu") -> Path:
        """An environment of this checkout."""
        return self.root / ".envs" / name

    def state(self, name: str = "tiny_cpu") -> Path:
        """What the installer keeps about it."""
        return self.root / ".envs" / ".install" / name

    def journal(self, name: str = "tiny_cpu") -> str:
        """The journal's text so far."""
        try:
            return (self.state(name) / "journal.jsonl").read_text()
        except FileNotFoundError:
            return ""

    def wait_for(self, event: str, step: str, child: subprocess.Popen[str], *, name: str = "tiny_cpu") -> bool:
        """Wait until the journal says so; False when the installer ended before."""
        wanted = f'"event":"{event}","step":"{step}"'
        limit = time.monotonic() + 60
        while wanted not in self.journal(name):
            if child.poll() is not None or time.monotonic() > limit:
                return False
            time.sleep(0.001)
        return True

    def whole(self, name: str = "tiny_cpu") -> installed_files.Sweep:
        """Every installed file checked against its RECORD, content included."""
        return installed_files.sweep(installed_files.site_packages(self.prefix(name)), hashes=True)

    def packages(self, name: str = "tiny_cpu") -> dict[str, str]:
        """Installed packages by name."""
        site = installed_files.site_packages(self.prefix(name))
        return {dist.name: dist.version for dist in installed_files.distributions(site)}


def make(folder: Path) -> Checkout:
    """A fresh checkout under `folder`; its wheels are made once, beside it."""
    root = folder / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tools", root / "tools", ignore=ignored)
    (root / "experiments").mkdir()
    shutil.copy(ROOT / "experiments" / "__init__.py", root / "experiments")
    shutil.copytree(ROOT / "requirements", root / "requirements")
    (root / "requirements" / "environment-profiles.json").write_text(json.dumps(registry_text()))
    (root / "requirements" / "tiny.txt").write_text("tiny-alpha>=1,<2\ntiny-beta>=1\n")
    (root / "requirements" / "tiny-delivery.txt").write_text("tiny-beta>=1\n")
    (folder / "cache").mkdir(exist_ok=True)
    return Checkout(root, wheels(folder / "wheels"), folder / "cache")


def installed(folder: Path) -> Checkout:
    """A checkout in which TINY-CPU was installed by uv; `put_back` makes it that again."""
    checkout = make(folder)
    answer = checkout.install("--backend", "uv")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return checkout


def put_back(template: Checkout) -> Checkout:
    """The installed checkout as it was at the first call, whatever a test did to it."""
    saved = template.root.parent / "saved"
    if not saved.exists():
        shutil.copytree(template.root, saved, symlinks=True)
    shutil.rmtree(template.root)
    shutil.copytree(saved, template.root, symlinks=True)
    return template


def answered(checkout: Checkout, *arguments: str, code: int = 0, **options: Any) -> dict[str, Any]:
    """The JSON object; stdout must hold that and nothing else."""
    answer = checkout.install("--json", *arguments, **options)
    assert answer.returncode == code, answer.stdout + answer.stderr
    (line,) = answer.stdout.splitlines()
    told: dict[str, Any] = json.loads(line)
    return told


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


class Index(http.server.ThreadingHTTPServer):
    """A package index on loopback over a folder of wheels; `hidden` projects are not there. Counts what was asked.

    A file whose name begins with `held` is not sent before `release` is set; `holding` is set once it was asked for.
    """

    def __init__(self, folder: Path, hidden: tuple[str, ...] = (), held: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.folder, self.hidden, self.held = folder, hidden, held
        self.asked: list[str] = []
        self.holding, self.release = threading.Event(), threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address to give as --index-url."""
        return f"http://127.0.0.1:{self.server_port}/simple"

    def stop(self) -> None:
        """Answer no more."""
        self.shutdown()
        self.server_close()


class _Page(http.server.BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        parts = self.path.strip("/").split("/")
        if parts[0] == "files":
            if self.server.held and parts[-1].startswith(self.server.held):
                self.server.holding.set()
                self.server.release.wait(60)
            return self._send((self.server.folder / urllib.parse.unquote(parts[-1])).read_bytes())
        names = [
            path.name for path in self.server.folder.glob("*.whl") if path.name.startswith(_module(parts[-1]) + "-")
        ]
        if not names or parts[-1] in self.server.hidden:
            return self.send_error(404)
        return self._send("".join(f'<a href="/files/{urllib.parse.quote(name)}">{name}</a>' for name in names).encode())

    do_HEAD = do_GET  # noqa: N815  the name is http.server's

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


def _module(project: str) -> str:
    return project.replace("-", "_")


def seeds(folder: Path) -> None:
    """What `uv venv --seed` asks an index for: pip's own wheel, and small stand-ins for the other two."""
    pip_wheel(folder)
    wheel(folder, "setuptools", "80.0.0")
    wheel(folder, "wheel", "0.45.0")


def make_venv(prefix: Path) -> None:
    """`python -m venv`, with pip also on a bare Debian, whose Python brings none along."""
    bare = [] if HAS_ENSUREPIP else ["--without-pip"]
    subprocess.run([sys.executable, "-m", "venv", *bare, str(prefix)], check=True)
    if bare:
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel_of_pip(Path(folder))) as archive:
            archive.extractall(installed_files.site_packages(prefix))


def pip_wheel(folder: Path) -> Path:
    """pip's own wheel, put into a folder."""
    return wheel_of_pip(folder)


def real(folder: Path) -> Checkout:
    """A checkout with the real registry and the caller's own package sources and caches. Skips without a CPU torch."""
    checkout = Checkout(folder / "checkout", folder, Path.home(), keeps_sources=True)
    for name in ("tools", "requirements"):
        shutil.copytree(ROOT / name, checkout.root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "experiments", checkout.root / "experiments", ignore=shutil.ignore_patterns("__pycache__"))
    profile = registry.load().get("TRAIN-CPU")
    request = planning.InstallRequest(
        profile.id, settings=index_settings.resolve(index_settings.IndexOptions(), os.environ)
    )
    try:
        planning_facts.choose_torch(profile, request, PYTHON, ROOT)
    except LabError as error:
        pytest.skip(f"no CPU torch to install here: {error.found}")
    return checkout

"""Real virtual environments with hand-made packages: whole ones that satisfy a profile, to be broken one way at a time.

Each is made by `python -m venv --without-pip`; a package is a module of one line and a .dist-info that tells name,
version and RECORD as pip would have written them. torch is a stand-in small enough to break in every way a real one
can: it answers its version, its build, its cards, and computes the one product that preflight asks for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import child_coverage

from tools.environments.installed import registration
from tools.environments.layout import ROOT
from tools.environments.model import Profile
from tools.environments.registry import requirement_text
from tools.environments.registry.pep508 import environment_of_this_python

PREFLIGHT = ROOT / "tools" / "environment_preflight.py"
IMPORT_NAMES = {"nvidia-ml-py": "pynvml", "huggingface-hub": "huggingface_hub"}
ROUNDS = ("", ".0", ".0.0", ".1", ".99")

TORCH = '''
"""A stand-in for torch: a version, a build, cards, and exact products of constant matrices."""
import types
from torch import version as version

__version__ = version.__version__
CARDS, WHY, BF16, FAILS = {cards!r}, {why!r}, {bf16!r}, {fails!r}
_C = types.SimpleNamespace(_cuda_getArchFlags=lambda: {architectures!r})
float32, float16, bfloat16 = "float32", "float16", "bfloat16"


class Matrix:
    def __init__(self, value, side, leaf=None):
        self.value, self.side, self.leaf, self.grad = value, side, leaf, None

    def __matmul__(self, other):
        return Matrix(self.value * other.value * self.side, self.side, self)

    def sum(self):
        return self

    def backward(self):
        self.leaf.grad = Matrix(2 * self.leaf.value * self.side, self.side)

    def __getitem__(self, index):
        return self

    def item(self):
        return self.value


def full(shape, value, *, dtype, device, requires_grad):
    if dtype in FAILS:
        raise RuntimeError(FAILS[dtype])
    return Matrix(value, shape[0])


def _init():
    raise RuntimeError(WHY)


cuda = types.SimpleNamespace(
    device_count=lambda: len(CARDS),
    get_device_capability=lambda index: CARDS[index],
    is_available=lambda: bool(CARDS) and not WHY,
    is_bf16_supported=lambda including_emulation=True: BF16,
    init=_init,
)
backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=False)))
'''


@dataclass(frozen=True)
class Environment:
    """One environment on disk. `home` stands for the user's home, which starts empty."""

    prefix: Path
    home: Path

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python"

    @property
    def site(self) -> Path:
        return self.prefix / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def install(
        self, name: str, version: str, files: Mapping[str, str] | None = None, requires: tuple[str, ...] = ()
    ) -> None:
        """Put a distribution here in place of an earlier one, as pip would leave it."""
        for info in self.site.glob(f"{name.replace('-', '_')}-*.dist-info"):
            shutil.rmtree(info)
        install(self.site, name, version, files, requires)

    def remove(self, name: str, module: str) -> None:
        """Take a distribution and its module away."""
        for info in self.site.glob(f"{name.replace('-', '_')}-*.dist-info"):
            shutil.rmtree(info)
        shutil.rmtree(self.site / module, ignore_errors=True)
        (self.site / f"{module}.py").unlink(missing_ok=True)

    def info(self, name: str) -> Path:
        """The .dist-info folder of an installed distribution."""
        (found,) = self.site.glob(f"{name.replace('-', '_')}-*.dist-info")
        return found

    def run(self, *arguments: str, flags: tuple[str, ...] = (), **environ: str) -> subprocess.CompletedProcess[str]:
        """The preflight command line in this environment, with a bare set of variables plus `environ`."""
        bare = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        variables = {**bare, **child_coverage.variables(), **environ}
        return subprocess.run(
            [str(self.python), *flags, str(PREFLIGHT), *arguments],
            env=variables,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def report(self, profile: str, *arguments: str, flags: tuple[str, ...] = (), **environ: str) -> dict[str, Any]:
        """The JSON report; a traceback or anything but JSON on stdout fails here."""
        answer = self.run("--profile", profile, "--json", *arguments, flags=flags, **environ)
        assert "Traceback" not in answer.stderr, answer.stderr
        report: dict[str, Any] = json.loads(answer.stdout)
        assert answer.returncode == (1 if report["status"] == "blocked" else 0)
        return report


def install(
    site: Path, name: str, version: str, files: Mapping[str, str] | None = None, requires: tuple[str, ...] = ()
) -> None:
    """Write modules and .dist-info into a site-packages folder; RECORD names every file with its size."""
    module = IMPORT_NAMES.get(name, name.replace("-", "_"))
    contents = dict(files if files is not None else {f"{module}/__init__.py": "x = 1\n"})
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    contents[f"{info}/METADATA"] = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{needs}\nA description.\n"
    contents[f"{info}/INSTALLER"] = "pip\n"
    record = "".join(f"{path},sha256=x,{len(text.encode())}\n" for path, text in contents.items())
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    for path, text in contents.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)


def torch_files(
    version: str,
    cuda: str | None,
    *,
    body: str | None = None,
    cards: tuple[tuple[int, int], ...] = (),
    why: str = "",
    bf16: bool = False,
    architectures: str = "",
    fails: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The stand-in's files; `body` replaces the module, `fails` makes products of a dtype raise with that text."""
    text = TORCH.format(cards=cards, why=why, bf16=bf16, architectures=architectures, fails=dict(fails or {}))
    said = f"from typing import Optional\n__version__ = '{version}'\ncuda: Optional[str] = {cuda!r}\nhip = None\n"
    return {"torch/__init__.py": text if body is None else body, "torch/version.py": said}


def make(
    folder: Path, profile: Profile, torch: Mapping[str, str] | None = None, torch_version: str = ""
) -> Environment:
    """A whole environment for `profile`, registered and without Jupyter."""
    environment = Environment(folder / "env", folder / "home")
    environment.home.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-I", "-m", "venv", "--without-pip", str(environment.prefix)], check=True, capture_output=True
    )
    fill(environment.site, profile, torch, torch_version)
    registration.register(environment.site, ROOT)
    child_coverage.follow(environment.site)
    return environment


def fill(site: Path, profile: Profile, torch: Mapping[str, str] | None, torch_version: str) -> None:
    """Every package that the profile's files ask for, in the lowest version that fits, notebooks left out."""
    markers = environment_of_this_python()
    wanted: dict[str, list[requirement_text.RequirementLine]] = {}
    for line in requirement_text.flatten(profile):
        if line.file != "notebook.txt" and line.requirement.applies(markers):
            wanted.setdefault(line.requirement.name, []).append(line)
    for name, lines in wanted.items():
        if name == "torch" or all(line.kind == "constraint" for line in lines):
            continue
        install(site, name, _version(lines))
    if torch is not None:
        install(site, "torch", torch_version, torch)


def _version(lines: list[requirement_text.RequirementLine]) -> str:
    """A version that every line accepts: one that they name, or a little later."""
    named = [clause.text.removesuffix(".*") for line in lines for clause in line.requirement.specifier] or ["1"]
    for candidate in (f"{text}{tail}" for text in named for tail in ROUNDS):
        if all(line.requirement.specifier.contains(candidate) for line in lines):
            return candidate
    raise AssertionError(f"no version for {lines}")


def check(report: dict[str, Any], name: str) -> dict[str, str]:
    """One check of a JSON report."""
    found: dict[str, str] = next(item for item in report["checks"] if item["id"] == name)
    return found


def not_ok(report: dict[str, Any]) -> dict[str, str]:
    """id -> status of everything that is a warning or blocked."""
    return {item["id"]: item["status"] for item in report["checks"] if item["status"] in ("warning", "blocked")}


def goes_elsewhere(repair: str, profile: Profile) -> bool:
    """Whether a repair leaves this environment alone: a new one, or the profile's own where this checkout has it."""
    made = f"--profile {profile.id} --env-name {profile.environment}" in repair
    return made or f"{profile.environment}/bin/activate" in repair

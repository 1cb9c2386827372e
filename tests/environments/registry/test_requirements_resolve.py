"""Every profile's requirement set resolves on each of its Python versions, and what it resolves to breaks no isolation.

PyTorch's own index holds the pinned builds and may be out of reach where tests run, so the local part of each pin
(+cpu, +cu128) is left out for this resolution only: PyPI has the same public versions, whose metadata name the same
dependencies. Nothing is downloaded but metadata.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.environments.model import Profile
from tools.environments.registry import pep508, registry, requirement_text

pytestmark = [pytest.mark.network, pytest.mark.slow]
REGISTRY = registry.load()
CASES = [(profile, python) for profile in REGISTRY.profiles.values() for python in profile.python]
PLATFORM = "x86_64-manylinux_2_35"  # glibc of Ubuntu 22.04, which the newest serving wheels ask for
LINUX = {
    **pep508.environment_of_this_python(),
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "os_name": "posix",
}


def beside_torch(profile: Profile) -> tuple[str, ...]:
    """The profile's requirement files but torch's, whose builds have the same public version."""
    return tuple(name for name in profile.requirements if not name.startswith("torch-"))


FIRST = {beside_torch(profile): profile.id for profile in reversed(REGISTRY.profiles.values())}


def in_gate(profile: Profile, python: str) -> bool:
    """Each set of files once, on the newest Python."""
    return python == profile.python[-1] and FIRST[beside_torch(profile)] == profile.id


def public(line: requirement_text.RequirementLine) -> str:
    """The line without the local part of its pin: what PyPI can be asked for."""
    requirement = line.requirement
    clauses = (
        f"{c.operator}{c.version.public if c.version and c.version.local else c.text}" for c in requirement.specifier
    )
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{','.join(clauses)}"


def resolve(profile: Profile, python: str, folder: Path) -> dict[str, str]:
    """Name and version of everything the profile would install on Linux, torch's own dependencies included."""
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    uv = shutil.which("uv", path=beside)
    assert uv is not None, "the test environment brings uv"
    environment = {**LINUX, "python_version": python, "python_full_version": f"{python}.0"}
    lines = [line for line in requirement_text.flatten(profile) if line.requirement.applies(environment)]
    for kind in ("requirement", "constraint"):
        text = "".join(public(line) + "\n" for line in lines if line.kind == kind)
        (folder / f"{kind}.txt").write_text(text)
    command = [uv, "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate"]
    command += ["--python-version", python, "--python-platform", PLATFORM, "--no-build"]
    command += ["--constraint", str(folder / "constraint.txt"), str(folder / "requirement.txt")]
    settings = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    done = subprocess.run(command, capture_output=True, text=True, env={**clean, **settings}, timeout=300, check=False)
    assert done.returncode == 0, f"{profile.id} on Python {python}:\n{done.stderr}"
    if keep := os.environ.get("TMLAB_KEEP_RESOLUTIONS"):
        (Path(keep) / f"{profile.id}-{python}.txt").write_text(done.stdout)
    pins = (line.split(";")[0].split("==") for line in done.stdout.splitlines() if "==" in line)
    return {name.strip(): version.strip() for name, version in pins}


@pytest.mark.parametrize(
    ("profile", "python"),
    [
        pytest.param(*case, id=f"{case[0].id}-{case[1]}", marks=() if in_gate(*case) else pytest.mark.full)
        for case in CASES
    ],
)
def test_resolves(profile: Profile, python: str, tmp_path: Path) -> None:
    found = resolve(profile, python, tmp_path)
    families = REGISTRY.document["isolation"]["families"]
    # the public torch is a CUDA build, whatever the profile's own is: those families are judged by the pin instead
    ours = {*families["torch"]["packages"], *families["cuda"]["packages"]} if profile.torch else set()
    assert not (set(profile.forbidden) - ours) & set(found)
    assert ("torch" in found) == (profile.torch is not None)
    environment = {**LINUX, "python_version": python, "python_full_version": f"{python}.0"}
    wanted = {line.requirement.name for line in requirement_text.flatten(profile) if line.kind == "requirement"}
    absent = {name for name in wanted if name not in found}
    assert not {n for n in absent if any_applies(profile, n, environment)}


def any_applies(profile: Profile, name: str, environment: dict[str, str]) -> bool:
    lines = requirement_text.flatten(profile)
    return any(line.requirement.name == name and line.requirement.applies(environment) for line in lines)

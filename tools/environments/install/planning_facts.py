"""What a plan needs to know of this machine: its Pythons, conda and uv, the user's variables, and torch's own file."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.install import backends
from tools.environments.install.planning import InstallRequest, Interpreter, PlanningFacts
from tools.environments.machine import host_facts
from tools.environments.model import Profile
from tools.environments.registry import requirement_text
from tools.environments.registry.pep508 import environment_of_this_python
from tools.environments.registry.requirement_text import RequirementLine
from tools.environments.sources import torch_wheel
from tools.environments.sources.torch_wheel import TorchChoice

PLACES = ("/usr/local/bin", "/usr/bin", "/opt/homebrew/bin")  # looked into after PATH
_ASK = (
    "import json, sys, venv; print(json.dumps("
    "['.'.join(map(str, sys.version_info[:3])), getattr(sys, '_base_executable', None) or sys.executable]))"
)


def gather(
    profile: Profile, request: InstallRequest, environ: Mapping[str, str], root: Path, *, paper: bool
) -> PlanningFacts:
    """The facts but for torch, which is chosen once the gate is passed; `paper` is a plan that will not be run.

    LabError (usage) for a Python that was named and cannot be used; a machine with none that fits is told at the gate.
    """
    conda = shutil.which("conda", path=environ.get("PATH"))
    uv = shutil.which("uv", path=environ.get("PATH")) or _beside_this_python("uv")
    lines = requirement_text.flatten(profile, root)
    beside = [line for line in torch_lines(profile, lines) if line.requirement.name != "torch"]
    options = requirement_text.options(profile, root)
    takes_conda = backends.choose(request.backend, conda=conda, uv=uv) == "conda"
    found = None if takes_conda else interpreter(profile, request.python, environ)
    if takes_conda and request.python and request.python not in profile.python:  # conda takes no path
        raise _not_taken(profile, request.python)
    facts = PlanningFacts(
        interpreter=found,
        conda=conda,
        uv=uv,
        beside_torch=tuple(str(line.requirement) for line in beside),
        other_indexes=any("index" in line.option and line.file != profile.requirements[0] for line in options),
        variables=tuple(environ),
    )
    if paper and profile.torch:
        return with_torch(facts, _on_paper(profile, request, facts, lines))
    return facts


def with_torch(facts: PlanningFacts, torch: TorchChoice | None) -> PlanningFacts:
    """The same facts with the torch that was chosen."""
    return PlanningFacts(
        facts.interpreter, facts.conda, facts.uv, torch, facts.beside_torch, facts.other_indexes, facts.variables
    )


def choose_torch(profile: Profile, request: InstallRequest, python: str, root: Path) -> TorchChoice | None:
    """The torch for this profile: looked for in folders, then at its index, within seconds. None without a torch pin.

    LabError where none can be had, before anything is downloaded.
    """
    if profile.torch is None:
        return None
    places = torch_wheel.sources(profile.torch, request.settings)
    preferred = pinned_by_file(profile, requirement_text.flatten(profile, root), python)
    try:
        return torch_wheel.choose(
            profile.torch, python, host_facts.system(), places, preferred=preferred, also=profile.python
        )
    except LabError as error:
        from tools.environments.sources import indexes

        if preferred and not places.offline and indexes.cannot_judge(error):
            return torch_wheel.assumed(profile.torch, places, preferred)
        raise


def torch_lines(profile: Profile, lines: Sequence[RequirementLine]) -> list[RequirementLine]:
    """What the profile's torch file itself names."""
    if profile.torch is None:
        return []
    return [line for line in lines if line.file == profile.requirements[0] and line.kind == "requirement"]


def pinned_by_file(profile: Profile, lines: Sequence[RequirementLine], python: str) -> str | None:
    """The exact torch that the torch file names for this system; None where it names a range (macOS)."""
    short = ".".join(python.split(".")[:2])
    markers = {**environment_of_this_python(), "python_version": short, "python_full_version": python}
    for line in torch_lines(profile, lines):
        clauses = list(line.requirement.specifier)
        if line.requirement.name == "torch" and line.requirement.applies(markers) and len(clauses) == 1:
            return clauses[0].text if clauses[0].operator == "==" else None
    return None


def interpreter(profile: Profile, wanted: str | None, environ: Mapping[str, str]) -> Interpreter | None:
    """A Python the profile takes: the one named, else the running one, else the newest on PATH; None where none is.

    LabError (usage) where one was named and does not start, or is not one of the profile's versions.
    """
    if wanted and os.sep in wanted:
        found = ask(str(Path(wanted).expanduser().absolute()))
        if found is None:
            mend = "--python X.Y, or the path of one that does"
            raise LabError("a Python that starts and has venv", wanted, mend, "--python", EXIT_USAGE)
        if _short(found.version) not in profile.python:
            raise _not_taken(profile, found.version)
        return found
    judge_python(profile, wanted)
    running = Interpreter(_running_base(), ".".join(str(part) for part in sys.version_info[:3]))
    accepted = [wanted] if wanted else [*profile.python]
    if _short(running.version) in accepted:
        return running
    for version in reversed(accepted):
        for candidate in _candidates(version, environ):
            found = ask(candidate)
            if found and _short(found.version) == version:
                return found
    if wanted:
        raise LabError(
            wanted=f"Python {wanted}",
            found=f"none on PATH; Python {running.version} runs this",
            next=f"install it (apt-get install python{wanted}-venv; pyenv install {wanted}; brew install "
            f"python@{wanted}), or name another: --python {' or '.join(profile.python)}",
            where="--python",
        )
    return None


def judge_python(profile: Profile, wanted: str | None) -> None:
    """LabError (usage) for a version, not a path, that is none of the profile's, whatever is there already."""
    if wanted and os.sep not in wanted and wanted not in profile.python:
        raise _not_taken(profile, wanted)


def no_interpreter(profile: Profile) -> LabError:
    """The finding where neither the running Python nor one on PATH is one the profile takes."""
    return LabError(
        wanted=f"Python {' or '.join(profile.python)}",
        found=f"Python {'.'.join(map(str, sys.version_info[:3]))} runs this, and PATH has no other that starts",
        next=f"install one (apt-get install python{profile.python[-1]}-venv; pyenv install {profile.python[-1]}), "
        "then run the same command, or give --python PATH; with conda: --backend conda",
        where="host.python",
    )


def conda_prefix(conda: str, name: str, environ: Mapping[str, str]) -> Path:
    """Where conda has, or will put, the environment of this name. LabError where conda does not answer."""
    try:
        child = subprocess.run(
            [conda, "info", "--json"],
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            env=dict(environ),
        )
        told = json.loads(child.stdout)
        folders = [Path(folder) for folder in told["envs_dirs"]]
        there = [Path(path) for path in told["envs"] if Path(path).name == name and Path(path).parent in folders]
        return there[0] if there else folders[0] / name
    except (OSError, ValueError, KeyError, TypeError, IndexError, subprocess.TimeoutExpired) as error:
        raise LabError(
            wanted="a conda that answers `conda info --json`",
            found=f"{conda}: {type(error).__name__}",
            next="run `conda info` and mend what it says, or use --backend uv or venv",
            where="--backend",
        ) from None


def remove_by_conda(conda: str, name: str, environ: Mapping[str, str]) -> None:
    """Let conda remove an environment and forget it; what it cannot remove is the caller's."""
    with contextlib.suppress(OSError):
        command = [conda, "env", "remove", "-n", name, "-y"]
        subprocess.run(command, env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _on_paper(
    profile: Profile, request: InstallRequest, facts: PlanningFacts, lines: Sequence[RequirementLine]
) -> TorchChoice:
    assert profile.torch is not None
    python = facts.interpreter.version if facts.interpreter else request.python or profile.python[-1]
    places = torch_wheel.sources(profile.torch, request.settings)
    preferred = pinned_by_file(profile, lines, python)
    folders = torch_wheel.Sources(tuple(str(path) for path in request.settings.folders()), places.index, offline=True)
    try:
        return torch_wheel.choose(profile.torch, python, host_facts.system(), folders, preferred=preferred)
    except LabError:
        if places.offline:
            raise
    return torch_wheel.assumed(profile.torch, places, preferred or f"{profile.torch.specifier.lstrip('=')}")


def _not_taken(profile: Profile, found: str) -> LabError:
    return LabError(
        wanted=f"Python {' or '.join(profile.python)} for {profile.id}",
        found=found,
        next=f"--python {profile.python[-1]}",
        where="--python",
        code=EXIT_USAGE,
    )


def _short(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _running_base() -> str:
    """The Python behind the running one: an environment made from an environment breaks when that one goes."""
    return str(getattr(sys, "_base_executable", None) or sys.executable)


def _beside_this_python(name: str) -> str | None:
    path = Path(sys.executable).parent / name
    return str(path) if os.access(path, os.X_OK) else None


def _candidates(version: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Files that may be this Python. Every folder of PATH is asked, since the first may be a shim that refuses."""
    folders = [Path(folder) for folder in environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    pyenv = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME") or "/nonexistent") / ".pyenv")
    folders += [path / "bin" for path in sorted(pyenv.glob(f"versions/{version}*"), reverse=True)]
    folders += [Path(place) for place in PLACES]
    for folder in dict.fromkeys(folders):
        path = folder / f"python{version}"
        if os.access(path, os.X_OK):
            yield str(path)


def ask(executable: str) -> Interpreter | None:
    """Start a Python and let it say what it is; None where it does not start, or has no venv."""
    try:
        child = subprocess.run(
            [executable, "-I", "-c", _ASK], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
        )
        version, base = json.loads(child.stdout)
        return Interpreter(str(base), str(version))
    except (OSError, ValueError, TypeError, subprocess.TimeoutExpired):
        return None

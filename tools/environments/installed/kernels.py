"""Which Jupyter kernels this user has, and whether each still starts the interpreter it is named for.

A kernel is a folder with a kernel.json; nothing keeps it in step with the environment that wrote it. So the check does
what Jupyter will do, it executes argv[0], and compares the `sys.prefix` that answers with the one that was meant. Reads
the folders itself: Jupyter need not be installed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.environments.model import Check

CHECK_ID = "notebook.kernel"
OTHERS_ID = "notebook.other-kernels"

_BARE_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")  # Jupyter replaces such a name by its own interpreter

Ask = Callable[
    [str], "str | None"
]  # an interpreter's path to the sys.prefix it answers with, None where it does not start


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernelspec: `name` is its folder's, `python` is argv[0], empty where kernel.json could not be read."""

    name: str
    folder: Path
    display_name: str
    python: str


def data_folders(prefix: str, environ: Mapping[str, str], platform: str = sys.platform) -> tuple[Path, ...]:
    """Jupyter's data folders in its own order: JUPYTER_PATH, the user's, the environment's, the system's."""
    home = Path(environ.get("HOME") or Path.home())
    if "JUPYTER_DATA_DIR" in environ:
        user = Path(environ["JUPYTER_DATA_DIR"])
    elif platform == "darwin":
        user = home / "Library" / "Jupyter"
    else:
        user = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "jupyter"
    listed = [Path(entry) for entry in environ.get("JUPYTER_PATH", "").split(os.pathsep) if entry]
    system = [Path("/usr/local/share/jupyter"), Path("/usr/share/jupyter")]
    return tuple(dict.fromkeys([*listed, user, Path(prefix) / "share" / "jupyter", *system]))


def find(folders: Iterable[Path]) -> tuple[Kernel, ...]:
    """Every Python kernel under the data folders; the first of a name hides later ones, as in Jupyter."""
    kernels: dict[str, Kernel] = {}
    for folder in folders:
        try:
            specs = sorted((folder / "kernels").glob("*/kernel.json"))
        except OSError:
            continue
        for spec in specs:
            kernel = _read(spec)
            if kernel is not None:
                kernels.setdefault(kernel.name.lower(), kernel)
    return tuple(kernels.values())


def ask(python: str, *, time_limit_s: float = 10.0) -> str | None:
    """Execute an interpreter and return its `sys.prefix`; None where it is gone or does not answer in time."""
    command = [python, "-c", "import sys; print(sys.prefix)"]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=time_limit_s, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return child.stdout.strip().rpartition("\n")[2]


def check(prefix: str, kernels: Iterable[Kernel], ask: Ask = ask) -> Check:
    """Do this environment's kernels (its own by folder, interpreter or name) start it? None yet is ok."""
    name = Path(prefix).name
    wanted = f"kernels of {name} start {prefix}"
    ours = [kernel for kernel in kernels if _belongs(kernel, prefix)]
    for kernel in ours:
        answer = ask(_interpreter(kernel, prefix))
        if answer is None:
            found = f"kernel {_why_dead(kernel)}"
        elif _same(answer, prefix):
            continue
        else:
            found = f"kernel {kernel.name} starts {kernel.python}, an interpreter of {answer}"
        return Check(CHECK_ID, "blocked", wanted, f"{found} ({kernel.folder})", _mend(kernel, prefix))
    if not ours:
        return Check(CHECK_ID, "ok", wanted, f"no kernel registered yet; to do so: {_install(prefix, name)}")
    return Check(
        CHECK_ID, "ok", wanted, f"{', '.join(kernel.name for kernel in ours)} do{'es' if len(ours) == 1 else ''}"
    )


def check_others(prefix: str, kernels: Iterable[Kernel], ask: Ask = ask) -> Check:
    """Does a kernel of another environment start nothing, or not the interpreter it names? A warning only."""
    wanted = "each other kernel starts the interpreter it names"
    others = [kernel for kernel in kernels if not _belongs(kernel, prefix)]
    broken = []
    for kernel in others:
        answer = ask(_interpreter(kernel, prefix))
        meant = Path(kernel.python).parent.parent
        if answer is None:
            broken.append((kernel, _why_dead(kernel)))
        elif (meant / "pyvenv.cfg").exists() and not _same(answer, str(meant)):
            broken.append((kernel, f"{kernel.name} starts an interpreter of {answer}, not of {meant}"))
    if not broken:
        return Check(OTHERS_ID, "ok", wanted, f"{len(others)} looked at")
    mend = " && ".join(_forget(kernel) for kernel, _ in broken)
    return Check(OTHERS_ID, "warning", wanted, "; ".join(problem for _, problem in broken), mend)


def _read(spec: Path) -> Kernel | None:
    """A kernel from its kernel.json, None for another language's. An unreadable file starts nothing."""
    folder = spec.parent
    try:
        content = json.loads(spec.read_text(encoding="utf-8"))
        if content.get("language", "python") != "python":
            return None
        return Kernel(folder.name, folder, str(content.get("display_name", folder.name)), str(content["argv"][0]))
    except (AttributeError, IndexError, KeyError, OSError, RecursionError, TypeError, ValueError):
        return Kernel(folder.name, folder, folder.name, "")


def _belongs(kernel: Kernel, prefix: str) -> bool:
    inside = kernel.folder.is_relative_to(Path(prefix))
    starts_there = bool(kernel.python) and _same(os.path.dirname(os.path.dirname(kernel.python)), prefix)
    return inside or starts_there or kernel.name.lower() == Path(prefix).name.lower()


def _why_dead(kernel: Kernel) -> str:
    if not kernel.python:
        return f"{kernel.name} starts nothing: its kernel.json cannot be read"
    return f"{kernel.name} starts {kernel.python}, which is gone or does not run"


def _interpreter(kernel: Kernel, prefix: str) -> str:
    if _BARE_PYTHON.fullmatch(kernel.python):
        return os.path.join(prefix, "bin", "python")
    return kernel.python


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _install(prefix: str, name: str) -> str:
    command = [os.path.join(prefix, "bin", "python"), "-m", "ipykernel", "install", "--user"]
    return shlex.join([*command, "--name", name, "--display-name", f"Python ({name})"])


def _forget(kernel: Kernel) -> str:
    return f"rm -r {shlex.quote(str(kernel.folder))}"


def _mend(kernel: Kernel, prefix: str) -> str:
    """Write the user's kernel anew; one that lies elsewhere would go on hiding it, or stay broken, so it goes first."""
    name = Path(prefix).name
    return f"{_forget(kernel)} && {_install(prefix, name)}"

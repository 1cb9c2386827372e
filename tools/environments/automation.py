"""The small environment that drives everything else (nox, invoke, uv), made from nothing but a Python.

It is rebuilt whole, never repaired: it is small, and a half-made one is told by its missing stamp. Whoever builds holds
a lock, and so does the pip it started, so that a builder killed alone does not leave a pip writing behind the next one.
Everything here is told on stderr: stdout belongs to the tool that is started afterwards.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tools.environments.errors import LabError
from tools.environments.layout import ENVS, REQUIREMENTS

if TYPE_CHECKING:
    from tools.environments.index_settings import IndexSettings

NAME = "automation"


def place(envs: Path = ENVS, environ: Mapping[str, str] = os.environ) -> Path:
    """Where it lies: beside the environments; in the user's cache where that is not theirs to write, as in an image."""
    nearest = next(folder for folder in (envs, *envs.parents) if folder.exists())
    if os.access(nearest, os.W_OK):
        return envs / NAME
    cache = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or "/nonexistent", ".cache")
    return Path(cache) / "training-mechanism-lab" / NAME


PREFIX = place()
REQUIREMENT_FILE = REQUIREMENTS / "automation.txt"
TOOLS = ("nox", "invoke", "uv", "python")
_STAMP = "automation-stamp.json"
_LAST_LINES = 6


def identity(prefix: Path = PREFIX, requirement_file: Path = REQUIREMENT_FILE) -> dict[str, str]:
    """What the environment must have been made from to be current. The folder counts: a moved one has dead scripts.

    Of the Python only the minor version counts, so that two of the same do not rebuild it in turn.
    """
    return {
        "prefix": str(prefix),
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "requirements": "sha256:" + hashlib.sha256(requirement_file.read_bytes()).hexdigest(),
    }


def is_current(prefix: Path = PREFIX, requirement_file: Path = REQUIREMENT_FILE) -> bool:
    """True when the environment was finished from just this, and its interpreter is still there."""
    try:
        stamp = json.loads((prefix / _STAMP).read_bytes())
    except (OSError, ValueError):
        return False
    return bool(stamp == identity(prefix, requirement_file)) and os.access(prefix / "bin" / "python", os.X_OK)


def ensure(environ: Mapping[str, str], prefix: Path = PREFIX, requirement_file: Path = REQUIREMENT_FILE) -> None:
    """Make the environment unless it is current, waiting for another builder. LabError for what a user can mend."""
    if is_current(prefix, requirement_file):
        return
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
        with _lock(prefix) as lock:
            if not is_current(prefix, requirement_file):
                _build(environ, prefix, requirement_file, lock)
    except OSError as error:
        raise LabError(
            wanted=f"to write under {prefix.parent}",
            found=f"{error.strerror or error} ({error.filename or prefix})",
            next="free some space, or clone into a folder of your own, then run it again",
        ) from error


def tool_environment(environ: Mapping[str, str], prefix: Path = PREFIX) -> dict[str, str]:
    """The variables the started tool sees: PYTHONPATH taken off and remembered, our uv as the last one on PATH."""
    changed = dict(environ)
    stripped = changed.pop("PYTHONPATH", "")
    if stripped:
        changed["TMLAB_STRIPPED_PYTHONPATH"] = stripped
    changed["PATH"] = os.pathsep.join(filter(None, [environ.get("PATH", os.defpath), str(prefix / "bin")]))
    return changed


def pip_options(settings: IndexSettings, environ: Mapping[str, str]) -> list[str]:
    """pip's options for the settings in force; what they do not name stays with pip's own configuration."""
    options = ["--index-url", settings.index_url] if settings.index_url else []
    if settings.offline:
        options.append("--no-index")
    elif "PIP_RETRIES" not in {**settings.network, **environ}:
        options += ["--retries", "1"]  # pip's own five, with a growing pause, are minutes of silence without a network
    return options + [option for place in settings.find_links for option in ("--find-links", place)]


def _build(environ: Mapping[str, str], prefix: Path, requirement_file: Path, lock: int) -> None:
    import zipfile  # these three, with urllib behind them, cost more than all else that a finished environment needs

    from tools.environments import index_settings, indexes

    settings = index_settings.resolve(index_settings.Options(), environ)
    _say(f"{NAME}   making {prefix} once ({requirement_file.name}); about 30 MiB to download, 80 MiB on disk")
    shutil.rmtree(prefix, ignore_errors=True)
    _create(prefix)
    wheel = indexes.pip_wheel(prefix / "pip-wheel", settings)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(_site_packages(prefix))  # pip is pure Python: unpacked, it is installed
    _install(environ, settings, prefix, requirement_file, lock)
    shutil.rmtree(prefix / "pip-wheel", ignore_errors=True)
    part = prefix / f"{_STAMP}.part"
    part.write_text(json.dumps(identity(prefix, requirement_file)), encoding="utf-8")
    os.replace(part, prefix / _STAMP)
    _say(f"{NAME}   done")


def _create(prefix: Path) -> None:
    try:
        import venv
    except ImportError:
        raise LabError(
            wanted="Python's own venv module",
            found=f"{sys.executable} comes without it",
            next="install it (Debian and Ubuntu: apt-get install python3-venv), then run it again",
        ) from None
    venv.EnvBuilder(symlinks=True, with_pip=False).create(prefix)


def _install(
    environ: Mapping[str, str], settings: IndexSettings, prefix: Path, requirement_file: Path, lock: int
) -> None:
    # A user's pip settings may send packages to another folder altogether; the index and proxy ones are wanted.
    elsewhere = {
        "PIP_USER",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_ROOT",
        "PIP_REQUIRE_VIRTUALENV",
        "PIP_DRY_RUN",
        "PYTHONPATH",
    }
    clean = {name: value for name, value in environ.items() if name not in elsewhere}
    command = [str(prefix / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "-r", str(requirement_file), *pip_options(settings, environ)]
    child = subprocess.run(
        command, env={**clean, **settings.network}, stderr=subprocess.PIPE, text=True, pass_fds=(lock,), check=False
    )
    if child.returncode != 0:
        from tools.environments.indexes import NEXT_STEP

        lines = [line for line in child.stderr.splitlines() if line.strip()][-_LAST_LINES:]
        raise LabError(
            wanted=f"the packages that {requirement_file.name} names",
            found=f"pip ended with {child.returncode}\n         " + "\n         ".join(lines),
            next=NEXT_STEP,
        )


def _site_packages(prefix: Path) -> Path:
    return prefix / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


@contextlib.contextmanager
def _lock(prefix: Path) -> Iterator[int]:
    """Hold the lock beside `prefix`; a second caller says once that it waits, and for whom."""
    handle = os.open(prefix.with_name(prefix.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "another process"
            _say(f"{NAME}   waiting for {holder}, which is making {prefix}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode("ascii"), 0)
        yield handle
    finally:
        os.close(handle)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

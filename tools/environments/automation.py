"""The small environment that drives everything else (nox, invoke, uv), made from nothing but a Python.

It is rebuilt whole, never repaired: it is small, and a damaged one is told by its stamp, which lists its files. A new
one is made aside and renamed when it is finished, so that nobody loses the one in use; each minor version of Python has
its own. Whoever builds holds a lock, and so does the pip it started, so that a builder killed alone does not leave a
pip writing behind the next one. Everything here is told on stderr: stdout belongs to the tool that is started later.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tools.environments.errors import LabError
from tools.environments.layout import ENVS, REQUIREMENTS

if TYPE_CHECKING:
    from tools.environments.sources.index_settings import IndexSettings

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


def for_this_python(first: Path = PREFIX) -> Path:
    """The folder for the Python that runs this: `first`, or one beside it where another minor version has that one.

    A session installs with the Python that runs nox, so one environment for all of them would choose for its caller.
    """
    own = first.with_name(f"{first.name}-{_python()}")
    owner = _stamp(first).get("python", _python())
    taken = owner != _python() and os.access(first / "bin" / "python", os.X_OK)
    return own if taken or own.is_dir() else first


def identity(prefix: Path = PREFIX, requirement_file: Path = REQUIREMENT_FILE) -> dict[str, str]:
    """What the environment must have been made from to be current. The folder counts: a moved one has dead scripts.

    Of the Python only the minor version counts, so that two of the same do not rebuild it in turn.
    """
    return {
        "prefix": str(prefix),
        "python": _python(),
        "requirements": "sha256:" + hashlib.sha256(requirement_file.read_bytes()).hexdigest(),
    }


def is_current(prefix: Path = PREFIX, requirement_file: Path = REQUIREMENT_FILE) -> bool:
    """True when the environment was finished from just this, and every file of it is still there."""
    stamp = _stamp(prefix)
    files = stamp.pop("files", None)
    if stamp != identity(prefix, requirement_file) or not isinstance(files, dict):
        return False
    try:  # by folder: one question answers for all its files
        whole = all(set(names) <= set(os.listdir(os.path.join(prefix, folder))) for folder, names in files.items())
    except (OSError, TypeError):
        return False
    return whole and os.access(prefix / "bin" / "python", os.X_OK)


def ensure(environ: Mapping[str, str], first: Path = PREFIX, requirement_file: Path = REQUIREMENT_FILE) -> Path:
    """The folder of this Python's environment, made unless it is current. Another builder is waited for.

    LabError for what a user can mend.
    """
    prefix = for_this_python(first)
    if is_current(prefix, requirement_file):
        return prefix
    try:
        first.parent.mkdir(parents=True, exist_ok=True)
        with _lock(first) as lock:
            prefix = for_this_python(first)  # asked again: another Python may have made the first one meanwhile
            if not is_current(prefix, requirement_file):
                _build(environ, prefix, requirement_file, lock)
    except OSError as error:
        raise LabError(
            wanted=f"to write under {first.parent}",
            found=f"{error.strerror or error} ({error.filename or prefix})",
            next="free some space, or clone into a folder of your own, then run it again",
        ) from error
    return prefix


def command(tool: str, prefix: Path = PREFIX) -> list[str]:
    """How one of TOOLS is started. A script of pip's is read by Python: its first line is none where a `$` is in it."""
    start = [str(prefix / "bin" / "python"), "-P"] if tool in ("nox", "invoke") else []
    return [*start, str(prefix / "bin" / tool)]


def cannot_start(tool: str, error: OSError, prefix: Path = PREFIX) -> LabError:
    """What is said where the system does not start the tool: a cut-off binary, or too long a command line."""
    return LabError(
        wanted=f"to start {tool}",
        found=f"{error.strerror or error} ({error.filename or command(tool, prefix)[0]})",
        next=f"rm -r {shlex.quote(str(prefix))}, then run it again: it is made anew",
    )


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

    from tools.environments.sources import index_settings, indexes

    _refuse_a_file(prefix)
    settings = index_settings.resolve(index_settings.IndexOptions(), environ)
    _say(f"{NAME}   making {prefix} once ({requirement_file.name}); about 45 MiB to download, 170 MiB on disk")
    aside = prefix.with_name(f".{prefix.name}.new")
    _remove(aside)  # of a builder that was killed
    _create(aside, prefix.name)
    wheel = indexes.pip_wheel(aside / "pip-wheel", settings)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(_site_packages(aside))  # pip is pure Python: unpacked, it is installed
    _install(environ, settings, aside, requirement_file, lock)
    shutil.rmtree(aside / "pip-wheel", ignore_errors=True)
    _tell_its_place(aside, prefix)
    stamp = {**identity(prefix, requirement_file), "files": _files(aside)}
    (aside / _STAMP).write_text(json.dumps(stamp), encoding="utf-8")
    _put_in_place(aside, prefix)
    _say(f"{NAME}   done")


def _refuse_a_file(prefix: Path) -> None:
    """What is no folder was not made here, so it is not ours to remove."""
    if prefix.exists() and not prefix.is_dir():
        name = shlex.quote(str(prefix))
        raise LabError(
            wanted=f"a folder at {prefix}, or nothing",
            found="a file",
            next=f"mv {name} {name}.aside, then run it again",
        )


def _tell_its_place(aside: Path, prefix: Path) -> None:
    """Write the name it is going to have into the scripts, which hold the folder they were made in."""
    for path in (aside / "pyvenv.cfg", *(aside / "bin").iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        told = content.replace(os.fsencode(aside), os.fsencode(prefix))
        if told != content:
            path.write_bytes(told)


def _files(prefix: Path) -> dict[str, list[str]]:
    """What must be there for the environment to be whole, by folder: everything but caches of bytecode."""
    kept = {folder: [name for name in names if not name.endswith(".pyc")] for folder, _, names in os.walk(prefix)}
    return {os.path.relpath(folder, prefix): sorted(names) for folder, names in sorted(kept.items()) if names}


def _put_in_place(aside: Path, prefix: Path) -> None:
    """Rename the finished one over the old one. Who runs the old one finds a whole one at the same place."""
    old = prefix.with_name(f".{prefix.name}.old")
    _remove(old)
    if os.path.lexists(prefix):
        os.rename(prefix, old)
    os.rename(aside, prefix)
    _remove(old)


def _remove(path: Path) -> None:
    """Remove a folder, or a link to one and not what it leads to."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _create(prefix: Path, name: str) -> None:
    try:
        import venv
    except ImportError:
        raise LabError(
            wanted="Python's own venv module",
            found=f"{sys.executable} comes without it",
            next="install it (Debian and Ubuntu: apt-get install python3-venv), then run it again",
        ) from None
    try:
        venv.EnvBuilder(symlinks=True, with_pip=False, prompt=name).create(prefix)
    except ValueError as error:  # such as a colon in the path, which would cut PATH in two
        raise LabError(
            wanted=f"a folder that can hold an environment, at {prefix.parent}",
            found=str(error),
            next="move this checkout to a folder with a plain name, then run it again",
        ) from None


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
        from tools.environments.sources.indexes import NEXT_STEP

        lines = [line for line in child.stderr.splitlines() if line.strip()][-_LAST_LINES:]
        raise LabError(
            wanted=f"the packages that {requirement_file.name} names",
            found=f"pip ended with {child.returncode}\n         " + "\n         ".join(lines),
            next=NEXT_STEP,
        )


def _site_packages(prefix: Path) -> Path:
    return prefix / "lib" / f"python{_python()}" / "site-packages"


def _python() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _stamp(prefix: Path) -> dict[str, object]:
    """What a finished environment was made from, and its files; empty where it is not finished."""
    try:
        told = json.loads((prefix / _STAMP).read_bytes())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


@contextlib.contextmanager
def _lock(prefix: Path) -> Iterator[int]:
    """Hold the lock beside `prefix`, one for every Python; a second caller says once that it waits, and for whom."""
    handle = os.open(prefix.with_name(prefix.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "another process"
            _say(f"{NAME}   waiting for {holder}, which is making one in {prefix.parent}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode("ascii"), 0)
        yield handle
    finally:
        os.close(handle)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

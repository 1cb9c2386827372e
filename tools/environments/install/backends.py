"""The command lines of conda, uv and venv, as data: nothing here runs anything.

conda supplies Python only; packages come from pip there. Each class answers the same questions in its tool's own words,
and the last lines a user sees (activate, remove) come from the same place as the commands that made the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.model import Backend
from tools.environments.sources.index_settings import IndexSettings

CHOICES = ("auto", "conda", "uv", "venv")
Argv = tuple[str, ...]
Env = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Target:
    """One environment as command lines name it. `image`: it will be run by others and from a read-only layer."""

    name: str
    prefix: str  # ".envs/NAME"; "" where conda chooses it
    state: str  # ".envs/.install/NAME": what the installer keeps about it
    settings: IndexSettings
    image: bool = False
    conda_file: str = ""  # what conda creates an image's environment from: "cnb/environment.yml"

    @property
    def pip_wheel(self) -> str:
        """The folder that holds pip's own wheel and, unpacked, what is in it."""
        return f"{self.state}/pip-wheel"

    @property
    def find_links(self) -> Argv:
        """Options that pip and uv spell alike."""
        offline = ("--no-index",) if self.settings.offline else ()
        return (*offline, *(part for place in self.settings.find_links for part in ("--find-links", place)))


class Pip:
    """An environment that installs with its own pip; `python` is how a command reaches its interpreter."""

    def __init__(self, target: Target, python: Argv) -> None:
        self.target = target
        self.python = python

    def upgrade_pip(self) -> Argv:
        """Bring pip itself up to date."""
        return (*self._pip("install"), *self.target.find_links, "--upgrade", "pip")

    def install(self, wanted: Argv) -> Argv:
        """Install requirements or `-r FILE`, with options."""
        # Compiling everything costs more than all first imports together; an image's users cannot write bytecode later.
        compiled = () if self.target.image else ("--no-compile",)
        return (*self._pip("install"), *compiled, *self.target.find_links, *wanted)

    def check(self) -> Argv:
        """Ask whether the installed distributions fit each other."""
        return self._pip("check")

    def environment(self, torch_index: str | None = None) -> Env:
        """What pip must see. Addresses go this way because they may hold a password, and `ps` shows arguments."""
        settings = self.target.settings
        env = {"PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
        env |= {"PIP_PROGRESS_BAR": "off", "PIP_RETRIES": "2", **settings.network}
        if settings.index_url and not settings.offline:
            env["PIP_INDEX_URL"] = settings.index_url
        if torch_index:
            env["PIP_EXTRA_INDEX_URL"] = torch_index
        return env

    def _pip(self, command: str) -> Argv:
        return (*self.python, "-m", "pip", command)


class Venv(Pip):
    """Python's own venv. pip comes as its own wheel, since a bare Debian has no ensurepip."""

    backend: Backend = "venv"
    unpacks_pip = True

    def __init__(self, target: Target, base: str) -> None:
        super().__init__(target, (f"{target.prefix}/bin/python",))
        self.base = base

    def create(self) -> tuple[Argv, ...]:
        """Make the environment, without pip."""
        return ((self.base, "-m", "venv", "--without-pip", self.target.prefix),)

    def upgrade_pip(self) -> Argv:
        """Let pip's own wheel install the newest pip there is, itself if nothing is newer."""
        folder = self.target.pip_wheel
        return (
            *(*self.python, f"{folder}/pip", "install", *self.target.find_links),
            *("--find-links", folder, "--upgrade", "pip"),
        )

    def activate(self) -> str:
        """What a user types to enter it."""
        return f"source {self.target.prefix}/bin/activate"

    def remove(self) -> str:
        """What a user types to be rid of it."""
        return f"rm -rf {self.target.prefix}"


class Conda(Pip):
    """conda, which chooses the folder, and keeps the isolation variables itself."""

    backend: Backend = "conda"
    unpacks_pip = False

    def __init__(self, target: Target, conda: str, version: str) -> None:
        super().__init__(target, (conda, "run", "--no-capture-output", "-n", target.name, "python"))
        self.conda = conda
        self.version = version

    def create(self) -> tuple[Argv, ...]:
        """Make the environment, and tell it to keep the user's own site-packages and PYTHONPATH out."""
        if self.target.image:  # the file says so itself
            return ((self.conda, "env", "create", "-n", self.target.name, "-f", self.target.conda_file),)
        isolate = (self.conda, "env", "config", "vars", "set", "-n", self.target.name)
        offline = ("--offline",) if self.target.settings.offline else ()
        return (
            (self.conda, "create", "-n", self.target.name, f"python={self.version}", "-y", *offline),
            (*isolate, "PYTHONNOUSERSITE=1", "PYTHONPATH="),
        )

    def activate(self) -> str:
        """What a user types to enter it."""
        return f"conda activate {self.target.name}"

    def remove(self) -> str:
        """What a user types to be rid of it."""
        return f"conda env remove -n {self.target.name} -y"


class Uv:
    """uv, for the environment and the packages in it; pip is seeded, because users and notebooks expect it."""

    backend: Backend = "uv"

    def __init__(self, target: Target, uv: str, base: str) -> None:
        self.target = target
        self.uv = uv
        self.base = base
        self.python: Argv = (f"{target.prefix}/bin/python",)
        # A wheel folder that was filled for a profile need not hold pip; then Python's own copy of it will do.
        self.unpacks_pip = target.settings.offline

    def create(self) -> tuple[Argv, ...]:
        """Make the environment, with pip in it where an index or a cache can give one."""
        seed = () if self.unpacks_pip else ("--seed", *self.target.find_links)
        return ((self.uv, "venv", *seed, "--python", self.base, self.target.prefix),)

    def upgrade_pip(self) -> Argv:
        """Bring pip itself up to date."""
        own = ("--find-links", self.target.pip_wheel) if self.unpacks_pip else ()
        return (*self._pip("install"), *self._offline(), *self.target.find_links, *own, "--upgrade", "pip")

    def install(self, wanted: Argv) -> Argv:
        """Install requirements or `-r FILE`, with options."""
        compiled = ("--compile-bytecode",) if self.target.image else ()  # see Pip.install
        return (*self._pip("install"), *self._offline(), *compiled, *self.target.find_links, *wanted)

    def check(self) -> Argv:
        """Ask whether the installed distributions fit each other."""
        return self._pip("check")

    def environment(self, torch_index: str | None = None) -> Env:
        """What uv must see; see Pip.environment. A Python that is not found is a finding, never a download."""
        settings = self.target.settings
        env = {"UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
        if settings.index_url and not settings.offline:
            env["UV_DEFAULT_INDEX"] = settings.index_url
        if torch_index:
            # Left alone, uv takes a package from the first index that has any version of it, and PyTorch has many.
            env |= {"UV_INDEX": torch_index, "UV_INDEX_STRATEGY": "unsafe-best-match"}
        return env

    def activate(self) -> str:
        """What a user types to enter it."""
        return f"source {self.target.prefix}/bin/activate"

    def remove(self) -> str:
        """What a user types to be rid of it."""
        return f"rm -rf {self.target.prefix}"

    def _pip(self, command: str) -> Argv:
        return (self.uv, "pip", command, "--python", self.python[0])

    def _offline(self) -> Argv:
        return ("--offline",) if self.target.settings.offline else ()


Commands = Uv | Venv | Conda


def choose(wanted: str, *, conda: str | None, uv: str | None) -> Backend:
    """auto: conda where it is on PATH (the commands in the documents end in `conda activate`), else uv, else venv."""
    match wanted:
        case "conda" | "uv" | "venv":
            return wanted
        case "auto":
            return "conda" if conda else "uv" if uv else "venv"
    raise LabError(f"one of {', '.join(CHOICES)}", wanted, "choose one of these", "--backend", EXIT_USAGE)


def missing(backend: Backend, *, conda: str | None, uv: str | None) -> LabError | None:
    """The finding where a named backend's tool is not on this machine; None where it is."""
    if backend == "conda" and not conda:
        return LabError(
            "conda on PATH", "none", "open a shell in which conda works, or use --backend uv or venv", "--backend"
        )
    if backend == "uv" and not uv:
        return LabError(
            "uv on PATH or beside this Python",
            "none",
            "python -m pip install uv, or use --backend venv, which needs Python alone",
            "--backend",
        )
    return None

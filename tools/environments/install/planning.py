"""What installing a profile would do, as data: pure functions from a profile, a request and facts to a plan.

Nothing is looked up here and nothing is run. `--dry-run` prints this plan and the installer runs this same plan, so
the two cannot differ. The order of the steps is that of the manual commands in the quickstart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.install import backends
from tools.environments.model import InstallPlan, InstallStep, Profile
from tools.environments.sources.index_settings import IndexSettings
from tools.environments.sources.torch_wheel import TorchChoice

REGISTER = "tools/register_notebook_runtime.py"
PREFLIGHT = "tools/environment_preflight.py"
STATE = ".envs/.install"  # journals, locks, logs and pins, by environment name; beside the environments, not in them
CONDA_FILES = ("cnb/environment.yml", "cnb/environment-gpu.yml")  # without and with a GPU: rendered from the registry
# the small environments that bootstrap makes for nox and invoke, one for each Python
RESERVED = ("automation", *(f"automation-3.{minor}" for minor in range(11, 20)))
# Of the user's pip and uv variables only those that concern the network, the cache and how files are put in place:
# any other could change which packages are taken, or where they go.
KEPT_VARIABLES = frozenset(
    (
        *(f"PIP_{name}" for name in ("CERT", "CLIENT_CERT", "PROXY", "TRUSTED_HOST", "TIMEOUT", "DEFAULT_TIMEOUT")),
        *(
            f"PIP_{name}"
            for name in ("RETRIES", "CACHE_DIR", "NO_CACHE_DIR", "KEYRING_PROVIDER", "DISABLE_PIP_VERSION_CHECK")
        ),
        *(f"UV_{name}" for name in ("CACHE_DIR", "NO_CACHE", "HTTP_TIMEOUT", "HTTP_CONNECT_TIMEOUT", "HTTP_RETRIES")),
        *(f"UV_{name}" for name in ("REQUEST_TIMEOUT", "NATIVE_TLS", "SYSTEM_CERTS", "INSECURE_HOST", "LINK_MODE")),
        *(f"UV_CONCURRENT_{name}" for name in ("DOWNLOADS", "INSTALLS", "BUILDS")),
        *("UV_KEYRING_PROVIDER", "UV_COMPILE_BYTECODE", "PIP_DISABLE_PIP_VERSION_CHECK"),
    )
)
# Each of these would let another Python's modules in, or send a tool to another environment. The last would make every
# first import of a learner as slow as the one that preflight does here.
DROPPED_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True, slots=True)
class InstallRequest:
    """What the user asked for."""

    profile: str
    env_name: str | None = None
    backend: str = "auto"
    python: str | None = None  # "3.11", or a path
    target: str = "host"  # or "image"
    recreate: bool = False
    settings: IndexSettings = field(default_factory=IndexSettings)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python an environment can be made from: the base one, never another environment's."""

    executable: str
    version: str  # "3.11.7"


@dataclass(frozen=True, slots=True)
class PlanningFacts:
    """What a plan needs to know of the machine. `requirements` are the torch file's lines besides torch itself."""

    interpreter: Interpreter | None = None  # None: there is none this profile takes
    conda: str | None = None
    uv: str | None = None
    torch: TorchChoice | None = None
    beside_torch: tuple[str, ...] = ()
    other_indexes: bool = False  # a capability file names an index of its own
    variables: tuple[str, ...] = ()  # names of the environment variables that are set


def plan(profile: Profile, request: InstallRequest, facts: PlanningFacts) -> InstallPlan:
    """The steps for this profile on this machine, in the reference order. LabError (usage) for a wrong request."""
    commands = commands_of(profile, request, facts)
    target, backend = commands.target, commands.backend
    lacking = backends.missing(backend, conda=facts.conda, uv=facts.uv)
    notes = [f"{lacking.wanted}: none here, so this plan cannot run on this machine"] if lacking else []
    if facts.torch and facts.torch.kind == "assumed":
        notes.append(f"torch {facts.torch.version} is assumed: its index is asked only when this runs")
    notes += [f"{setting} is set and not followed here" for setting in request.settings.ignored]
    environment = {**isolation(facts.variables), **commands.environment()}
    steps = [_gate(profile, target), *_create(commands, environment), *_packages(profile, commands, facts, environment)]
    steps += closing_steps(profile, commands, environment)
    version = python_version(profile, request, facts, backend)
    torch = facts.torch.version if facts.torch else None
    return InstallPlan(profile.id, backend, target.name, target.prefix, tuple(steps), version, torch, tuple(notes))


def commands_of(profile: Profile, request: InstallRequest, facts: PlanningFacts) -> backends.Commands:
    """The command builder for this request; also for the lines that are printed when its plan has run."""
    name = chosen_name(profile, request)
    backend = backends.choose(request.backend, conda=facts.conda, uv=facts.uv)
    prefix = "" if backend == "conda" else f".envs/{name}"
    target = backends.Target(
        name,
        prefix,
        str(state_folder(name)),
        request.settings,
        image=request.target == "image",
        conda_file=CONDA_FILES[profile.gpu is not None],
    )
    version = python_version(profile, request, facts, backend)
    base = facts.interpreter.executable if facts.interpreter else f"python{version}"
    if backend == "conda":
        return backends.Conda(target, facts.conda or "conda", version)
    if backend == "uv":
        return backends.Uv(target, facts.uv or "uv", base)
    return backends.Venv(target, base)


def chosen_name(profile: Profile, request: InstallRequest) -> str:
    """The environment's name: as given, an empty one included, which is refused; else the profile's own."""
    return environment_name(profile.environment if request.env_name is None else request.env_name)


def environment_name(name: str) -> str:
    """A name that is one plain folder name. LabError (usage) otherwise."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) or name in RESERVED:
        raise LabError(
            wanted="an environment name of letters, digits, dots, dashes and underscores",
            found=f"{name!a}"[:80] + (" (kept for nox and invoke)" if name in RESERVED else ""),
            next="--env-name NAME, such as llm_train_2",
            where="--env-name",
            code=EXIT_USAGE,
        )
    return name


def state_folder(name: str) -> PurePosixPath:
    """Where the installer keeps what it knows about one environment, from the repository root."""
    return PurePosixPath(STATE) / name


def python_version(profile: Profile, request: InstallRequest, facts: PlanningFacts, backend: str) -> str:
    """The Python an environment gets: conda's own newest that the profile takes, else that of the interpreter found."""
    if backend == "conda":
        return request.python or profile.python[-1]
    return facts.interpreter.version if facts.interpreter else (request.python or profile.python[0])


def isolation(variables: Iterable[str]) -> dict[str, str | None]:
    """What every step sees differently from the user's shell; None: unset. `variables` are the names that are set."""
    return {**{name: None for name in sorted(variables) if _is_dropped(name)}, "PYTHONNOUSERSITE": "1"}


def _is_dropped(name: str) -> bool:
    tools = name.startswith(("PIP_", "UV_")) and name not in KEPT_VARIABLES
    return tools or name in DROPPED_VARIABLES


def _gate(profile: Profile, target: backends.Target) -> InstallStep:
    gpu = ", GPU" if profile.gpu and not target.image else ""
    return InstallStep(
        "gate",
        f"can this machine carry {profile.id}: system, Python, memory, disk{gpu}{_without_gpu(profile, target)}",
    )


def _create(commands: backends.Commands, environment: Mapping[str, str | None]) -> list[InstallStep]:
    first, *rest = commands.create()
    steps = [InstallStep("create", f"a fresh environment, by {commands.backend}", first, environment)]
    steps += [InstallStep("isolate", "keep user site and PYTHONPATH out of it", argv, environment) for argv in rest]
    before = ""
    if commands.unpacks_pip:
        before = f"pip's own wheel, unpacked in {commands.target.pip_wheel} (of a folder, of Python, else of the index)"
    return [*steps, InstallStep("pip", "pip itself, up to date", commands.upgrade_pip(), environment, before)]


def _packages(
    profile: Profile, commands: backends.Commands, facts: PlanningFacts, environment: Mapping[str, str | None]
) -> list[InstallStep]:
    bounds = tuple(part for name in profile.constraints for part in ("-c", f"requirements/{name}"))
    files = list(profile.requirements)
    steps = []
    if profile.torch and facts.torch:
        pin = str(state_folder(commands.target.name) / "torch-pin.txt")
        bounds = (*bounds, "-c", pin)
        source, kind = facts.torch.source, facts.torch.kind
        page = ("--find-links", source) if kind == "page" and source not in commands.target.settings.find_links else ()
        argv = commands.install((*page, facts.torch.requirement, *facts.beside_torch, *bounds))
        env = {**environment, **commands.environment(source if kind in ("index", "assumed") else None)}
        reason = f"{files.pop(0)}, as exactly this build; it constrains every later step"
        steps.append(InstallStep("torch", reason, argv, env, writes={pin: facts.torch.requirement + "\n"}))
    if facts.other_indexes and commands.backend == "uv":
        environment = {**environment, "UV_INDEX_STRATEGY": "unsafe-best-match"}
    for name in files:
        argv = commands.install(("-r", f"requirements/{name}", *bounds))
        steps.append(InstallStep(PurePosixPath(name).stem, f"what requirements/{name} names", argv, environment))
    return steps


def closing_steps(
    profile: Profile, commands: backends.Commands, environment: Mapping[str, str | None]
) -> list[InstallStep]:
    """What is done once the packages are there, in an install as in an adoption."""

    def script(path: str, *options: str) -> tuple[str, ...]:
        return (*commands.python, path, *options)

    whole = "do the packages fit each other, and is every installed file whole"
    on_profile = f"is this environment on profile{_without_gpu(profile, commands.target)}"
    return [
        InstallStep("register", "import tools and experiments from any folder", script(REGISTER), environment),
        InstallStep("pip-check", whole, commands.check(), environment),
        InstallStep("preflight", on_profile, script(PREFLIGHT, "--profile", profile.id, "--json"), environment),
        InstallStep("stamp", "write down what was made, from what"),
    ]


def _without_gpu(profile: Profile, target: backends.Target) -> str:
    return "; what asks for the GPU is left to the image's host" if target.image and profile.gpu else ""

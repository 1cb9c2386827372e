"""Pipelines for `invoke`, each a few lines that chain the scripts: `invoke --list`.

A task ends with the exit code of the script that failed. Options that a task does not name go in `--options "..."`.
Every parameter has a default, since invoke ends with 1 and words of its own where one without is missing; the scripts
behind say what they need. So a value always goes with its option: `--profile ID`, `--label L`.
"""

from __future__ import annotations

import functools
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from invoke import Collection, Context, Exit, Task

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from tools.environments import command_line, profile_session  # noqa: E402
from tools.environments.errors import EXIT_OK, EXIT_USAGE, LabError, render  # noqa: E402
from tools.environments.preflight import gpu_validation  # noqa: E402
from tools.environments.registry import ci_matrix, registry  # noqa: E402

command_line.begin_inside()
if "--" in sys.argv and Path(sys.argv[0]).stem in ("invoke", "inv", "__main__"):
    _dropped = LabError("options that invoke hands on", "`--`, and it drops what follows", 'give it as --options "..."')
    raise Exit(render(_dropped), code=EXIT_USAGE)

GPU_VALIDATION = "tools/validate_cnb_gpu.sh"


def task(body: Callable[..., None]) -> Task[Any]:
    """An invoke task whose LabErrors end it with their three lines and their exit code, whatever reads its output."""

    @functools.wraps(body)
    def plainly(*arguments: object, **options: object) -> None:
        def whole() -> int:
            body(*arguments, **options)
            return EXIT_OK

        try:
            code = command_line.written(whole)
        except LabError as error:
            raise Exit(render(error), code=error.code) from None
        if code != EXIT_OK:
            raise Exit(code=code)

    return Task(plainly)


def call(*command: str) -> None:
    """Run one command from the root of the checkout; where it fails, this process ends with its exit code."""
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code != 0:
        raise Exit(code=code if code > 0 else 128 - code)


def split(options: str) -> list[str]:
    """The parts of --options, as a shell would take them apart. LabError (usage) for a quote that is not closed."""
    try:
        return shlex.split(options)
    except ValueError as error:
        raise LabError(
            wanted="options as a shell would read them",
            found=f"{str(error)[:1].lower()}{str(error)[1:]}: {options}",
            next="""close every quote, such as --options "--env-name 'x'\"""",
            where="--options",
            code=EXIT_USAGE,
        ) from None


def in_environment(profile: str, options: str, *commands: list[str]) -> None:
    """Run commands with the Python of a profile's finished environment."""
    given = profile_session.parse(split(options))
    python = profile_session.environment_python(registry.load().get(profile), given)
    for command in commands:
        call(python, *command)


@task
def install(_: Context, profile: str = "", options: str = "") -> None:
    """Gate the machine, then install a profile, or find its environment current."""
    given = profile_session.parse(split(options))
    call(sys.executable, *profile_session.install(registry.load().get(profile), given))


@task
def preflight(_: Context, profile: str = "", options: str = "") -> None:
    """Check a profile's environment and this machine."""
    in_environment(profile, options, [profile_session.PREFLIGHT, "--profile", profile])


@task
def register(_: Context, profile: str = "", options: str = "") -> None:
    """Make tools and experiments importable from any notebook folder, and prove it."""
    script = "tools/register_notebook_runtime.py"
    in_environment(profile, options, [script], [script, "--check"])


@task
def experiment(_: Context, profile: str = "", name: str = "", workload: str = "smoke", options: str = "") -> None:
    """Preflight, then an experiment of a profile (all of them without --name) on a registered workload."""
    chosen = ["--experiment", name] if name else []
    given = profile_session.parse(["--workload", workload, *chosen, *split(options)])
    entry = registry.load().get(profile)
    in_environment(profile, options, *profile_session.after_install(entry, given))


@task
def verify_gpu(_: Context, profile: str = "TRAIN-CUDA-MECHANISM", options: str = "") -> None:
    """Install, preflight, validate the card, then the smoke workloads; the first that is blocked ends it."""
    given = profile_session.parse(split(options))
    entry = registry.load().get(profile)
    gpu_validation.refuse_without_card(entry)
    experiments = profile_session.measuring_commands(entry, given)
    call(sys.executable, *profile_session.install(entry, given))
    python = profile_session.environment_python(entry, given)
    call(python, *profile_session.preflight_command(entry, given))
    call("sh", GPU_VALIDATION, "--profile", profile, "--python", python, *given.accepted)
    for command in experiments:
        call(python, *command)


@task
def conformance(_: Context, profile: str = "TRAIN-CPU", options: str = "") -> None:
    """Check the hand-written pages of the profile's topic against the mature frameworks; all must pass."""
    in_environment(profile, options, [*profile_session.OWN_COMMANDS["conformance"], "--profile", profile])


@task
def matrix(_: Context, format: str = "github") -> None:
    """The CI matrix from the registry, as one line of JSON (--format github or json)."""
    if format not in ci_matrix.FORMATS:
        raise LabError(
            wanted=f"one of {', '.join(ci_matrix.FORMATS)}",
            found=format,
            next="invoke ci.matrix --format github",
            where="--format",
            code=EXIT_USAGE,
        )
    print(ci_matrix.to_text(registry.load().profiles.values(), format))


@task
def sync(_: Context) -> None:
    """Renew the parts of the documents that derive from registry and records."""
    call(sys.executable, "-m", "tools.rendering", "sync")


@task
def check(_: Context) -> None:
    """Say by line where documents no longer match registry or records."""
    call(sys.executable, "-m", "tools.rendering", "check")


@task
def release(_: Context, version: str = "", date: str = "") -> None:
    """Put the changelog's fragments under a version (--version 0.2.0, --date 2026-12-01 or today)."""
    call(sys.executable, "-m", "tools.rendering", "release", version, *(["--date", date] if date else []))


def image_task(action: str, about: str) -> Task[Any]:
    """A task that hands on to `python -m tools.containers ACTION`, which talks to the Docker engine."""

    def one(_: Context, profile: str = "", cpu: bool = False, gpu: bool = False, options: str = "") -> None:
        which = ["--profile", profile] if profile else []
        which += [option for option, given in (("--cpu", cpu), ("--gpu", gpu)) if given]
        call(sys.executable, "-m", "tools.containers", action, *which, *split(options))

    def every(_: Context) -> None:
        call(sys.executable, "-m", "tools.containers", action)

    body = one if action in ("build", "smoke") else every
    body.__name__, body.__doc__ = action, about
    return task(body)


IMAGES = {
    "build": "Build the image of a profile (--profile ID, --cpu or --gpu).",
    "smoke": "Prove a built image: preflight, registration and experiments inside; records are read out.",
    "list": "The images of this project, and whether they are current.",
    "prune": "Remove what newer images replaced.",
}


def result_task(action: str, about: str) -> Task[Any]:
    """A task that hands on to `python -m experiments results ACTION`, in the environment that runs invoke."""

    def every(_: Context) -> None:
        call(sys.executable, "-m", "experiments", "results", action)

    def one(_: Context, label: str = "", experiment: str = "") -> None:
        which = [label] if label else []  # without one, the command says whether it needs it
        which += ["--experiment", experiment] if experiment else []
        call(sys.executable, "-m", "experiments", "results", action, *which)

    body = every if action == "list" else one
    body.__name__, body.__doc__ = action, about
    return task(body)


RESULTS = {
    "list": "Runs and committed records, with their level.",
    "show": "One of them as a table.",
    "verify": "Validate, grade and recompute it again.",
    "promote": "Copy a verified record to experiments/results/.",
    "clear": "Move a label's unpromoted runs aside.",
}

namespace = Collection(install, preflight, register, experiment, verify_gpu, conformance)
namespace.add_collection(Collection("ci", matrix=matrix))
namespace.add_collection(Collection("assets", sync, check, release))
namespace.add_collection(Collection("image", **{action: image_task(action, about) for action, about in IMAGES.items()}))
namespace.add_collection(
    Collection("results", **{action: result_task(action, about) for action, about in RESULTS.items()})
)

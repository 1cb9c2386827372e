"""Everything that can be run here, by name: `nox -l`.

One session per profile, made from the registry; each calls the scripts, which own the environments under .envs/ (or
conda's). lint, tests, full, bench and docs run in environments that hold requirements/tests.txt and no profile. lint
and tests are the gate; full is everything, weekly and before a release (docs/decisions/065-gate-and-full.md).
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # nox does not put the folder of its own file there

import nox  # noqa: E402
import nox.command  # noqa: E402

from experiments.cli import asked  # noqa: E402
from tools.environments import command_line, profile_session  # noqa: E402
from tools.environments.errors import LabError, render  # noqa: E402
from tools.environments.install import backends  # noqa: E402
from tools.environments.layout import RUNS  # noqa: E402
from tools.environments.machine import host_facts  # noqa: E402
from tools.environments.model import Profile  # noqa: E402
from tools.environments.registry import registry  # noqa: E402
from tools.environments.sources import index_settings, torch_wheel  # noqa: E402

command_line.begin_inside()  # the titles that `nox -l` prints are in Chinese

nox.needs_version = ">=2026.10"
nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"  # install_checks makes a reused one exact
os.environ.setdefault("UV_PYTHON_DOWNLOADS", "never")  # a Python that is not here is an error, not a download

SPREAD = ["-n", "logical", "--maxprocesses", "4", "--dist", "worksteal"]
GATE = [*SPREAD, "-m", "not full"]
SEEDS = (11, 23, 37, 41, 59)  # of the full stage's draws; the first two shuffle the whole suite too
RACES = 20  # how often the full stage runs what is killed or raced
COVERED = "tools/environments/*"
COVERAGE_FLOOR = 95  # percent of lines and branches of COVERED
ENDS = "This session ends here"  # nox puts a full stop behind what it says: not behind a command to paste

try:
    PROFILES = registry.load(ROOT).profiles
except LabError as error:
    sys.exit(render(error))


@nox.session
def lint(session: nox.Session) -> None:
    """静态检查 · ruff, mypy strict, import contracts, generated parts of the documents"""
    install_checks(session)
    began = time.monotonic()
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")
    session.run("invoke", "assets.check")
    took, budget = time.monotonic() - began, tomllib.loads((ROOT / ".ci/lanes.toml").read_text("utf-8"))["lint"]["gate"]
    if took > budget:
        session.log(f"lane lint went over its budget: {took:.0f} s of {budget} s (.ci/lanes.toml)")


@nox.session
def tests(session: nox.Session) -> None:
    """测试 · the tests of the gate, or those named after --"""
    install_checks(session)
    session.run("python", "-m", "pytest", *(session.posargs or GATE))


@nox.session(default=False)
def full(session: nox.Session) -> None:
    """全量 · all tests twice in random order, races twenty times, five seeds, tools/environments covered to 95 %"""
    if session.posargs:
        session.error(f"full takes no arguments: nox -s tests -- --stage full {' '.join(session.posargs)}\n{ENDS}")
    install_checks(session)
    session.run("coverage", "erase")
    failed: list[str] = []

    def part(name: str, *command: str, **environment: str) -> None:
        """One part; the others are run even if it fails, since a week passes before the next time."""
        try:
            session.run(*command, env=environment)
        except nox.command.CommandFailed:
            failed.append(name)

    def drawn(seed: int) -> list[str]:
        return [*SPREAD, "--stage", "full", "--seed", str(seed), "--hypothesis-seed", str(seed)]

    covered, again, *others = SEEDS
    part("the suite, covered", "coverage", "run", "-m", "pytest", *drawn(covered), "--shuffle")
    part(
        "coverage data", "coverage", "combine", "--quiet"
    )  # says which file a killed child has torn, and leaves it out
    floor = [f"--include={COVERED}", f"--fail-under={COVERAGE_FLOOR}", "--skip-covered"]
    part("the coverage floor", "coverage", "report", *floor)
    part("the suite in another order", "python", "-m", "pytest", *drawn(again), "--shuffle")
    for seed in others:
        part(f"fuzzing from seed {seed}", "python", "-m", "pytest", *drawn(seed), "-m", "fuzz")
    part("races", "python", "-m", "pytest", *drawn(others[0]), "-m", "race", "--repeat", str(RACES))
    if failed:
        session.error(f"failed: {', '.join(failed)}")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """基准 · command lines against what a user would run instead, as ratios within one run"""
    install_checks(session)
    session.run("python", "-m", "benchmarks", *session.posargs)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """文档 · links and anchors, parts generated from registry and records"""
    install_checks(session)
    session.run("python", "-m", "tools.rendering", "check", "--links")


def declare(profile: Profile) -> None:
    """The session of one profile: gate, install, preflight, its experiments, their records."""

    def session(session: nox.Session) -> None:
        with plainly(session):
            if {"-h", "--help"} & set(session.posargs):
                session.log(profile_session.usage(profile))
                return
            options = profile_session.parse(session.posargs)
            commands = profile_session.after_install(profile, options)
            asked.check_all(commands)  # what is asked for wrongly is said before gigabytes are downloaded
            if options.image is not None:
                script(session, sys.executable, profile_session.in_image(profile, options))
                return
            script(session, sys.executable, profile_session.install(profile, options))
            if options.dry_run:
                return
            begin = time.time()
            python = profile_session.environment_python(profile, options)
            for command in commands:
                script(session, python, command)
            verification = profile_session.verification(profile, RUNS, begin)
            if verification:
                script(session, python, verification)
            if (remark := profile_session.closing(profile)) is not None:
                session.log(remark)

    session.__doc__ = f"{profile.title_zh} · {profile.title}"
    nox.session(name=profile.id, tags=list(profile.tags), venv_backend="none", default=False)(session)


for registered in PROFILES.values():
    declare(registered)


def install_checks(session: nox.Session) -> None:
    """requirements/tests.txt and a CPU torch that the registry admits: no more, no less. Chosen before any download."""
    pin = PROFILES["TRAIN-CPU"].torch
    assert pin is not None
    with plainly(session):
        settings = index_settings.resolve(index_settings.IndexOptions(), os.environ)
        places = torch_wheel.sources(pin, settings)
        torch = torch_wheel.choose(pin, platform.python_version(), host_facts.system(), places)
    location = session.virtualenv.location
    uv = backends.Uv(backends.Target(session.name, location, location, settings), "uv", sys.executable)
    links = ["--find-links", torch.source] if torch.kind == "page" else []
    links += uv.target.find_links
    index = torch.source if torch.kind == "index" else None
    session.install(*links, torch.requirement, env=uv.environment(index))
    session.install("--exact", *links, "-r", "requirements/tests.txt", torch.requirement, env=uv.environment())


def script(session: nox.Session, python: str, arguments: list[str]) -> None:
    """Run one of our own command lines; what it prints is what the user reads."""
    session.run(python, *arguments, external=True)


@contextlib.contextmanager
def plainly(session: nox.Session) -> Iterator[None]:
    """End the session with the three lines of an error that a user can fix."""
    try:
        yield
    except LabError as error:
        session.error(f"{render(error)}\n{ENDS}")

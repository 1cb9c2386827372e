"""Stamping an environment that a person made with the manual commands, once it is shown to be on profile.

Nothing is installed. What an install does at its end is done here too: register, dependency check with every file,
preflight; the stamp says that the environment was adopted.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.install import backends, install_state, planning, planning_facts
from tools.environments.install.install import InstallOutcome
from tools.environments.install.install_journal import InstallJournal
from tools.environments.install.install_steps import Work, carry_out
from tools.environments.install.install_text import Narrator
from tools.environments.install.planning import InstallRequest
from tools.environments.installed import environment_lock, installed_files, stamp
from tools.environments.model import InstallPlan, Profile
from tools.environments.registry import registry, requirement_text


def adopt(request: InstallRequest, environ: Mapping[str, str], say: Narrator, root: Path) -> InstallOutcome:
    """Check the environment as an install does at its end, then stamp it. LabError where it does not hold."""
    started = time.monotonic()
    profile = registry.load(root).get(request.profile)
    digest = requirement_text.digest(profile, root)
    prefix = find(request, profile, environ, root)
    state = root / planning.state_folder(planning.environment_name(prefix.name))
    with environment_lock.hold(state / "lock", f"adoption for {profile.id}", say.line) as lock:
        found = stamp.read(prefix, profile.id)
        if found is not None:
            if reasons := stamp.is_current(found, profile, digest, prefix):
                raise install_state.refused(profile, prefix, reasons, install_state.asked(request))
            say.line(f"{profile.id} · environment current · {prefix}: it has its stamp already")
            return _outcome(
                "current", profile, prefix, found.backend, found.interpreter["version"], found.torch, started
            )
        _refuse_unfinished(state, profile, prefix)
        say.line(f"{profile.id} · adopting {prefix}")
        work = _work(request, profile, digest, prefix, state, environ, say, root, lock)
        work.journal.begin({"profile": profile.id})
        for step in work.plan.steps:
            carry_out(work, step)
    outcome = _outcome("adopted", profile, prefix, "adopted", work.plan.python, work.plan.torch, started)
    return dataclasses.replace(outcome, children_s=round(work.children_s, 3), steps=dict(work.seconds))


def find(request: InstallRequest, profile: Profile, environ: Mapping[str, str], root: Path) -> Path:
    """The environment meant: a path, a name under .envs or in conda, else that of the Python which runs this.

    LabError (usage) where there is none.
    """
    given = request.env_name
    if given == "":
        planning.environment_name(given)
    if given and (os.sep in given or given in (os.curdir, os.pardir)):
        candidates = [Path(given).expanduser().absolute()]
    else:
        running = Path(sys.prefix)
        own = running.name not in planning.RESERVED and install_state.is_environment(running)
        candidates = [running] if own and not given else []
        name = given or profile.environment
        candidates.append(root / ".envs" / name)
        if conda := shutil.which("conda", path=environ.get("PATH")):
            candidates.append(planning_facts.conda_prefix(conda, name, environ))
    for candidate in candidates:
        if install_state.is_environment(candidate):
            return candidate
    raise LabError(
        wanted="an environment to adopt",
        found=f"none at {', '.join(map(str, candidates))}",
        next="activate it and run this with its python, or name it: --env-name NAME or --env-name PATH",
        where="--adopt",
        code=EXIT_USAGE,
    )


def _refuse_unfinished(state: Path, profile: Profile, prefix: Path) -> None:
    progress = InstallJournal(state / "journal.jsonl").read()
    if progress and not progress.finished and progress.facts.get("prefix") == str(prefix):
        raise LabError(
            wanted="an environment made by hand",
            found="one that the installer began and has not finished",
            next=f"{stamp.INSTALL} --profile {profile.id} --env-name {prefix.name}",
            where=str(prefix),
        )


def _work(
    request: InstallRequest,
    profile: Profile,
    digest: str,
    prefix: Path,
    state: Path,
    environ: Mapping[str, str],
    say: Narrator,
    root: Path,
    lock: int,
) -> Work:
    python = planning_facts.ask(str(prefix / "bin" / "python"))
    if python is None:
        raise LabError(
            wanted="an environment whose interpreter starts",
            found=f"{prefix / 'bin' / 'python'} does not",
            next=f"create a new environment: {install_state.new(profile, prefix, install_state.asked(request))}",
            where=str(prefix),
        )
    torch = installed_files.torch_build(installed_files.site_packages(prefix))
    target = backends.Target(prefix.name, str(prefix), str(state), request.settings)
    commands = backends.Venv(target, python.executable)
    environment = {**planning.isolation(environ), **commands.environment()}
    steps = planning.closing_steps(profile, commands, environment)
    version = torch[0] if torch and profile.torch else None
    plan = InstallPlan(profile.id, "venv", prefix.name, str(prefix), tuple(steps), python.version, version)
    return Work(
        root=root,
        profile=profile,
        digest=digest,
        request=request,
        plan=plan,
        commands=commands,
        journal=InstallJournal(state / "adoption.jsonl"),
        state=state,
        prefix=prefix,
        environ=environ,
        say=say,
        backend="adopted",
        lock=(lock,),
        base=python.executable,
    )


def _outcome(
    status: str, profile: Profile, prefix: Path, backend: str, version: str, torch: str | None, started: float
) -> InstallOutcome:
    return InstallOutcome(
        status=status,
        profile=profile.id,
        environment=prefix.name,
        prefix=str(prefix),
        python=str(prefix / "bin" / "python"),
        version=version,
        backend=backend,
        torch=torch,
        seconds=round(time.monotonic() - started, 3),
    )

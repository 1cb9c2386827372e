"""Carrying out one step of a plan: its in-process part, its child, and what came of it in a few words."""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.environments.errors import LabError
from tools.environments.install import children, failures
from tools.environments.install.backends import Commands
from tools.environments.install.install_journal import InstallJournal, Progress
from tools.environments.install.install_state import FOUNDATION, asked, refused
from tools.environments.install.install_text import Narrator
from tools.environments.install.planning import InstallRequest
from tools.environments.install.planning_facts import ask
from tools.environments.installed import installed_files, stamp
from tools.environments.installed.environment_lock import unwritable
from tools.environments.installed.installed_files import Sweep
from tools.environments.installed.registration import PTH_NAME
from tools.environments.model import InstallPlan, InstallStep, Profile

TITLES = {"gate": "host gate", "pip-check": "pip check"}
# Every other step installs a capability, and tells how many packages that added.
TOLD_OTHERWISE = ("create", "isolate", "pip", "torch", "register", "pip-check", "preflight", "stamp")
# What only the machine that will run an image can answer.
OF_THE_GPU = ("gpu.", "torch.device", "torch.architectures", "operation.")


@dataclass(slots=True)
class Work:
    """One install under way: everything its steps need, and the time its children took so far."""

    root: Path
    profile: Profile
    digest: str
    request: InstallRequest
    plan: InstallPlan
    commands: Commands
    journal: InstallJournal
    state: Path
    prefix: Path
    environ: Mapping[str, str]
    say: Narrator
    backend: str = ""  # as the stamp names it
    lock: tuple[int, ...] = ()
    base: str = ""
    children_s: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)


def carry_out(work: Work, step: InstallStep, watch: Callable[[], None] | None = None) -> None:
    """Run one step and journal it. LabError where it fails, or where `watch` raises one meanwhile."""
    started = time.monotonic()
    before = 0 if step.id in TOLD_OTHERWISE else _packages(work)
    work.journal.start(step.id)
    status, detail = "done", ""
    if step.id == "stamp":
        detail = _stamp(work)
    else:
        _prepare(work, step)
        sweeps: list[Sweep] = []

        def sweep() -> None:
            sweeps.append(installed_files.sweep(installed_files.site_packages(work.prefix)))

        ended = _child(work, step, watch, beside=sweep if step.id == "pip-check" else None)
        status, detail = _outcome(work, step, ended, before, sweeps)
    if step.id == "pip":
        work.journal.fact("baseline", installed_files.top_level(installed_files.site_packages(work.prefix)))
    work.journal.done(step.id)
    work.seconds[step.id] = time.monotonic() - started
    work.say.step(TITLES.get(step.id, step.id), status, detail, work.seconds[step.id])


def _packages(work: Work) -> int:
    try:
        return len(installed_files.distributions(installed_files.site_packages(work.prefix)))
    except (LabError, OSError):
        return 0


def mend(work: Work, progress: Progress) -> tuple[str, ...]:
    """Take out what a killed package step left half there; returns the steps that are whole all the same."""
    site = installed_files.site_packages(work.prefix)
    broken = installed_files.sweep(site).broken
    known = progress.facts.get("baseline")
    strays = installed_files.strays(site, [*known, PTH_NAME]) if isinstance(known, list) else ()
    again = tuple(step.id for step in work.plan.steps if step.id not in FOUNDATION)
    if not broken and not strays:
        if "stamp" not in progress.done:
            return progress.done
        # It was finished and has no stamp any more. Nobody knows what else was taken out, and a package step that finds
        # everything there takes a moment.
        work.journal.undo(again)
        return tuple(name for name in progress.done if name not in again)
    work.journal.undo(again)  # before anything is removed: a package may belong to a step that counts as done
    installed_files.remove(site, broken)
    installed_files.remove_strays(site, strays)
    names = [item.distribution.name for item in broken] + list(strays)
    rest = f" and {len(names) - 4} more" if len(names) > 4 else ""
    work.say.step("sweep", "done", f"half installed, taken out: {', '.join(names[:4])}{rest}")
    return tuple(name for name in progress.done if name not in again)


def _prepare(work: Work, step: InstallStep) -> None:
    try:
        for path, text in step.writes.items():
            (work.root / path).write_text(text, encoding="utf-8")
        if step.before:
            _unpack_pip(work)
    except OSError as error:
        raise unwritable(work.state, error) from error


def _unpack_pip(work: Work) -> None:
    from tools.environments.sources import indexes

    folder = work.state / "pip-wheel"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wheel = indexes.pip_wheel(folder, work.request.settings)
    if wheel.parent != folder:
        wheel = Path(shutil.copy(wheel, folder))
    with zipfile.ZipFile(wheel) as archive:  # without its metadata: it would find itself installed already
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("pip/")])


def _child(
    work: Work, step: InstallStep, watch: Callable[[], None] | None, beside: Callable[[], None] | None
) -> children.ChildEnded:
    log = work.state / "logs" / step.id
    name = TITLES.get(step.id, step.id)
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        ended = children.run(
            step.argv,
            env=environment(work.environ, step.env),
            cwd=work.root,
            log=log,
            inherited=work.lock,
            tick=lambda seconds, last: work.say.progress(name, seconds, last),
            every_s=work.say.every_s,
            watch=watch,
            beside=beside,
        )
    except OSError as error:
        if isinstance(error, FileNotFoundError | PermissionError) and error.filename == step.argv[0]:
            found = f"{error.strerror}: {step.argv[0]}"
            mend = "put it back, or name another way with --backend uv or --backend venv"
            raise LabError(f"a program that starts for step {step.id}", found, mend) from None
        raise unwritable(work.state, error) from error
    work.children_s += ended.seconds
    if ended.code != 0 and step.id != "preflight":
        work.say.step(name, "failed", f"the whole output is in {os.path.relpath(ended.err, work.root)} and .out")
        raise failures.explain(step, ended.code, ended.lines(), _free_bytes(work.state))
    return ended


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def environment(environ: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The user's variables with a step's changes; None takes one away."""
    merged: dict[str, str | None] = {**environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _outcome(
    work: Work, step: InstallStep, ended: children.ChildEnded, before: int, sweeps: Sequence[Sweep]
) -> tuple[str, str]:
    match step.id:
        case "create":
            place = work.plan.prefix or str(work.prefix)
            return "done", f"{work.plan.backend}, Python {work.plan.python}, {place}"
        case "isolate":
            return "done", "PYTHONNOUSERSITE=1, PYTHONPATH empty"
        case "pip":
            return "done", _version(work, "pip")
        case "torch":
            return "done", _version(work, "torch")
        case "register":
            return "done", "import tools works from any folder"
        case "pip-check":
            return "done", _whole(work, sweeps[0])
        case "preflight":
            return _preflight(work, step, ended)
    return "done", f"{_packages(work) - before} packages"


def _version(work: Work, name: str) -> str:
    site = installed_files.site_packages(work.prefix)
    return next((dist.version for dist in installed_files.distributions(site) if dist.name == name), "")


def _whole(work: Work, sweep: Sweep) -> str:
    """Every file whole and torch still the one that was chosen, or LabError."""
    site = installed_files.site_packages(work.prefix)
    if sweep.broken:
        steps = [step.id for step in work.plan.steps if step.argv and step.id not in FOUNDATION]
        work.journal.undo(tuple(steps))  # so that the next call sweeps and installs again
        first = sweep.broken[0]
        mend = (
            "run the same command again: it takes out what is broken and installs it anew; if it stays so, the "
            "package cache is damaged: uv cache clean (or pip cache purge) first"
        )
        if work.backend == "adopted":  # installed by hand, so mended by hand
            again = f"{first.distribution.name}=={first.distribution.version}"
            mend = f"{work.prefix}/bin/python -m pip install --force-reinstall --no-deps {again}; then adopt again"
        raise LabError(
            wanted="every installed file as it was recorded",
            found=f"{first.distribution.name}: {first.problem}",
            next=mend,
            where=str(site),
        )
    pin = None if work.backend == "adopted" else work.profile.torch  # nothing was chosen here: preflight judges it
    found = installed_files.torch_build(site)
    if pin is not None and found != (work.plan.torch, pin.cuda):
        version, cuda = found or ("none", None)
        wanted, where = f"{work.plan.torch} (CUDA {pin.cuda})", f"{version} (CUDA {cuda})"
        raise refused(
            work.profile,
            work.prefix,
            [f"torch is {where} and not {wanted}: a later step replaced it"],
            asked(work.request),
        )
    return f"no conflicts, {sweep.files:,} files whole"


def _preflight(work: Work, step: InstallStep, ended: children.ChildEnded) -> tuple[str, str]:
    try:
        report = json.loads(ended.out.read_bytes())
        checks: list[dict[str, Any]] = list(report["checks"])
        statuses = [str(check["status"]) for check in checks]
    except (OSError, ValueError, KeyError, TypeError):
        raise failures.explain(step, ended.code, ended.lines(), _free_bytes(work.state)) from None
    if work.request.target == "image":
        checks = [check for check in checks if not check["id"].startswith(OF_THE_GPU)]
        statuses = [str(check["status"]) for check in checks]
    blocked = [check for check in checks if check["status"] == "blocked"]
    if blocked:
        work.say.step("preflight", "blocked", f"{len(blocked)} of {len(checks)} checks")
        found = "; ".join(f"{check['id']}: wanted {check['wanted']}, found {check['found']}" for check in blocked)
        repair = next((check["repair"] for check in blocked if check["repair"]), "see the check's own words")
        raise LabError(f"an environment on profile {work.profile.id}", found, str(repair), "preflight")
    for check in checks:
        if check["status"] == "warning":
            work.say.line(f"    warning {check['id']}: wanted {check['wanted']}, found {check['found']}")
            work.say.line(f"            → {check['repair']}")
    ok, skipped, warned = (statuses.count(word) for word in ("ok", "skipped", "warning"))
    return ("warning" if warned else "ok"), _counts(ok, warned, skipped)


def _counts(ok: int, warned: int, skipped: int) -> str:
    parts = [f"{ok} checks ok"]
    parts += [f"{warned} warning{'s' if warned > 1 else ''}"] if warned else []
    parts += [f"{skipped} do not apply here"] if skipped else []
    return ", ".join(parts)


def _stamp(work: Work) -> str:
    python = work.plan.python
    if work.plan.backend == "conda" and (found := ask(str(work.prefix / "bin" / "python"))):
        python = found.version  # conda was told 3.12 and chose the patch itself
    written = stamp.Stamp(
        profile=work.profile.id,
        requirement_digest=work.digest,
        prefix=str(work.prefix),
        interpreter={"version": python, "base": work.base},
        torch=work.plan.torch,
        backend=work.backend or work.plan.backend,
        index=work.request.settings.public(),
        packages=stamp.installed(work.prefix),
    )
    stamp.write(written)
    return ""

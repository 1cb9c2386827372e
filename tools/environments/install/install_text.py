"""What the installer prints: one head line, one line a step, and what to type next. Nothing here decides anything.

With --json, stdout carries the one object and all of this goes to stderr. Only a terminal sees a line that changes; a
log gets a line each half minute instead.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import IO

from tools.environments.install.backends import Commands
from tools.environments.machine.host_facts import HostFacts
from tools.environments.model import Check, InstallPlan, InstallStep, Profile
from tools.environments.sources.index_settings import without_credentials

LOG_EVERY_S = 30.0
TERMINAL_EVERY_S = 1.0
_WIDTH = 100


class Narrator:
    """The one writer to the user's screen or log."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.terminal = stream.isatty()
        self._open = False
        self._last_s = 0.0

    @property
    def every_s(self) -> float:
        """How often a long step should call `progress`."""
        return TERMINAL_EVERY_S if self.terminal else LOG_EVERY_S

    def line(self, text: str = "") -> None:
        """One line that stays."""
        self._close()
        self._write(f"{text}\n")

    def step(self, name: str, status: str, detail: str, seconds: float | None = None) -> None:
        """A step that ended: its name, a status word, what came of it, and how long it took where that is felt."""
        took = f"{seconds:.0f} s" if seconds is not None and seconds >= 1 else ""
        self.line(f"  {name:<19} {status:<9} {detail:<49} {took:>6}".rstrip())

    def progress(self, name: str, seconds: float, last: str) -> None:
        """A sign of life of a step that runs."""
        last = without_credentials(last)
        if self.terminal:
            text = f"  {name:<19} {seconds:>4.0f} s    {last}"[:_WIDTH]
            self._write(f"\r\x1b[K{text}")
            self._open = True
        else:
            self.line(f"  {name:<19} running   {seconds:.0f} s: {last}"[:200])

    def _close(self) -> None:
        if self._open:
            self._write("\r\x1b[K")
            self._open = False

    def _write(self, text: str) -> None:
        try:
            print(text, end="", file=self.stream, flush=True)
        except BrokenPipeError:  # the reader went away, as `| head` does: what is under way goes on unheard
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())


def head(profile: Profile) -> str:
    """The profile and what it will cost, from the registry."""
    host = profile.host
    return (
        f"{profile.id} · {profile.title} · about {host.download_gib:g} GiB to download, {host.disk_gib:g} GiB on disk, "
        f"{host.minutes} min"
    )


def machine(facts: HostFacts, python: str) -> str:
    """The machine in one line, as the gate saw it."""
    memory = f", {facts.memory_gib:.0f} GiB" if facts.memory_gib is not None else ""
    free = f", {facts.disk.free_gib:.0f} GiB free" if facts.disk.free_gib is not None else ""
    cards = f", {facts.gpu.cards[0].name}" if facts.gpu and facts.gpu.cards else ""
    return f"{facts.system}, Python {python}, {facts.cores} cores{memory}{free}{cards}"


def finding(check: Check) -> list[str]:
    """A check that is not ok, as indented lines."""
    name = check.id.rpartition(".")[0] if check.id.startswith("host.") else check.id
    lines = [f"    {name:<14} wanted {check.wanted}   found {check.found}"]
    return lines + ([f"                   → {check.repair}"] if check.repair else [])


def closing(profile: Profile, commands: Commands, *, jupyter: bool) -> list[str]:
    """What to type next, in the words of the backend that was used."""
    name = commands.target.name
    rows = [("activate", commands.activate())]
    if jupyter:
        kernel = f'python -m ipykernel install --user --name {name} --display-name "Python ({name})"'
        rows += [("kernel", kernel), ("notebook", "python -m jupyter lab")]
    rows += [("check", f"python tools/environment_preflight.py --profile {profile.id}"), ("remove", commands.remove())]
    return [f"  {name:<19} {command}" for name, command in rows]


def paper(plan: InstallPlan) -> list[str]:
    """A plan as text: every step with exactly what runs, credentials left out."""
    common = _common(plan.steps)
    lines = [f"plan · {plan.backend}, Python {plan.python}, {plan.prefix or plan.environment} · nothing was done"]
    lines += [f"  note: {note}" for note in plan.notes]
    unset = [name for name, value in common.items() if value is None]
    given = shell({name: value for name, value in common.items() if value is not None})
    lines += [f"  every step runs in the repository root with {given}"]
    lines += [f"  and without {' '.join(unset)}"] if unset else []
    for number, step in enumerate(plan.steps, start=1):
        lines.append(f"  {number:>2} {step.id:<20} {step.reason}")
        lines += [f"     first: {step.before}"] if step.before else []
        lines += [f"     writes {path}: {text.strip()}" for path, text in step.writes.items()]
        if step.argv:
            own = {key: value for key, value in step.env.items() if common.get(key, "") != value or key not in common}
            cleared = "".join(f"-u {key} " for key, value in own.items() if value is None)
            given = shell({key: value for key, value in own.items() if value is not None})
            prefix = f"env {cleared}{given} ".replace("  ", " ") if cleared else f"{given} " if given else ""
            lines.append(f"     $ {prefix}{without_credentials(shlex.join(step.argv))}")
    return lines


def as_data(plan: InstallPlan) -> dict[str, object]:
    """A plan as JSON holds it, credentials left out."""
    return {
        "profile": plan.profile,
        "environment": plan.environment,
        "prefix": plan.prefix,
        "python": plan.python,
        "backend": plan.backend,
        "torch": plan.torch,
        "status": "planned",
        "notes": list(plan.notes),
        "steps": [
            {
                "id": step.id,
                "reason": step.reason,
                "argv": [without_credentials(part) for part in step.argv],
                "env": {key: value and without_credentials(value) for key, value in step.env.items()},
                "before": step.before,
                "writes": dict(step.writes),
            }
            for step in plan.steps
        ],
    }


def shell(env: Mapping[str, str | None]) -> str:
    """Variables as a shell takes them, credentials left out."""
    return " ".join(f"{key}={shlex.quote(without_credentials(value or ''))}" for key, value in env.items())


def _common(steps: Sequence[InstallStep]) -> dict[str, str | None]:
    """The variables that every step with a command sees alike."""
    with_command = [step.env for step in steps if step.argv]
    if not with_command:
        return {}
    first, *rest = with_command
    return {key: value for key, value in first.items() if all(key in env and env[key] == value for env in rest)}

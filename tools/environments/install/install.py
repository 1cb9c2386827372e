"""From a request to a stamped environment: look, gate, choose torch, plan, then carry it out step by step.

Reads as a list of what happens. Each step is journalled as it ends, so that a second call after kill -9 goes on at the
first step that is not whole; the stamp is written last.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.environments.errors import LabError
from tools.environments.install import backends, install_state, install_text, planning, planning_facts
from tools.environments.install.install_index import IndexProbe
from tools.environments.install.install_journal import DamagedJournalError, InstallJournal, Progress
from tools.environments.install.install_state import FoundState
from tools.environments.install.install_steps import TITLES, Work, carry_out, mend
from tools.environments.install.install_text import Narrator
from tools.environments.install.planning import InstallRequest, PlanningFacts
from tools.environments.installed import environment_lock, installed_files, registration, stamp
from tools.environments.layout import ROOT
from tools.environments.machine import host_facts, host_gate
from tools.environments.model import Check, InstallPlan, Profile
from tools.environments.registry import registry, requirement_text
from tools.environments.sources.index_settings import without_credentials
from tools.environments.sources.torch_wheel import TorchChoice

LOCAL = ("isolate", "register", "pip-check", "preflight", "stamp")  # steps that ask no index for anything


class GateBlockedError(LabError):
    """The machine cannot carry the profile; the checks were already shown."""

    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class InstallOutcome:
    """What an install came to: "installed", "current" or "adopted", and where its interpreter is."""

    status: str
    profile: str
    environment: str
    prefix: str
    python: str  # the interpreter
    version: str  # of it
    backend: str
    torch: str | None
    seconds: float
    children_s: float = 0.0
    steps: Mapping[str, float] = field(default_factory=dict)  # seconds of each step that ran in this call

    def as_data(self) -> dict[str, Any]:
        """The object that --json prints."""
        return dataclasses.asdict(self)


def plan_on_paper(
    request: InstallRequest, environ: Mapping[str, str], root: Path = ROOT
) -> tuple[Profile, InstallPlan]:
    """What an install into nothing would do, asking neither a card nor the network."""
    profile = registry.load(root).get(request.profile)
    facts = planning_facts.gather(profile, request, environ, root, paper=True)
    return profile, planning.plan(profile, request, facts)


def install(request: InstallRequest, environ: Mapping[str, str], say: Narrator, root: Path = ROOT) -> InstallOutcome:
    """Make the environment, or finish it, or find it current. LabError for anything a user can mend."""
    return Installation(request, environ, say, root).run()


class Installation:
    """One call of the installer."""

    def __init__(self, request: InstallRequest, environ: Mapping[str, str], say: Narrator, root: Path) -> None:
        self.started = time.monotonic()
        self.request, self.environ, self.say, self.root = request, environ, say, root
        self.registry = registry.load(root)
        self.profile = self.registry.get(request.profile)
        planning_facts.judge_python(self.profile, request.python)
        self.digest = requirement_text.digest(self.profile, root)
        self.name = planning.chosen_name(self.profile, request)
        self.state = root / planning.state_folder(self.name)
        self.journal = InstallJournal(self.state / "journal.jsonl")
        self.removal_s = 0.0
        self.anew = request.recreate  # until the old environment is gone: a call after Ctrl-C must ask for it again
        self.at = ""  # the step under way, to be named when this is interrupted

    def run(self) -> InstallOutcome:
        """Recognise a finished environment at once; anything else happens under the lock."""
        if not self.request.recreate:
            prefix = self._known_prefix()
            found = self._look(prefix)
            if prefix and found.state == "current":
                return self._current(found, prefix)
        purpose = f"install of {self.profile.id}"
        with contextlib.ExitStack() as held:
            lock = held.enter_context(environment_lock.hold(self.state / "lock", purpose, self.say.line))
            facts = planning_facts.gather(self.profile, self.request, self.environ, self.root, paper=False)
            backend = self._backend(facts)
            if backend != "conda":
                return self._run(facts, self.root / ".envs" / self.name, (lock,))
            prefix = planning_facts.conda_prefix(facts.conda or "conda", self.name, self.environ)
            beside = prefix.parent / f".{self.name}.install-lock"  # conda's environments are shared between checkouts
            second = held.enter_context(environment_lock.hold(beside, purpose, self.say.line))
            return self._run(facts, prefix, (lock, second))

    def _run(self, facts: PlanningFacts, prefix: Path, locks: tuple[int, ...]) -> InstallOutcome:
        install_state.clear(self.state)
        found, progress = self._look_again(facts, prefix)
        if found.state == "current":
            return self._current(found, prefix)
        self.say.line(install_text.head(self.profile))
        python = self._gate(facts, prefix, found)
        index = IndexProbe(self.request.settings)  # a machine that is refused asks no index
        torch = self._torch(python, progress)
        facts = planning_facts.with_torch(facts, torch)
        plan = planning.plan(self.profile, self.request, facts)
        if found.state != "resume":
            self._begin(found, facts, prefix, index)
        if torch:
            shown = without_credentials(torch.source)  # a login is for this call alone
            self.journal.fact("torch", {"version": torch.version, "source": shown, "kind": torch.kind})
        work = self._work(plan, facts, prefix, locks)
        done = self._resume(work, progress) if found.state == "resume" and progress else ()
        for step in plan.steps[1:]:  # the gate was asked before there was a plan
            if step.id in done:
                self.say.step(TITLES.get(step.id, step.id), "kept", "")
                continue
            self.at = step.id
            if step.id in LOCAL:
                carry_out(work, step)
                continue
            try:
                carry_out(work, step, index.require)
            except LabError:
                index.wait()  # a step that failed for want of an index says so in the index's words
                raise
        self.journal.finish()
        self._closing(work)
        return self._outcome("installed", prefix, plan.backend, plan.python, plan.torch, work)

    def locate(self) -> InstallOutcome:
        """Where the finished environment is; writes nothing. LabError for none, an unfinished, or a changed one."""
        prefix = self._known_prefix()
        if prefix is None or not os.path.lexists(prefix):
            prefix = self._conda_s(prefix)
        found = self._look(prefix)
        if prefix is None or found.stamp is None:
            named = "" if self.request.env_name is None else f" --env-name {self.name}"
            raise LabError(
                wanted=f"the installed environment of {self.profile.id}",
                found="none" if found.state == "absent" else "one whose install did not finish",
                next=f"install it: {stamp.INSTALL} --profile {self.profile.id}{named}",
                where=str(prefix or self.name),
            )
        version = self._version(found.stamp, prefix)
        self.say.line(f"{self.profile.id} · environment current · {self._shown(prefix)}")
        return self._outcome("current", prefix, found.stamp.backend, version, found.stamp.torch, None)

    def on_paper(self) -> InstallPlan:
        """The plan, with a note on what is there already. LabError where the install itself would refuse that."""
        there = () if self.request.target == "image" else self._there()
        _, plan = plan_on_paper(self.request, self.environ, self.root)
        return dataclasses.replace(plan, notes=(*plan.notes, *there))

    def _there(self) -> tuple[str, ...]:
        prefix = self._known_prefix()
        if prefix is None or not os.path.lexists(prefix):
            return ()
        if self.request.recreate:
            self._refuse_a_folder(prefix)
            return (f"{self._shown(prefix)} is removed first, with everything in it",)
        found = self._look(prefix)
        if found.stamp:
            self._version(found.stamp, prefix)
            return ("environment current: nothing of this would run",)
        if found.state == "restart":
            return (f"{self._shown(prefix)} is removed first: {found.reason}",)
        return ("an earlier call did not finish: the steps that it finished are kept",)

    def _conda_s(self, otherwise: Path | None) -> Path | None:
        """Where conda would have it, such as one that was adopted there; `otherwise` where conda is not asked."""
        conda, uv = (shutil.which(name, path=self.environ.get("PATH")) for name in ("conda", "uv"))
        if conda is None or backends.choose(self.request.backend, conda=conda, uv=uv) != "conda":
            return otherwise
        return planning_facts.conda_prefix(conda, self.name, self.environ)

    def _known_prefix(self) -> Path | None:
        """Where a finished environment of this name would be, without asking conda."""
        here = self.root / ".envs" / self.name
        progress = self._progress(here)
        by_conda = progress is not None and progress.identity.get("backend") == "conda"
        auto = self.request.backend == "auto" and not os.path.lexists(here)
        if progress and by_conda and (auto or self.request.backend == "conda"):
            return Path(str(progress.facts.get("prefix") or here))
        return None if self.request.backend == "conda" else here

    def _backend(self, facts: PlanningFacts) -> str:
        backend = backends.choose(self.request.backend, conda=facts.conda, uv=facts.uv)
        if lacking := backends.missing(backend, conda=facts.conda, uv=facts.uv):
            raise lacking
        if backend != "conda" and facts.interpreter is None:
            raise planning_facts.no_interpreter(self.profile)
        return backend

    def _identity(self, facts: PlanningFacts) -> dict[str, str]:
        """What must be equal for an interrupted install to be resumed; index settings may well be other ones."""
        backend = backends.choose(self.request.backend, conda=facts.conda, uv=facts.uv)
        python = planning.python_version(self.profile, self.request, facts, backend)
        base = facts.interpreter.executable if facts.interpreter else ""
        return {
            "profile": self.profile.id,
            "requirement text": self.digest,
            "backend": backend,
            "Python": f"{python} {base}".strip(),
        }

    def _look_again(self, facts: PlanningFacts, prefix: Path) -> tuple[FoundState, Progress | None]:
        """Under the lock nothing changes any more: this answer counts."""
        if not self.request.recreate:
            return self._look(prefix, self._identity(facts)), self._progress(prefix)
        if not os.path.lexists(prefix):
            return FoundState("absent"), None
        self._refuse_a_folder(prefix)
        return FoundState("restart"), None

    def _look(self, prefix: Path | None, identity: Mapping[str, str] | None = None) -> FoundState:
        asked = install_state.asked(self.request)
        return install_state.look(prefix, self._progress(prefix), self.profile, self.digest, identity, asked)

    def _progress(self, prefix: Path | None) -> Progress | None:
        """What was journalled. A damaged journal matters only where something lies that has no stamp."""
        try:
            return self.journal.read()
        except DamagedJournalError:
            if prefix is not None and os.path.lexists(prefix) and stamp.read(prefix, self.profile.id) is None:
                raise
            return None

    def _discard(self, facts: PlanningFacts, prefix: Path, why: str) -> None:
        self.at = "remove"
        started = time.monotonic()
        if facts.conda and (prefix / "conda-meta").is_dir():
            planning_facts.remove_by_conda(facts.conda, self.name, self.environ)
        install_state.discard(prefix, self.state)  # what conda does not know, or leaves, such as a half-made one
        self.removal_s = time.monotonic() - started
        self.say.step("remove", "done", f"{prefix.name}, {why}", self.removal_s)

    def _refuse_a_folder(self, prefix: Path) -> None:
        """LabError for what --recreate must not remove: it neither looks like an environment nor was begun as one."""
        with contextlib.suppress(DamagedJournalError):  # which tells of no beginning
            if install_state.is_environment(prefix) or self.journal.read() is not None:
                return
        raise install_state.no_environment(self.profile, prefix, install_state.asked(self.request))

    def _gate(self, facts: PlanningFacts, prefix: Path, found: FoundState) -> str:
        """Ask the machine; returns the Python version. GateBlockedError where it cannot carry the profile."""
        backend = backends.choose(self.request.backend, conda=facts.conda, uv=facts.uv)
        python = planning.python_version(self.profile, self.request, facts, backend)
        image = self.request.target == "image"
        seen = host_facts.gather(disk_at=prefix.parent, gpu=self.profile.gpu is not None and not image)
        seen = dataclasses.replace(seen, python=python)
        # What an interrupted call installed takes no more, and what is removed first gives its room back.
        there = install_state.size_gib(prefix, alone=found.state == "restart") if found.state != "absent" else 0.0
        needed = max(0.0, round(self.profile.host.disk_gib - there, 2))
        hint = self.registry.hint(self.profile, seen.gpu.driver if seen.gpu else None)
        checks = host_gate.gate(self.profile, seen, disk_needed_gib=needed, hint=hint)
        worst = [check for check in checks if check.status == "blocked"]
        if not worst:
            self.say.step(TITLES["gate"], "ok", install_text.machine(seen, python))
        else:
            self.say.step(TITLES["gate"], "blocked", "")
        for check in checks:
            if check.status in ("blocked", "warning"):
                for line in install_text.finding(check):
                    self.say.line(line)
        if worst:
            first = worst[0]
            error = GateBlockedError(first.wanted, first.found, first.repair, first.id)
            error.checks = checks
            raise error
        return python

    def _torch(self, python: str, progress: Progress | None) -> TorchChoice | None:
        """The torch that is there already, else one that can be had."""
        kept = progress.facts.get("torch") if progress and "torch" in progress.done else None
        if self.profile.torch and isinstance(kept, dict):
            return TorchChoice(**kept)
        return planning_facts.choose_torch(self.profile, self.request, python, self.root)

    def _begin(self, found: FoundState, facts: PlanningFacts, prefix: Path, index: IndexProbe) -> None:
        """Start a journal, and only then remove what is there: by now nothing is known that would stop the new one."""
        if found.reason:
            self.say.line(f"  starting over: {found.reason}")
        if found.state == "restart":
            index.wait()
        self.journal.begin(self._identity(facts))
        self.journal.fact("prefix", str(prefix))
        if found.state == "restart":
            self._discard(facts, prefix, "as --recreate asks" if self.anew else "which was half made")
        self.anew = False

    def _resume(self, work: Work, progress: Progress) -> tuple[str, ...]:
        """What is whole already, said once; what a kill left half there is taken out."""
        done = mend(work, progress)
        ahead = next((step.id for step in work.plan.steps[1:] if step.id not in done), "stamp")
        why = "its stamp is gone" if "stamp" in progress.done else "an earlier call did not finish"
        self.say.line(f"  resuming at {TITLES.get(ahead, ahead)}: {why}")
        return done

    def _work(self, plan: InstallPlan, facts: PlanningFacts, prefix: Path, locks: tuple[int, ...]) -> Work:
        return Work(
            root=self.root,
            profile=self.profile,
            digest=self.digest,
            request=self.request,
            plan=plan,
            commands=planning.commands_of(self.profile, self.request, facts),
            journal=self.journal,
            state=self.state,
            prefix=prefix,
            environ=self.environ,
            say=self.say,
            lock=locks,
            base=facts.interpreter.executable if facts.interpreter else "",
        )

    def _closing(self, work: Work) -> None:
        lines = requirement_text.flatten(self.profile, self.root)
        jupyter = any(line.requirement.name == "ipykernel" for line in lines)
        for line in install_text.closing(self.profile, work.commands, jupyter=jupyter):
            self.say.line(line)

    def _current(self, found: FoundState, prefix: Path) -> InstallOutcome:
        assert found.stamp is not None
        version = self._version(found.stamp, prefix)
        seconds = time.monotonic() - self.started
        self.say.line(f"{self.profile.id} · environment current ({seconds:.1f} s) · {self._shown(prefix)}")
        if registration.register(installed_files.site_packages(prefix), self.root):
            self.say.step("register", "done", "it was missing, or was for another checkout")
        return self._outcome("current", prefix, found.stamp.backend, version, found.stamp.torch, None)

    def _version(self, found: stamp.Stamp, prefix: Path) -> str:
        """The Python of a finished environment. LabError where another one was asked for."""
        version = found.interpreter.get("version", "")
        wanted = self.request.python
        if wanted and os.sep not in wanted and not f"{version}.".startswith(f"{wanted}."):
            reasons = [f"it has Python {version}, not {wanted}"]
            raise install_state.refused(self.profile, prefix, reasons, install_state.asked(self.request))
        return version

    def _shown(self, prefix: Path) -> str:
        return os.path.relpath(prefix, self.root) if prefix.is_relative_to(self.root) else str(prefix)

    def _outcome(
        self, status: str, prefix: Path, backend: str, version: str, torch: str | None, work: Work | None
    ) -> InstallOutcome:
        taken = {"remove": self.removal_s} if self.removal_s else {}
        taken |= work.seconds if work else {}
        return InstallOutcome(
            status=status,
            profile=self.profile.id,
            environment=self.name,
            prefix=str(prefix),
            python=str(prefix / "bin" / "python"),
            version=version,
            backend=backend,
            torch=torch,
            seconds=round(time.monotonic() - self.started, 3),
            children_s=round(work.children_s, 3) if work else 0.0,
            steps={step: round(seconds, 3) for step, seconds in taken.items()},
        )

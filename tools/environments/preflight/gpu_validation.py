"""Has this machine's GPU been validated since it started? The mark of tools/validate_cnb_gpu.sh, and who asks for it.

In CNB, and in any image of this project, `real_gpu` is refused until that script has passed for the same profile in the
same boot. The mark lies under runs/. It goes out of force by itself: it names the boot, which in a container is the
container's own start, and the requirement text. While the script runs its smoke experiment the mark says `checked`,
which admits the smoke workload and no other.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import ROOT, RUNS
from tools.environments.machine import image_facts

if TYPE_CHECKING:
    from tools.environments.model import Profile

State = Literal["checked", "passed"]
NAME = ".gpu-validation.json"
SCRIPT = "tools/validate_cnb_gpu.sh"
PREFLIGHT = "python tools/environment_preflight.py"
CNB_VARIABLES = ("CNB", "CNB_BUILD_ID", "CNB_REPO_SLUG", "CNB_REPO_SLUG_LOWERCASE")


def needed(environ: Mapping[str, str]) -> bool:
    """Whether a run on a card has to wait for the validation: in CNB, and in an image of this project."""
    in_cnb = any(environ.get(name) for name in CNB_VARIABLES)
    return in_cnb or image_facts.gather(environ).profile is not None


def refuse_without_card(profile: Profile) -> None:
    """LabError (usage) for a profile that asks for no card: there is nothing to validate."""
    if profile.gpu is None:
        raise LabError(
            wanted="a GPU profile",
            found=f"{profile.id}, which runs without a card",
            next=f"{PREFLIGHT} --profile {profile.id} says whether it is ready; the GPU profiles: "
            f"{PREFLIGHT} --list-profiles",
            where="--profile",
            code=EXIT_USAGE,
        )


def boot(proc: Path = Path("/proc")) -> str:
    """A digest that changes when the machine, or the container, is started anew; empty where neither tells."""
    try:
        machine = (proc / "sys/kernel/random/boot_id").read_text()
        first = (proc / "1/stat").read_text().rpartition(")")[2].split()[19]  # field 22: when process 1 started
    except (OSError, IndexError):
        return ""
    return hashlib.sha256(f"{machine} {first}".encode()).hexdigest()


def place(environ: Mapping[str, str]) -> Path:
    """Where the mark lies: under runs/, which is ignored by git and writable in an image."""
    return Path(environ.get("TMLAB_RUNS") or RUNS) / NAME


def mark(profile: Profile, state: State | None, path: Path, root: Path = ROOT, proc: Path = Path("/proc")) -> None:
    """Write the mark, or with None take it away. LabError where the folder refuses."""
    content = {"boot": boot(proc), "profile": profile.id, "requirements": _requirements(profile, root), "state": state}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if state is None:
            path.unlink(missing_ok=True)
            return
        part = path.with_suffix(".part")
        part.write_text(json.dumps(content), encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise LabError(
            wanted="to write down that the GPU was validated",
            found=f"{error.strerror or error} ({path.parent})",
            next="check the folder's owner and mode, or set TMLAB_RUNS to another folder",
            where="runs",
        ) from None


def read(profile: Profile, path: Path, root: Path = ROOT, proc: Path = Path("/proc")) -> State | None:
    """How far the validation of this profile came in this boot; None where it did not begin, or is out of force."""
    try:
        content = json.loads(path.read_bytes())
        state: State | None = content["state"]
        named = (content["boot"], content["profile"], content["requirements"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    here = boot(proc)
    return state if here and named == (here, profile.id, _requirements(profile, root)) else None


def refuse_unvalidated(profile: Profile, workload: str, environ: Mapping[str, str], root: Path = ROOT) -> None:
    """LabError where a run on the card has to wait for the validation. Asked for run mode `real_gpu` alone."""
    if not needed(environ):
        return
    state = read(profile, place(environ), root)
    if state == "passed" or (state == "checked" and workload == "smoke"):
        return
    found = "it is still running its smoke experiment" if state == "checked" else "it has not passed since the start"
    raise LabError(
        wanted=f"a GPU that {SCRIPT} has passed for {profile.id} since this machine or container was started",
        found=found,
        next=f"sh {SCRIPT} --profile {profile.id}",
        where=f"{profile.id}, run mode real_gpu",
    )


def _requirements(profile: Profile, root: Path) -> str:
    from tools.environments.registry import requirement_text

    return requirement_text.digest(profile, root)

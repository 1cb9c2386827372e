"""Is this notebook's own interpreter the one of the profile's environment, and may its run mode be more than a plan?

The stamp that the installer leaves in an environment says whose it is. An environment without one was made by hand, or
is a machine's only Python: then what is installed decides, and that is preflight's to judge.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.environments.errors import LabError
from tools.environments.installed import stamp
from tools.environments.model import Check, Profile, Report

CHECK_ID = "notebook.interpreter"


def check(profile: Profile, prefix: Path = Path(sys.prefix), executable: str = sys.executable) -> Check:
    """Whose environment the running interpreter belongs to. Blocked if another profile's, or torn."""
    wanted = f"the Python of an environment made for {profile.id}, such as {profile.environment}"
    try:
        found = stamp.read(prefix, profile.id)
    except LabError as torn:
        return Check(CHECK_ID, "blocked", wanted, f"{executable}, whose stamp is torn: {torn.found}", torn.next)
    if found is None:
        said = f"{executable}, which has no stamp: preflight judges by what is installed"
        return Check(CHECK_ID, "skipped", wanted, said)
    if found.profile == profile.id:
        return Check(CHECK_ID, "ok", wanted, executable)
    repair = (
        f'choose the kernel "Python ({profile.environment})" (registered from that environment: quickstart), '
        f'or set PROFILE = "{found.profile}"'
    )
    return Check(CHECK_ID, "blocked", wanted, f"{executable}, of an environment made for {found.profile}", repair)


def refuse(profile: Profile, mode: str, kernel: Check, report: Report) -> None:
    """Raises LabError unless `mode` may run here: the kernel is the profile's, and preflight is ok.

    A warning stands in the way like a fault until it is accepted by name; the record then shows it as a limit.
    """
    if mode == "dry_run":
        return
    if mode == "real_gpu" and profile.gpu is None:
        raise LabError(
            wanted="a CUDA profile for real_gpu",
            found=profile.id,
            next='set PROFILE to one that has a card, or RUN_MODE = "cpu_mechanism"',
            where="RUN_MODE stays dry_run",
        )
    bad = [kernel] if kernel.status == "blocked" else []
    bad += [one for one in report.checks if one.status == "blocked"]
    bad += [one for one in report.checks if one.status == "warning" and one.id not in report.accepted]
    if not bad:
        return
    first = bad[0]
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    accept = f', or accept it by name: ACCEPT = ("{first.id}",)' if first.status == "warning" else ""
    raise LabError(
        wanted=f"{first.id}: {first.wanted}",
        found=first.found + more,
        next=(first.repair or f"python tools/environment_preflight.py --profile {profile.id}") + accept,
        where="RUN_MODE stays dry_run",
    )

"""One preflight: gather, ask every family of checks, and put the answers in the catalogue's order.

`run` is for callers in this environment's own Python: the installer's last step, experiments, notebooks. `judge` is
pure and is where the families are listed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from tools.environments.errors import EXIT_BLOCKED, EXIT_OK, EXIT_USAGE, LabError
from tools.environments.layout import ROOT
from tools.environments.machine import host_gate
from tools.environments.machine.network_facts import DEFAULT_MODEL
from tools.environments.model import Check, Profile, Report
from tools.environments.preflight import preflight_facts
from tools.environments.preflight.checks import (
    image,
    imports,
    installed_packages,
    interpreter,
    network,
    notebook,
    operations,
    package_consistency,
    stamp_state,
    torch_build,
)
from tools.environments.preflight.checks.check_catalogue import CHECKS
from tools.environments.preflight.preflight_facts import PROBE_TIME_LIMIT_S, PreflightFacts, PreflightRequest
from tools.environments.registry.registry import Registry

WORKING_SPACE_GIB = 0.5  # what runs and caches need once the environment itself is installed


def run(
    profile: Profile,
    registry: Registry,
    *,
    quick: bool = False,
    notebook: bool = False,
    accept: Iterable[str] = (),
    will_download: bool = False,
    model: str | None = None,
    time_limit_s: float = PROBE_TIME_LIMIT_S,
    root: Path = ROOT,
) -> Report:
    """Check the running interpreter's environment against `profile`.

    `model` ("org/name" or "org/name@revision") is one that the run will take from the hub; `will_download` alone means
    the default model. LabError (usage) for an id in `accept` that is no check; every other finding is in the report.
    """
    accepted = known(accept)
    wanted = model or (DEFAULT_MODEL if will_download else None)
    request = PreflightRequest(quick=quick, notebook=notebook, model=wanted, time_limit_s=time_limit_s)
    facts = preflight_facts.gather(profile, request, root=root)
    return judge(profile, registry, facts, accepted)


def judge(profile: Profile, registry: Registry, facts: PreflightFacts, accepted: Iterable[str] = ()) -> Report:
    """All checks on `facts`, in the catalogue's order. Of `accepted`, only what is a warning here counts."""
    complete = all(facts.modules.get(name) is not None for name in profile.required_modules)
    found = [
        *host_gate.gate(
            profile,
            facts.host,
            disk_needed_gib=WORKING_SPACE_GIB if complete else None,
            hint=_hint(profile, registry, facts),
        ),
        *interpreter.check(profile, facts),
        *stamp_state.check(profile, facts),
        *image.check(profile, facts),
        *installed_packages.check(profile, facts),
        *package_consistency.check(profile, facts),
        *imports.check(profile, facts),
        *torch_build.check(profile, facts, registry.profiles),
        *operations.check(profile, facts),
        *network.check(profile, facts),
        *notebook.check(profile, facts),
    ]
    order = list(CHECKS)
    checks: tuple[Check, ...] = tuple(sorted(found, key=lambda check: order.index(check.id)))
    warned = {check.id for check in checks if check.status == "warning"}
    return Report(profile.id, registry.digest, checks, tuple(sorted(warned.intersection(accepted))))


def _hint(profile: Profile, registry: Registry, facts: PreflightFacts) -> str | None:
    driver = facts.host.gpu.driver if facts.host.gpu else None
    return registry.hint(profile, driver)


def known(accept: Iterable[str]) -> tuple[str, ...]:
    """The ids as given; LabError (usage) with the nearest ones for an id that no check has."""
    names = tuple(accept)
    for name in names:
        if name not in CHECKS:
            near = difflib.get_close_matches(name, CHECKS, n=3, cutoff=0.5)
            offer = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(CHECKS)}"
            raise LabError("the id of a check", ascii(name)[:80], offer, where="--accept", code=EXIT_USAGE)
    return names


def exit_code(report: Report, *, strict: bool = False) -> int:
    """0 for ok and warning, 1 for blocked, and with `strict` for a warning that was not accepted too."""
    failed = report.status == "blocked" or (strict and report.status == "warning")
    return EXIT_BLOCKED if failed else EXIT_OK

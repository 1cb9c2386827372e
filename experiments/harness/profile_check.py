"""Which profile a run is checked against, and the preflight report that is true when it begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from experiments.evidence.subject import ProfileFacts
from experiments.evidence.vocabulary import RunMode
from experiments.harness.experiment import AnyExperiment
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import ROOT
from tools.environments.model import Profile
from tools.environments.preflight import gpu_validation
from tools.environments.registry import registry as registries
from tools.environments.registry import requirement_text
from tools.environments.registry.registry import Registry


def choose(experiment: AnyExperiment, registry: Registry, wanted: str | None, mode: RunMode | None) -> Profile:
    """The profile asked for, else the one this environment was made for; without a stamp, the only one that suits.

    A plan may be made anywhere: in the environment of another profile it is made as where there is no stamp. Raises
    LabError (wrong usage) with the choices where nothing decides, and for a profile that is unknown or does not run
    this experiment.
    """
    able = registry.having(experiment.name)
    if wanted is not None:
        asked = registry.get(wanted)
        return asked if asked in able else _refuse(experiment, able, wanted)
    suited = tuple(profile for profile in able if mode != "real_gpu" or profile.gpu is not None)
    here = _of_this_environment()
    own = [profile for profile in suited if profile.id == here]
    if own:
        return own[0]
    if here is not None and mode != "dry_run":
        return _refuse(experiment, suited, f"the environment of {here}")
    usual = suited if mode == "real_gpu" else tuple(profile for profile in able if profile.gpu is None) or able
    if len(usual) == 1:
        return usual[0]
    return _refuse(experiment, usual, "none given, and this environment has no stamp that says which it is")


def offer(profiles: Sequence[Profile]) -> str:
    """`give --profile A or B`, for the last line of a finding."""
    return f"give --profile {' or '.join(profile.id for profile in profiles)}"


def _refuse(experiment: AnyExperiment, choices: Sequence[Profile], found: str) -> NoReturn:
    names = ", ".join(profile.id for profile in choices) or "the registry names none"
    raise LabError(
        wanted=f"a profile that runs {experiment.name}: {names}",
        found=found,
        next=f"in the environment of one of them, or {offer(choices)}"
        if choices
        else "name it among the `experiments` of a profile's entry",
        where="--profile",
        code=EXIT_USAGE,
    )


def default_mode(profile: Profile) -> RunMode:
    """What a run on this profile is without being told: on the card of a CUDA profile, else on the CPU."""
    return "real_gpu" if profile.gpu is not None else "cpu_mechanism"


def check(
    profile: Profile, registry: Registry, mode: RunMode, accepted: Sequence[str], model: str | None
) -> ProfileFacts:
    """Identity of the profile and, unless the run is dry, its full preflight. `model`: hub id a run would download."""
    report = None
    if mode != "dry_run":
        from tools.environments.preflight import preflight

        report = preflight.run(profile, registry, accept=tuple(accepted), will_download=model is not None, model=model)
    return ProfileFacts(
        id=profile.id,
        registry_digest=registry.digest,
        requirement_digest=requirement_text.digest(profile, ROOT),
        preflight=report,
    )


def refuse_unvalidated(profile: Profile, mode: RunMode, workload: str) -> None:
    """In CNB and in an image a card has to be validated first. Raises LabError, and only for run mode `real_gpu`."""
    if mode == "real_gpu":
        gpu_validation.refuse_unvalidated(profile, workload, os.environ)


def load() -> Registry:
    """The registry of this checkout. Raises LabError when it is broken."""
    return registries.load(ROOT)


def _of_this_environment() -> str | None:
    try:
        from tools.environments.installed import stamp

        found = stamp.read(Path(sys.prefix))
    except LabError:
        return None  # a torn stamp is preflight's finding
    return None if found is None else found.profile

"""Which profile a run is held against, and the preflight report that is true when it begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

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
    """The profile asked for, else the one this environment was made for, else the first that suits the run mode.

    Raises LabError (wrong usage) for a profile that is unknown or does not run this experiment.
    """
    asked = None if wanted is None else registry.get(wanted)
    able = registry.having(experiment.name)
    if not able or (asked is not None and asked not in able):
        names = [profile.id for profile in able]
        raise LabError(
            wanted=f"a profile that runs {experiment.name}: {', '.join(names) or 'the registry names none'}",
            found=wanted or "none",
            next=f"give --profile {names[0]}" if names else "name it among the `experiments` of a profile's entry",
            where="--profile",
            code=EXIT_USAGE,
        )
    if asked is not None:
        return asked
    here = _of_this_environment()
    for profile in able:
        if profile.id == here and (mode != "real_gpu" or profile.layer == "cuda"):
            return profile
    layer = "cuda" if mode == "real_gpu" else "cpu"
    return next((profile for profile in able if profile.layer == layer), able[0])


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

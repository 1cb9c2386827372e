"""Is the torch that is installed the one this profile means: version, build, CUDA, and code for the card?

A later requirement file can replace torch without a word, and a preset index can put a CPU build on a GPU machine. What
torch says of itself counts: wheels from PyPI leave the build out of their metadata.
"""

from __future__ import annotations

from collections.abc import Mapping

from tools.environments.machine.host_gate import numbers
from tools.environments.model import Check, Profile, TorchPin
from tools.environments.preflight.checks.pin import build_fits
from tools.environments.preflight.checks.wording import new_environment
from tools.environments.preflight.child_probe import outcome
from tools.environments.preflight.preflight_facts import PreflightFacts
from tools.environments.registry.pep440 import SpecifierSet, Version, as_version

IDS = ("torch.build", "torch.cuda", "torch.architectures")


def check(profile: Profile, facts: PreflightFacts, profiles: Mapping[str, Profile]) -> tuple[Check, ...]:
    """`torch.build`, `torch.cuda`, `torch.architectures`."""
    if profile.torch is None:
        return tuple(Check(name, "skipped", "no torch", "this profile uses none") for name in IDS)
    version, cuda, architectures = _told(facts)
    if version is None:
        return _silent(profile, profile.torch, facts)
    return (
        _build(profile, profile.torch, facts, version, profiles),
        _cuda(profile, profile.torch, facts, cuda),
        _architectures(profile, facts, architectures),
    )


def _told(facts: PreflightFacts) -> tuple[Version | None, str | None, list[str] | None]:
    """Version, CUDA and architectures as torch tells them; from the file on disk where it was not imported."""
    result = outcome(facts.probes, "torch-facts") or outcome(facts.probes, "torch-facts cuda") if facts.probes else None
    if result and result.ok:
        return as_version(str(result.facts["version"])), result.facts["cuda"], list(result.facts["architectures"])
    if facts.torch_on_disk:
        return as_version(facts.torch_on_disk[0]), facts.torch_on_disk[1], None
    return None, None, None


def _silent(profile: Profile, pin: TorchPin, facts: PreflightFacts) -> tuple[Check, ...]:
    """A torch that imports and does not say what it is cannot be the profile's; one that does not import is told of."""
    found = "no torch that says what it is"
    rest = tuple(Check(name, "skipped", _wanted(pin), found) for name in IDS[1:])
    imported = outcome(facts.probes, "import torch") if facts.probes else None
    if facts.modules.get("torch") is None or (imported and not imported.ok):
        return (Check("torch.build", "skipped", _wanted(pin), found), *rest)
    return (Check("torch.build", "blocked", _wanted(pin), found, new_environment(profile, facts)), *rest)


def _wanted(pin: TorchPin) -> str:
    if pin.specifier.startswith("=="):
        return f"{pin.specifier[2:]}+{pin.build}"
    return f"torch {pin.specifier} in a {pin.build} build"


def _build(
    profile: Profile, pin: TorchPin, facts: PreflightFacts, version: Version, profiles: Mapping[str, Profile]
) -> Check:
    if build_fits(pin, version, facts.host.system):
        return Check("torch.build", "ok", _wanted(pin), str(version))
    found = f"{version} ({_reason(pin, facts, version)})"
    repair = new_environment(profile, facts)
    other = fitting_profile(profile, facts, version, profiles)
    if other is not None:
        driver = facts.host.gpu.driver if facts.host.gpu else None
        able = f"driver {driver} can do it, " if driver else ""
        repair += f"; or, {able}use the profile for this build: --profile {other}"
    return Check("torch.build", "blocked", _wanted(pin), found, repair)


def _reason(pin: TorchPin, facts: PreflightFacts, version: Version) -> str:
    if facts.stamp.torch and facts.stamp.torch != str(version):
        return f"it was {facts.stamp.torch} when the install finished: a later requirement replaced it"
    if version.local_text == "cpu" and pin.build != "cpu":
        return "a CPU build: a preset package index put it there"
    if SpecifierSet(pin.specifier).contains(version.public):
        return "a later requirement replaced it, or it came from another package index"
    return "another version: a later requirement replaced it"


def fitting_profile(
    profile: Profile, facts: PreflightFacts, version: Version, profiles: Mapping[str, Profile]
) -> str | None:
    """The profile's companion, or its parent, whose pin this is, where the driver is new enough for it."""
    driver = facts.host.gpu.driver if facts.host.gpu else None
    for other in profiles.values():
        paired = other.companion_of == profile.id or other.id == profile.companion_of
        if not paired or other.torch is None or not build_fits(other.torch, version, facts.host.system):
            continue
        if other.gpu and driver and numbers(driver) >= numbers(other.gpu.driver_native):
            return other.id
    return None


def _cuda(profile: Profile, pin: TorchPin, facts: PreflightFacts, cuda: str | None) -> Check:
    wanted = f"torch.version.cuda {pin.cuda}"
    if cuda == pin.cuda:
        return Check("torch.cuda", "ok", wanted, str(cuda))
    return Check("torch.cuda", "blocked", wanted, str(cuda), new_environment(profile, facts))


def _architectures(profile: Profile, facts: PreflightFacts, architectures: list[str] | None) -> Check:
    """Fault: CUDA is "available", yet the first kernel fails for want of code for this card."""
    cards = facts.host.gpu.cards if facts.host.gpu else ()
    wanted = "code for " + (", ".join(sorted({f"{card.name} ({card.capability})" for card in cards})) or "the card")
    if profile.gpu is None:
        return Check("torch.architectures", "skipped", "code for a card", "this profile uses none")
    if not cards or architectures is None:
        why = "torch was not asked" if cards else "no card to ask"
        return Check("torch.architectures", "skipped", wanted, why)
    carried = " ".join(architectures) or "none"
    if all(covers(architectures, card.capability) for card in cards):
        return Check("torch.architectures", "ok", wanted, carried)
    repair = "use a card this build carries code for, or the profile whose build does: " + new_environment(
        profile, facts
    )
    return Check("torch.architectures", "blocked", wanted, carried, repair)


def covers(architectures: list[str], capability: str) -> bool:
    """Whether machine code of the same major version, or PTX of any older one, is among `architectures`.

    Machine code runs on its own major version from its minor version up; one with a letter (sm_90a) only on its own.
    """
    major, minor = (*numbers(capability), 0)[:2]
    for text in architectures:
        kind, _, number = text.partition("_")
        digits = number.rstrip("af")
        if not digits.isdigit():
            continue
        its = (int(digits) // 10, int(digits) % 10)
        if its == (major, minor) and kind in ("sm", "compute"):
            return True
        if digits != number:
            continue
        if (kind == "sm" and its[0] == major and its[1] <= minor) or (kind == "compute" and its <= (major, minor)):
            return True
    return False

"""Can this machine carry this profile at all? Asked before anything is downloaded, and again by preflight.

Pure: from a profile and `HostFacts` to checks. A card's memory may lie 8 % below its nominal class, because an "8 GiB"
card reports 7.5 to 8 GiB.
"""

from __future__ import annotations

from tools.environments.machine.gpu_facts import Card, GpuFacts
from tools.environments.machine.host_facts import HostFacts
from tools.environments.model import Check, GpuGate, Profile

TOLERANCE = 0.08
PREFLIGHT = "python tools/environment_preflight.py"
INSTALL = "python tools/install_environment_profile.py"
GPU_CHECKS = ("gpu.count", "gpu.memory", "gpu.driver", "gpu.capability")


def gate(
    profile: Profile, facts: HostFacts, *, disk_needed_gib: float | None = None, hint: str | None = None
) -> tuple[Check, ...]:
    """Every host check of `profile`, in a fixed order.

    `disk_needed_gib` replaces the registry's size; `hint` is the profile that fits this driver (`Registry.hint`).
    """
    needed = profile.host.disk_gib if disk_needed_gib is None else disk_needed_gib
    return (
        _system(profile, facts),
        _python(profile, facts),
        _memory(profile, facts),
        _disk(profile, facts, needed),
        *_gpu(profile, facts.gpu, hint if hint != profile.id else None),
    )


def _system(profile: Profile, facts: HostFacts) -> Check:
    wanted = " or ".join(profile.host.systems)
    if facts.system in profile.host.systems:
        return Check("host.system", "ok", wanted, facts.system)
    if facts.system.startswith("win"):
        repair = "run inside WSL 2: wsl --install, then clone the repository there"
    else:
        repair = f"use a machine with {wanted}; what this one may run is listed by {PREFLIGHT} --list-profiles"
    return Check("host.system", "blocked", wanted, facts.system, repair)


def _python(profile: Profile, facts: HostFacts) -> Check:
    wanted = "Python " + " or ".join(profile.python)
    found = f"Python {facts.python}"
    if ".".join(facts.python.split(".")[:2]) in profile.python:
        return Check("host.python", "ok", wanted, found)
    repair = f"{INSTALL} --profile {profile.id} --python {profile.python[-1]}"
    return Check("host.python", "blocked", wanted, found, repair)


def _memory(profile: Profile, facts: HostFacts) -> Check:
    advised = profile.host.memory_gib
    wanted = f"{advised:g} GiB host memory advised"
    if facts.memory_gib is None:
        return Check("host.memory", "skipped", wanted, "the system does not tell")
    found = f"{facts.memory_gib:.1f} GiB"
    if facts.memory_gib >= advised * (1 - TOLERANCE):
        return Check("host.memory", "ok", wanted, found)
    repair = "close other programs, raise the container's memory limit, or keep to the smoke workload"
    return Check("host.memory", "warning", wanted, found, repair)


def _disk(profile: Profile, facts: HostFacts, needed_gib: float) -> Check:
    wanted = f"{needed_gib:g} GiB free at {facts.disk.path}"
    free = facts.disk.free_gib
    if free is None:
        return Check("host.disk", "warning", wanted, "the file system does not tell", f"df -h {facts.disk.path}")
    if free >= needed_gib:
        return Check("host.disk", "ok", wanted, f"{free:.1f} GiB")
    short = f"{needed_gib - free:.1f} GiB"
    repair = f"free {short} there (pip cache purge; uv cache clean), or keep the checkout on a larger disk"
    return Check("host.disk", "blocked", wanted, f"{free:.1f} GiB", repair)


def _gpu(profile: Profile, facts: GpuFacts | None, hint: str | None) -> tuple[Check, ...]:
    gpu = profile.gpu
    if gpu is None:
        return tuple(Check(name, "skipped", "no GPU", "this profile uses none") for name in GPU_CHECKS)
    if facts is None:
        return tuple(Check(name, "skipped", _cards_wanted(gpu), "the driver was not asked") for name in GPU_CHECKS)
    if not facts.cards:
        missing = Check("gpu.count", "blocked", _cards_wanted(gpu), facts.problem or "none", _no_card(profile, facts))
        rest = GPU_CHECKS[1:]
        return (missing, *(Check(name, "skipped", _cards_wanted(gpu), "no card to ask") for name in rest))
    return (
        _count(gpu, facts),
        _card_memory(gpu, facts.cards),
        _driver(gpu, facts, hint),
        _capability(gpu, facts.cards),
    )


def _cards_wanted(gpu: GpuGate) -> str:
    return f"{gpu.count} NVIDIA GPU{'s' if gpu.count > 1 else ''} with {gpu.memory_gib:g} GiB"


def _no_card(profile: Profile, facts: GpuFacts) -> str:
    problem = (facts.problem or "").lower()
    if "mismatch" in problem:
        return (
            "reboot: the driver was updated and the kernel still runs the old module (or: sudo rmmod nvidia_uvm nvidia)"
        )
    if "did not answer" in problem:
        return "check `nvidia-smi` in another terminal; if it hangs too, reboot the machine"
    there = "on a GPU machine check that `nvidia-smi` answers (in a container: start it with --gpus all)"
    if not profile.gpu or not profile.experiments:
        return f"{there}; here use a CPU profile"
    fit = f"python -m experiments fit --profile {profile.id} --memory-gib {profile.gpu.memory_gib:g}"
    return f"{there}; here use a CPU profile, or see what would fit: {fit}"


def _count(gpu: GpuGate, facts: GpuFacts) -> Check:
    found = f"{len(facts.cards)} ({', '.join(sorted({card.name for card in facts.cards}))})"
    if len(facts.cards) >= gpu.count:
        return Check("gpu.count", "ok", _cards_wanted(gpu), found)
    repair = f"use a machine with {gpu.count} cards: one card never stands as multi-card evidence"
    return Check("gpu.count", "blocked", _cards_wanted(gpu), found, repair)


def _card_memory(gpu: GpuGate, cards: tuple[Card, ...]) -> Check:
    wanted = f"{gpu.memory_gib:g} GiB on {gpu.count} card{'s' if gpu.count > 1 else ''}"
    found = ", ".join(f"{card.memory_gib:.1f} GiB" for card in cards)
    enough = sum(card.memory_gib >= gpu.memory_gib * (1 - TOLERANCE) for card in cards)
    if enough >= min(gpu.count, len(cards)):
        return Check("gpu.memory", "ok", wanted, found)
    return Check(
        "gpu.memory", "blocked", wanted, found, "use a card of that class; a smaller one cannot hold the workloads"
    )


def _driver(gpu: GpuGate, facts: GpuFacts, hint: str | None) -> Check:
    wanted = f"driver {gpu.driver_native} or newer"
    if facts.driver is None:
        return Check("gpu.driver", "warning", wanted, "the driver does not tell its version", "nvidia-smi")
    if numbers(facts.driver) >= numbers(gpu.driver_native):
        return Check("gpu.driver", "ok", wanted, facts.driver)
    other = f"{INSTALL} --profile {hint}" if hint else f"{PREFLIGHT} --list-profiles"
    repair = (
        f"update the NVIDIA driver of the host to {gpu.driver_native} (pip does not install drivers), "
        f"or take a profile for this driver: {other}"
    )
    if numbers(facts.driver) >= numbers(gpu.driver_floor):
        found = f"{facts.driver}: the wheel starts from {gpu.driver_floor}, with limited features"
        return Check("gpu.driver", "warning", wanted, found, repair)
    return Check("gpu.driver", "blocked", wanted, facts.driver, repair)


def _capability(gpu: GpuGate, cards: tuple[Card, ...]) -> Check:
    wanted = f"compute capability {gpu.compute_capability} or newer"
    found = ", ".join(sorted({f"{card.capability} ({card.name})" for card in cards}))
    able = sum(numbers(card.capability) >= numbers(gpu.compute_capability) for card in cards)
    if able >= min(gpu.count, len(cards)):
        return Check("gpu.capability", "ok", wanted, found)
    repair = "use a newer card: this build of PyTorch carries no code for it"
    return Check("gpu.capability", "blocked", wanted, found, repair)


def numbers(version: str) -> tuple[int, ...]:
    """A dotted number as a tuple that compares: "570.86.10" is newer than "570". What is no number counts as 0."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))

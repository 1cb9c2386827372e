"""Everything a preflight looks at, gathered once: the checks are functions of this and nothing else.

Order matters for time, not for meaning: the children that import torch start first and run while this process reads
metadata; it waits for them last.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tools.environments.errors import LabError
from tools.environments.installed import module_facts, package_facts
from tools.environments.installed.installed_files import Sweep
from tools.environments.installed.package_facts import PackageFacts
from tools.environments.layout import ENVS, ROOT
from tools.environments.machine import host_facts, image_facts, interpreter_facts, network_facts
from tools.environments.machine.host_facts import HostFacts
from tools.environments.machine.image_facts import ImageFacts
from tools.environments.machine.interpreter_facts import InterpreterFacts
from tools.environments.machine.network_facts import HubFacts, Proxy
from tools.environments.model import Check, Profile
from tools.environments.preflight.child_probe import Probe, ProbeFacts
from tools.environments.registry import requirement_text
from tools.environments.registry.pep508 import environment_of_this_python
from tools.environments.registry.requirement_text import RequirementLine

PROBE_TIME_LIMIT_S = 120.0  # a first import from a cold disk can take half a minute
DRIVER_TIME_LIMIT_S = 5.0
# These import torch themselves, so they ride in torch's child; everything else is imported beside it, on another core.
WITH_TORCH = (
    "accelerate",
    "torchvision",
    "torchaudio",
    "peft",
    "trl",
    "torchrl",
    "tensordict",
    "bitsandbytes",
    "torchao",
    "llmcompressor",
    "verl",
    "vllm",
)
JUPYTER = ("jupyterlab", "notebook")  # distributions; ipykernel alone comes with many things that are no notebook


@dataclass(frozen=True, slots=True)
class StampFacts:
    """The environment's stamp checked against the registry. `profile` is None where there is no stamp."""

    profile: str | None
    torch: str | None = None
    reasons: tuple[str, ...] = ()  # why it is not current
    torn: LabError | None = None


@dataclass(frozen=True, slots=True)
class PreflightRequest:
    """What a caller asked for beyond the profile."""

    quick: bool = False  # import nothing, sweep no files
    notebook: bool = False  # judge notebooks even where Jupyter is not installed
    model: str | None = None  # a run will use this model of the hub and download what is not cached
    time_limit_s: float = PROBE_TIME_LIMIT_S


@dataclass(frozen=True, slots=True)
class PreflightFacts:
    """One environment on one machine at one moment, and the profile's own text it is checked against."""

    host: HostFacts
    interpreter: InterpreterFacts
    packages: PackageFacts
    modules: Mapping[str, str | None]  # import name -> file it would load; None where it cannot be found
    torch_on_disk: tuple[str, str | None] | None  # version and CUDA by torch/version.py
    lines: tuple[RequirementLine, ...]
    markers: Mapping[str, str]
    stamp: StampFacts
    image: ImageFacts
    requirement_digest: str
    proxies: tuple[Proxy, ...]
    cuda_visible: str | None  # CUDA_VISIBLE_DEVICES as set
    fresh_name: str  # an environment name that is not taken, for repairs
    ready: str | None = None  # a finished environment of this profile elsewhere, which a user may have meant
    probes: tuple[ProbeFacts, ...] | None = None  # None: nothing was imported
    files: Sweep | None = None  # None: not swept
    hub: HubFacts | None = None  # None: the run downloads nothing
    notebook: tuple[Check, ...] | None = None  # registration and kernel; None where notebooks do not apply


def gather(profile: Profile, request: PreflightRequest, *, root: Path = ROOT) -> PreflightFacts:
    """Look at everything `profile` asks about. LabError only where the registry's own files are broken."""
    interpreter = interpreter_facts.gather()
    probes = None if request.quick else _start(profile, interpreter, request.time_limit_s)
    try:
        host = host_facts.gather(
            time_limit_s=DRIVER_TIME_LIMIT_S, disk_at=Path(sys.prefix), gpu=profile.gpu is not None
        )
        packages = package_facts.gather(interpreter.packages)
        modules = module_facts.locate(profile.required_modules)
        digest = requirement_text.digest(profile, root)
        hub = network_facts.hub(request.model, os.environ) if request.model else None
        facts = PreflightFacts(
            host=host,
            interpreter=interpreter,
            packages=packages,
            modules=modules,
            torch_on_disk=_torch_on_disk(modules.get("torch")),
            lines=requirement_text.flatten(profile, root),
            markers=environment_of_this_python(),
            stamp=_stamp(profile, digest),
            image=image_facts.gather(os.environ),
            requirement_digest=digest,
            proxies=network_facts.proxies(os.environ),
            cuda_visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
            fresh_name=fresh_name(profile.environment, Path(sys.prefix).name, ENVS),
            ready=ready(profile, digest, Path(sys.prefix), ENVS),
            files=None if request.quick else _sweep(),
            hub=hub,
            notebook=_notebook(request, packages),
        )
        return facts if probes is None else replace(facts, probes=tuple(probe.finish() for probe in probes))
    finally:
        for probe in probes or ():
            probe.abandon()


def steps(profile: Profile) -> tuple[tuple[tuple[str, str], ...], ...]:
    """What each child does, in order: torch with what rides on it, and beside it everything else."""
    names = profile.required_modules
    beside = tuple(("import", name) for name in names if name != "torch" and name not in WITH_TORCH)
    if profile.torch is None:
        return (tuple(("import", name) for name in names),) if names else ()
    device = "cuda" if profile.gpu else "cpu"
    dtypes = [name for name in profile.dtypes if name != "tf32" or profile.gpu]
    if profile.gpu and "bfloat16" not in dtypes:
        dtypes.append("bfloat16")  # a candidate wherever card and PyTorch both have it
    torch = (
        ("import", "torch"),
        ("torch-facts", "cuda" if profile.gpu else ""),
        *(("operate", f"{name} {device}") for name in dtypes),
        *(("import", name) for name in names if name in WITH_TORCH),
    )
    return (torch, beside) if beside else (torch,)


def _start(profile: Profile, interpreter: InterpreterFacts, time_limit_s: float) -> list[Probe]:
    return [Probe(part, time_limit_s=time_limit_s, flags=interpreter.flags) for part in steps(profile)]


def _torch_on_disk(origin: str | None) -> tuple[str, str | None] | None:
    from tools.environments.installed import installed_files

    return installed_files.torch_build(Path(origin).parent.parent) if origin else None


def _sweep() -> Sweep | None:
    from tools.environments.installed import installed_files

    site = Path(sysconfig.get_path("purelib"))
    return installed_files.sweep(site) if site.is_dir() else None


def _stamp(profile: Profile, digest: str) -> StampFacts:
    from tools.environments.installed import stamp

    prefix = Path(sys.prefix)
    try:
        found = stamp.read(prefix, profile.id)
        if found is None:
            return StampFacts(None)
        return StampFacts(found.profile, found.torch, tuple(stamp.is_current(found, profile, digest, prefix)))
    except LabError as torn:
        return StampFacts(None, torn=torn)


def _notebook(request: PreflightRequest, packages: PackageFacts) -> tuple[Check, ...] | None:
    """Registration and kernels, proved by starting interpreters; --quick only reads what is registered."""
    if not request.notebook and not any(name in packages.installed for name in JUPYTER):
        return None
    from tools.environments.installed import kernels, registration

    site = registration.site_packages()
    if request.quick:
        found = registration.read(site)
        if found is None or found.root != ROOT:
            return (
                registration.check(site),
                Check(kernels.CHECK_ID, "skipped", "kernels that start", "not tried (--quick)"),
            )
        written = Check(registration.CHECK_ID, "ok", "registered for this checkout", "it is, by its file (--quick)")
        return (written, Check(kernels.CHECK_ID, "skipped", "kernels that start", "not tried (--quick)"))
    specs = kernels.find(kernels.data_folders(sys.prefix, os.environ))
    return (registration.check(site), kernels.check(sys.prefix, specs))


def ready(profile: Profile, digest: str, prefix: Path, envs: Path) -> str | None:
    """The profile's default environment where it is finished, current, and not the one running."""
    from tools.environments.installed import stamp

    there = envs / profile.environment
    if os.path.realpath(there) == os.path.realpath(prefix):
        return None
    try:
        found = stamp.read(there)
    except LabError:
        return None
    return str(there) if found and (found.profile, found.requirement_digest) == (profile.id, digest) else None


def fresh_name(default: str, current: str, envs: Path) -> str:
    """A name for a new environment: the profile's own, or that with the first free number."""
    names = [default, *(f"{default}_{number}" for number in range(2, 100))]
    return next((name for name in names if name != current and not (envs / name).exists()), f"{default}_new")

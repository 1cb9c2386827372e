"""The package steps of a plan as layers of an image, each a folder with a script and the files that it reads.

An image build runs the plan as the installer does on a machine, but in two layers: torch, then what the profile adds to
it. A folder depends on nothing but what its layer installs, down to the byte: comments are left out, other profiles
never enter. So an image builder that compares contents takes a layer from its cache although the registry or this code
has changed. What ends an install (register, check, preflight, stamp) is `--adopt`, once the code is in the image.

No index is asked here: a wheel folder's torch where one was given, else the one that the torch file pins. What is
written goes into an image, so an address with a login is refused.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.environments.errors import LabError
from tools.environments.install import planning, planning_facts
from tools.environments.install.planning import InstallRequest
from tools.environments.installed.environment_lock import unwritable
from tools.environments.layout import ROOT
from tools.environments.machine import host_facts
from tools.environments.model import InstallPlan, InstallStep, Profile
from tools.environments.registry import registry, requirement_text
from tools.environments.sources import indexes, torch_wheel
from tools.environments.sources.index_settings import IndexSettings, without_credentials
from tools.environments.sources.torch_wheel import Sources, TorchChoice

LAYERS = ("torch", "packages")
FIRST_LAYER = ("create", "isolate", "pip", "torch")
SCRIPTS = ".layers"  # folder of the scripts, from the repository root
# An older pip, conda and uv know only certificates of their own; the system's hold the network's own too.
TRUST = (
    "system=/etc/ssl/certs/ca-certificates.crt",
    'if [ -f "$system" ]; then',
    '  export PIP_CERT="${PIP_CERT:-$system}" SSL_CERT_FILE="${SSL_CERT_FILE:-$system}"',
    '  export REQUESTS_CA_BUNDLE="${REQUESTS_CA_BUNDLE:-$system}"',
    "fi",
)
CURRENT = ".envs/current"  # the one environment of an image, whatever its name, so that PATH can hold it


def write(request: InstallRequest, environ: Mapping[str, str], target: Path, root: Path = ROOT) -> InstallPlan:
    """Write `target`/torch and `target`/packages; the plan they came from. LabError for what a user can mend."""
    refuse_logins(request.settings)
    plan = _plan(request, environ, root)
    try:
        for name, steps in layers(plan).items():
            _put(target / name / SCRIPTS / f"{name}.sh", script(name, steps))
            for step in steps:
                _put_inputs(step, target / name, request, root)
        _put_links(target / LAYERS[0], plan, environ)
    except OSError as error:
        raise unwritable(target, error) from error
    return plan


def layers(plan: InstallPlan) -> dict[str, tuple[InstallStep, ...]]:
    """The steps of each layer; those that come before (the gate) and after (register and on) are in none."""
    closing = [step.id for step in plan.steps].index("register")
    steps = plan.steps[1:closing]
    first = tuple(step for step in steps if step.id in FIRST_LAYER)
    return {"torch": first, "packages": tuple(step for step in steps if step not in first)}


def script(name: str, steps: Iterable[InstallStep]) -> str:
    """A layer as a POSIX shell script, to be run from the repository root."""
    lines = ["#!/bin/sh", f"# The {name} layer of an image, as the installer planned it.", "set -eu", *TRUST]
    for step in steps:
        lines += ["", f"# {step.id}: {step.reason}", *_commands(step)]
    return "\n".join(lines) + "\n"


def _plan(request: InstallRequest, environ: Mapping[str, str], root: Path) -> InstallPlan:
    profile = registry.load(root).get(request.profile)
    facts = planning_facts.gather(profile, request, environ, root, paper=False)
    backend = planning.commands_of(profile, request, facts).backend
    if backend != "conda" and facts.interpreter is None:
        raise planning_facts.no_interpreter(profile)
    python = planning.python_version(profile, request, facts, backend)
    return planning.plan(profile, request, planning_facts.with_torch(facts, _torch(profile, request, python, root)))


def _commands(step: InstallStep) -> list[str]:
    """The step's command with its variables; pip is unpacked before the step that starts it from its own wheel."""
    unset = [part for name, value in step.env.items() if value is None for part in ("-u", name)]
    given = [f"{name}={value}" for name, value in step.env.items() if value is not None]
    command = shlex.join(["env", *unset, *given, *step.argv])
    folder = _pip_folder(step)
    if folder is None or f"{folder}/pip" not in step.argv:
        return [command]
    quoted = shlex.quote(folder)
    return [
        f"{shlex.quote(step.argv[0])} -m zipfile -e {quoted}/pip-*.whl {quoted}",
        f"rm -rf {quoted}/pip-*.dist-info  # beside its metadata it would find itself installed",
        command,
        f"rm -rf {quoted}/pip",
    ]


def _pip_folder(step: InstallStep) -> str | None:
    """The folder of pip's own wheel, which the command names by its last --find-links; None for most steps."""
    places = [step.argv[at + 1] for at, part in enumerate(step.argv) if part == "--find-links"]
    return places[-1] if step.before else None


def _torch(profile: Profile, request: InstallRequest, python: str, root: Path) -> TorchChoice | None:
    """A wheel folder's torch where one was given, else the torch file's own pin."""
    pin = profile.torch
    if pin is None:
        return None
    places = torch_wheel.sources(pin, request.settings)
    preferred = planning_facts.pinned_by_file(profile, requirement_text.flatten(profile, root), python)
    try:
        folders = Sources(places.find_links, places.index, offline=True)
        return torch_wheel.choose(pin, python, host_facts.system(), folders, preferred=preferred, also=profile.python)
    except LabError:
        if preferred is None or places.offline:
            raise
    return torch_wheel.assumed(pin, places, preferred)


def _put_inputs(step: InstallStep, folder: Path, request: InstallRequest, root: Path) -> None:
    """What the step's command reads, at the same places below `folder`."""
    for path, text in step.writes.items():
        _put(folder / path, text)
    if place := _pip_folder(step):
        (folder / place).mkdir(parents=True, exist_ok=True)
        wheel = indexes.pip_wheel(folder / place, request.settings)
        if wheel.parent != folder / place:
            shutil.copy(wheel, folder / place)
    for option, value in zip(step.argv, step.argv[1:], strict=False):
        if option in ("-r", "-c") and value.startswith("requirements/"):
            for name in requirement_text.files_of(value.removeprefix("requirements/"), root):
                text = (root / "requirements" / name).read_text(encoding="utf-8")
                _put(folder / "requirements" / name, _without_comments(text))
        elif option == "-f":
            _put(folder / value, (root / value).read_text(encoding="utf-8"))


def _put_links(folder: Path, plan: InstallPlan, environ: Mapping[str, str]) -> None:
    """Lead from `.envs/current` to the environment that the layer will make; conda's lies elsewhere and is linked."""
    envs = (folder / CURRENT).parent
    envs.mkdir(parents=True, exist_ok=True)
    links: dict[str, str | Path] = {Path(CURRENT).name: plan.environment}
    if plan.backend == "conda":
        conda = shutil.which("conda", path=environ.get("PATH")) or "conda"
        links[plan.environment] = planning_facts.conda_prefix(conda, plan.environment, environ)
    for name, place in links.items():
        (envs / name).unlink(missing_ok=True)
        (envs / name).symlink_to(place)


def _without_comments(text: str) -> str:
    return "".join(f"{line}\n" for _, line in requirement_text.logical_lines(text))


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def refuse_logins(settings: IndexSettings) -> None:
    """LabError for an address that holds a login: what an image is made from can be read by whoever has the image."""
    for address in filter(None, (settings.index_url, settings.torch_index, *settings.find_links)):
        if without_credentials(address) != address:
            raise LabError(
                wanted="an address without a login: layers and build arguments stay in the image",
                found=without_credentials(address),
                next="give a mirror that asks for none, or a folder of wheels (python -m pip download -d DIR -r FILE) "
                "with --find-links DIR",
                where="--index-url, --torch-index, --find-links",
            )

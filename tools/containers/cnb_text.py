"""`.cnb.yml`, rendered from the registry: the workspaces, the checks, and one pipeline for the image of each profile.

CNB takes in `by` the files that a build may see, one by one, so the list is made here. It is the environment side: what
an image needs to be built, and no experiment, so that a workspace's image stays the same while experiments change.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tools.containers import naming
from tools.containers.image_text import CPU, GPU, filled, kind_of
from tools.environments.model import Profile
from tools.environments.profile_session import OWN_COMMANDS
from tools.environments.registry import requirement_text
from tools.environments.registry.registry import Registry

PATH = ".cnb.yml"
SMOKE = "TRAIN-CPU"
WORKSPACE_PACKAGES = "git openssh-server"  # what CNB needs in an image to open it in an editor
CHECKS_IMAGE = "python:3.12.12-bookworm"  # with git, which the tests need
ENVIRONMENT_SIDE = (
    "cnb/*.yml",
    "cnb/*.sh",
    "requirements/**/*",
    "tools/*.py",
    "tools/*.sh",
    "tools/environments/**/*.py",
)
RENDERED = (CPU.conda_file, GPU.conda_file)  # in the list also where they are still to be written
BESIDE = (*RENDERED, ".dockerignore", ".ide/certificates/README.md", "experiments/__init__.py")
VERSION = ("requirements/**/*", "cnb/*.yml")


def files(registry: Registry, root: Path) -> dict[Path, str]:
    """Path and text of the rendered file."""
    smoke = registry.profiles[SMOKE]
    profiles = registry.profiles.values()
    values = {
        "FILES": _items(named(root, ENVIRONMENT_SIDE, BESIDE)),
        "VERSION_FILES": _items(named(root, VERSION, RENDERED)),
        "CHECKS_IMAGE": CHECKS_IMAGE,
        "SMOKE_PROFILE": smoke.id,
        "SMOKE_EXPERIMENT": next(name for name in smoke.experiments if name not in OWN_COMMANDS),
        "CPU_PROFILE": CPU.profile,
        "CPU_DOCKERFILE": CPU.dockerfile,
        "GPU_PROFILE": GPU.profile,
        "GPU_DOCKERFILE": GPU.dockerfile,
        "WORKSPACE_PACKAGES": WORKSPACE_PACKAGES,
        "GPU_PACKAGES": f"{GPU.system_packages} {WORKSPACE_PACKAGES}",
        "CPU_IMAGES": _pipelines((p for p in profiles if p.gpu is None), root, only_changes=True),
        "ALL_IMAGES": _pipelines(profiles, root, only_changes=False),
    }
    return {root / PATH: filled("cnb.yml.in", values)}


def named(root: Path, patterns: Iterable[str], beside: Iterable[str] = ()) -> list[str]:
    """The files that the patterns match, from the root, sorted; caches are none of them."""
    found = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    kept = (path.relative_to(root).as_posix() for path in found if "__pycache__" not in path.parts)
    return sorted({*kept, *beside})


def _items(names: Iterable[str]) -> str:
    return "\n".join(f"  - {name}" for name in names)


def _pipelines(profiles: Iterable[Profile], root: Path, *, only_changes: bool) -> str:
    return "\n".join(_pipeline(profile, root, only_changes=only_changes) for profile in profiles)


def _pipeline(profile: Profile, root: Path, *, only_changes: bool) -> str:
    tag = profile.id.lower()
    image = f"$CNB_DOCKER_REGISTRY/$CNB_REPO_SLUG_LOWERCASE/{naming.REPOSITORY}:{tag}"
    arguments = {
        "PROFILE": profile.id,
        "REQUIREMENT_DIGEST": requirement_text.digest(profile, root),
        "COMMIT": "$CNB_COMMIT",
    }
    given = " ".join(f"--build-arg {name}={value}" for name, value in arguments.items())
    build = f"docker build -f {kind_of(profile).dockerfile} {given} -t {image} ."
    check = f"docker run --rm {image} python tools/environment_preflight.py --profile {profile.id}"
    lines = [f"    - name: image {profile.id}"]
    lines += ["      ifModify: *image_changes"] if only_changes else []
    lines += [
        "      services:",
        "        - docker",
        "      stages:",
        "        - name: build",
        f"          script: {build}",
    ]
    if profile.gpu is None:
        lines += ["        - name: preflight", f"          script: {check}"]
    lines += ["        - name: push", f"          script: docker push {image}"]
    return "\n".join(lines)

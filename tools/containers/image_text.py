"""The files an image is built from, rendered from the registry: two Dockerfiles and conda's two environment files.

`invoke assets.sync` writes them and `invoke assets.check` finds drift, as with the generated pages of the documents.
The two Dockerfiles come from one template, so that they differ in nothing but what a GPU asks for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.environments.model import Profile
from tools.environments.registry.registry import Registry

TEMPLATES = Path(__file__).resolve().parent
# Debian 12 with Python and nothing else. The version is pinned to its last digit; a digest would pin one architecture.
BASE_IMAGE = "python:3.12.12-slim-bookworm"
_MARK = re.compile(r"@([A-Z_]+)@")


@dataclass(frozen=True, slots=True)
class ImageKind:
    """One of the two sorts of image: with a GPU or without."""

    name: str  # "cpu", "gpu": as `invoke image.build` spells it
    dockerfile: str
    conda_file: str
    profile: str  # what is built when nothing is said
    example: str  # another profile it can be built for
    system_packages: str  # Debian packages the base lacks
    environment: Mapping[str, str]  # variables of the image


CPU = ImageKind("cpu", ".ide/Dockerfile", "cnb/environment.yml", "BASE-CPU", "TRAIN-CPU", "", {})
GPU = ImageKind(
    "gpu",
    ".ide/Dockerfile.gpu",
    "cnb/environment-gpu.yml",
    "TRAIN-CUDA-MECHANISM",
    "TRAIN-CUDA130-MECHANISM",
    "gcc libc6-dev",  # Triton compiles a launcher for each kernel, on first use
    # NVIDIA's container runtime reads these; the driver itself comes from the host.
    {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"},
)
KINDS = (CPU, GPU)


def kind_of(profile: Profile) -> ImageKind:
    """The sort of image a profile gets."""
    return CPU if profile.gpu is None else GPU


def files(registry: Registry, root: Path) -> dict[Path, str]:
    """Path and text of every rendered file."""
    rendered: dict[Path, str] = {}
    for kind in KINDS:
        rendered[root / kind.dockerfile] = dockerfile(kind, registry)
        rendered[root / kind.conda_file] = conda_file(kind, registry)
    return rendered


def dockerfile(kind: ImageKind, registry: Registry) -> str:
    """The text of one Dockerfile."""
    more = "".join(f" \\\n    {name}={value}" for name, value in kind.environment.items())
    values = {
        "KIND": kind.name,
        "FILE": kind.dockerfile,
        "PROFILE": kind.profile,
        "EXAMPLE": kind.example,
        "EXAMPLE_TAG": kind.example.lower(),
        "BASE_IMAGE": BASE_IMAGE,
        "SYSTEM_PACKAGES": kind.system_packages,
        "GPU_ENVIRONMENT": more,
        "REGISTRY_DIGEST": registry.digest,
    }
    return filled("Dockerfile.in", values)


def conda_file(kind: ImageKind, registry: Registry) -> str:
    """What conda creates an image's environment from, where the base has conda: Python and pip, and isolation."""
    profile = registry.profiles[kind.profile]
    values = {"ENVIRONMENT": profile.environment, "PYTHON": profile.python[-1], "PROFILE": profile.id}
    values["FILE"] = Path(kind.conda_file).name
    return filled("environment.yml.in", values)


def filled(template: str, values: Mapping[str, str]) -> str:
    """A template with each @NAME@ replaced. KeyError for a name without a value."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    return _MARK.sub(lambda found: values[found[1]], text)

"""The values everything else passes around: a profile, what was found on a machine, a check's answer, a plan.

All of them are frozen: planning, checking and rendering are functions from these to these, and effects stand elsewhere.
Sizes are in GiB (2**30 bytes) unless a name says otherwise. Missing is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["ok", "warning", "blocked", "skipped"]
Layer = Literal["cpu", "delivery", "cuda", "serving"]
Backend = Literal["conda", "uv", "venv"]

STATUS_ORDER: tuple[Status, ...] = ("skipped", "ok", "warning", "blocked")


@dataclass(frozen=True, slots=True)
class TorchPin:
    """Which torch a profile takes: `specifier` bounds the public version, `build` is the local part that follows.

    `cuda` is what `torch.version.cuda` must answer, None for a CPU build. `index` is the PyTorch index for this build.
    """

    specifier: str  # ">=2.11,<2.14" for CPU profiles, "==2.11.0" for CUDA ones
    build: str  # "cpu", "cu128", "cu129", "cu130"
    cuda: str | None  # "12.8"
    index: str  # "https://download.pytorch.org/whl/cu128"


@dataclass(frozen=True, slots=True)
class GpuGate:
    """What a profile asks of NVIDIA cards. `memory_gib` is the nominal class: a value up to 8 % lower passes."""

    count: int
    memory_gib: float
    driver_floor: str  # below this the wheel does not start
    driver_native: str  # below this, and above the floor, features are limited: a warning
    compute_capability: str  # lowest the build carries code for, "7.5"


@dataclass(frozen=True, slots=True)
class HostGate:
    """What a profile asks of the machine, and what it costs. Sizes are registry facts, shown before any download."""

    systems: tuple[str, ...]  # "linux-x86_64", "linux-aarch64", "darwin-arm64"
    memory_gib: float  # advised; less is a warning
    download_gib: float
    disk_gib: float  # needed for the environment; less free is blocked
    minutes: str  # "2-4"


@dataclass(frozen=True, slots=True)
class Docs:
    """Where a profile's reader goes: paths from the repository root, anchors allowed."""

    quickstart: str
    assets: str


@dataclass(frozen=True, slots=True)
class Profile:
    """One entry of requirements/environment-profiles.json after `extends` is applied."""

    id: str
    layer: Layer
    title: str  # one line for the head of a session: "PyTorch, Transformers, Accelerate on CPU"
    title_zh: str
    purpose: str
    purpose_zh: str
    python: tuple[str, ...]  # ("3.11", "3.12")
    torch: TorchPin | None
    requirements: tuple[str, ...]  # files under requirements/, in install order, torch file first
    constraints: tuple[str, ...]
    required_modules: tuple[str, ...]  # import names preflight must find
    forbidden: tuple[str, ...]  # distribution names that may not be present; derived from the isolation table
    gpu: GpuGate | None
    host: HostGate
    environment: str  # default environment name
    dtypes: tuple[str, ...]  # operations the profile claims: "float32", "tf32", "float16", "bfloat16"
    experiments: tuple[str, ...]  # folder names under experiments/<topic>/
    tags: tuple[str, ...]  # "cpu", "cuda", "serving", "multi-gpu"
    docs: Docs
    topic: str = ""  # key of the registry's topics: "training_mechanism"
    capabilities: tuple[str, ...] = ()  # families of the isolation table it holds: "torch", "cuda", "quantization"
    judgements: tuple[str, ...] = ()  # what a delivery profile judges instead of running experiments
    companion_of: str = ""  # of a derived profile: its parent, for which its results never count


@dataclass(frozen=True, slots=True)
class Check:
    """One question and its answer. `repair` is a command or sentence to paste; empty when nothing is wrong."""

    id: str  # dotted, stable: "torch.build", "python.path"
    status: Status
    wanted: str
    found: str
    repair: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All checks of one preflight, in order. `status` is the worst of those that apply; skipped ones do not count."""

    profile: str
    registry_digest: str
    checks: tuple[Check, ...]
    accepted: tuple[str, ...] = ()  # ids of warnings the user accepted by name: they show as limits of a record

    @property
    def status(self) -> Status:
        """`ok`, `warning` or `blocked`. A report in which nothing applies is `ok`."""
        worst = max((STATUS_ORDER.index(check.status) for check in self.checks if not self._accepted(check)), default=1)
        return STATUS_ORDER[max(worst, 1)]

    def _accepted(self, check: Check) -> bool:
        return check.status == "warning" and check.id in self.accepted


@dataclass(frozen=True, slots=True)
class InstallStep:
    """One thing an install does. `argv` is run as it stands; a step without argv is done in-process by its `id`."""

    id: str  # "gate", "create", "pip", "torch", "training-mechanism", "register", "pip-check", "preflight", "stamp"
    reason: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict)  # None: unset
    before: str = ""  # what is done in-process before argv runs
    writes: Mapping[str, str] = field(default_factory=dict)  # path -> text written before argv runs


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """What installing a profile would do, in order. `--dry-run` prints exactly this."""

    profile: str
    backend: Backend
    environment: str  # name
    prefix: str  # folder, or "" where conda chooses it
    steps: tuple[InstallStep, ...]
    python: str = ""  # version the environment gets: "3.11.7", or "3.12" where conda supplies it
    torch: str | None = None  # "2.13.0+cpu"; None for a profile without torch
    notes: tuple[str, ...] = ()  # what a reader of the plan should know, such as a tool that is not on this machine

"""What this machine is: system, interpreter version, cores, memory, free disk, container, and its NVIDIA cards.

One gathering function, standard library only; everything judged from it is judged elsewhere (`host_gate`, `checks`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.environments.layout import ENVS
from tools.environments.machine import gpu_facts
from tools.environments.machine.gpu_facts import GIB, GpuFacts

UNLIMITED = 2**60  # cgroup v1 writes a number near 2**63 for "no limit"


@dataclass(frozen=True, slots=True)
class Disk:
    """Free space for an unprivileged user on the file system that holds (or will hold) `path`."""

    path: str
    free_gib: float | None


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One machine at one moment. `gpu` is None when nobody asked; a machine without cards has `gpu.cards == ()`."""

    system: str  # "linux-x86_64", "darwin-arm64"; a musl libc adds "-musl"
    python: str  # "3.11.7"
    cores: int
    memory_gib: float | None  # the smaller of the machine's memory and the container's limit
    disk: Disk
    container: str | None  # "docker", "podman", or another runtime's own word
    wsl: bool
    gpu: GpuFacts | None


def gather(*, time_limit_s: float = 5.0, disk_at: Path = ENVS, gpu: bool = True) -> HostFacts:
    """Look at this machine. Waits for the GPU driver at most `time_limit_s`; never raises for what it finds."""
    return HostFacts(
        system=system(),
        python=".".join(str(part) for part in sys.version_info[:3]),
        cores=cores(),
        memory_gib=memory_gib(),
        disk=disk(disk_at),
        container=container(os.environ),
        wsl=bool(os.environ.get("WSL_DISTRO_NAME")) or os.path.exists("/proc/sys/fs/binfmt_misc/WSLInterop"),
        gpu=gpu_facts.gather(time_limit_s=time_limit_s) if gpu else None,
    )


def system() -> str:
    """`<kernel>-<machine>` in lower case, as the registry writes it."""
    if not hasattr(os, "uname"):
        return sys.platform
    name = os.uname()
    found = f"{name.sysname.lower()}-{name.machine}"
    return f"{found}-musl" if found.startswith("linux") and not _glibc() else found


def _glibc() -> bool:
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (AttributeError, ValueError, OSError):  # musl knows no such name
        return False


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_gib(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Memory a process here can have: the machine's, or the container's limit where that is smaller."""
    sizes = [size for size in (_machine_bytes(proc), *_cgroup_limits(cgroup)) if size]
    return round(min(sizes) / GIB, 2) if sizes else None


def _machine_bytes(proc: Path) -> int | None:
    try:
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _cgroup_limits(cgroup: Path) -> list[int]:
    found = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            limit = int((cgroup / name).read_text())  # version 2 writes "max" for no limit
        except (OSError, ValueError):
            continue
        if 0 < limit < UNLIMITED:
            found.append(limit)
    return found


def disk(path: Path) -> Disk:
    """Free space where `path` is, or would be: the nearest parent that exists is asked."""
    for place in (path, *path.parents):
        try:
            space = os.statvfs(place)
        except OSError:
            continue
        return Disk(str(path), round(space.f_bavail * space.f_frsize / GIB, 2))
    return Disk(str(path), None)


def container(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """The container runtime this process is in, None outside one. A virtual machine is not a container."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    return environ.get("container") or ("kubernetes" if "KUBERNETES_SERVICE_HOST" in environ else None)

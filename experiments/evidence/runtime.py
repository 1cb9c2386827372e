"""The machine and the software a run really had: collected, never assumed, and free of anything private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from experiments.evidence.vocabulary import Bytes, Count, Digest, Duration, Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Clocks as they were found when the run began. Nobody sets them: they are read and written down."""

    sm_mhz: Count | None = None
    sm_max_mhz: Count | None = None
    memory_mhz: Count | None = None
    power_limit_w: Duration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator. The memory cap is part of it: under a cap a card is small in memory, not in speed."""

    index: Count
    name: Name
    memory_bytes: Bytes | None = None
    compute_capability: Annotated[str | None, "major.minor"] = None
    uuid_hash: Annotated[Digest | None, "hash of the card's UUID: tells two cards apart, names neither"] = None
    memory_cap_gib: Annotated[Duration | None, "cap set for the run, CUDA context included; null when uncapped"] = None
    other_processes: Annotated[Count | None, "processes of others on the card when the run began"] = None
    clocks: Clocks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The container image, or why there is none to name."""

    digest: Digest | None = None
    reason: Annotated[str | None, "why the digest is null: not in a container, or the image does not tell"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine under it all, as far as it can be told without naming it."""

    system: Annotated[Name, "Linux, Darwin"]
    release: Annotated[str, "kernel release"]
    machine: Annotated[Name, "x86_64, aarch64, arm64"]
    libc: str | None = None
    cpu: Annotated[str | None, "CPU model"] = None
    cores: Annotated[Count | None, "cores this process may use"] = None
    memory_bytes: Bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """Thread counts in force while measuring."""

    intra_op: Count | None = None
    inter_op: Count | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Somebody else's implementation, loaded from a path for comparison and never installed here."""

    name: Name
    version: str | None = None
    digest: Annotated[Digest | None, "digest of the file that was loaded"] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSnapshot:
    """Everything under the experiment at the moment it ran."""

    host: Host
    image: Image
    python: Name
    torch: Annotated[str | None, "torch.__version__ with its local part"] = None
    torch_cuda: Annotated[str | None, "torch.version.cuda; null for a CPU build"] = None
    cudnn: str | None = None
    driver: str | None = None
    devices: Annotated[tuple[Device, ...], "cards the run used; empty on CPU"] = ()
    packages: Annotated[Mapping[str, str], "versions of the key packages"]
    environment: Annotated[Mapping[str, str], "variables of the allow-list that were set"]
    threads: Threads
    peers: tuple[Peer, ...] = ()

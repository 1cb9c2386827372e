"""Which NVIDIA cards and driver this machine has: NVML in a time-limited child, else `nvidia-smi`, else none.

Everything the driver can do wrong (absent, refusing, hanging, answering nonsense) becomes `GpuFacts.problem`; nothing
here raises for it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import subprocess

GIB = 2**30
NVML_COMMAND = (sys.executable, "-I", "-S", str(Path(__file__).with_name("gpu_query.py")))
SMI_FIELDS = ("name", "memory.total", "compute_cap", "uuid", "driver_version")
SMI_COMMAND = ("nvidia-smi", f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader,nounits")
POLL_S = 0.002


@dataclass(frozen=True, slots=True)
class Card:
    """One card as the driver reports it; `uuid` is a digest, never the number itself."""

    name: str
    memory_gib: float
    capability: str  # "9.0"
    uuid: str


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """Driver and cards. `problem` says why there are none, in words a user can act on; None where there are cards."""

    source: Literal["nvml", "nvidia-smi", "none"]
    driver: str | None = None  # "580.65.06"
    cuda: str | None = None  # highest CUDA the driver serves, "13.0"; nvidia-smi's query does not tell it
    cards: tuple[Card, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    code: int
    out: str
    err: str


def gather(
    *,
    time_limit_s: float = 5.0,
    nvml: Sequence[str] = NVML_COMMAND,
    smi: Sequence[str] = SMI_COMMAND,
) -> GpuFacts:
    """Ask the driver once. Takes at most about `time_limit_s`, also when the driver never answers."""
    try:
        facts = _from_nvml(_run(nvml, time_limit_s))
        return facts or _from_smi(_run(smi, time_limit_s))
    except TimeoutError:
        return GpuFacts("none", problem=f"the driver did not answer within {time_limit_s:g} s")


def _run(argv: Sequence[str], time_limit_s: float) -> _Answer | None:
    """The finished command's answer, None where it cannot be started; TimeoutError when it does not end."""
    import subprocess
    import tempfile

    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, errors="replace", start_new_session=True
            )
        except OSError:
            return None
        deadline = time.monotonic() + time_limit_s
        while child.poll() is None:
            if time.monotonic() > deadline:
                _abandon(child)
                raise TimeoutError
            time.sleep(POLL_S)
        out.seek(0)
        err.seek(0)
        return _Answer(child.returncode, out.read(), err.read())


def _abandon(child: subprocess.Popen[str]) -> None:
    """Kill the child and what it started; a call stuck inside the kernel survives even that and is left behind."""
    import contextlib
    import signal
    import subprocess

    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(0.5)


def _from_nvml(answer: _Answer | None) -> GpuFacts | None:
    """None where NVML says nothing usable and nvidia-smi should be asked instead."""
    try:
        data: Any = json.loads(answer.out) if answer else None
        if not isinstance(data, dict) or "missing" in data:
            return None
        if "error" in data:
            return GpuFacts("nvml", problem=f"NVML: {data['error']}")
        cards = tuple(
            Card(str(card["name"]), round(card["memory_bytes"] / GIB, 2), str(card["capability"]), str(card["uuid"]))
            for card in data["cards"]
        )
        return GpuFacts("nvml", str(data["driver"]), str(data["cuda"]), cards, None if cards else _absent())
    except (ValueError, KeyError, TypeError):
        return None


def _from_smi(answer: _Answer | None) -> GpuFacts:
    if answer is None:
        return GpuFacts("none", problem=_absent())
    if answer.code != 0:
        words = (answer.out.strip() or answer.err.strip() or f"exit code {answer.code}").splitlines()[0]
        return GpuFacts("nvidia-smi", problem=f"nvidia-smi: {words}")
    cards: list[Card] = []
    driver: str | None = None
    for line in answer.out.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != len(SMI_FIELDS):
            continue
        name, memory_mib, capability, uuid, driver = parts
        try:
            cards.append(Card(name, round(float(memory_mib) / 1024, 2), capability, _digest(uuid)))
        except ValueError:  # "[N/A]" on cards that do not report memory
            continue
    return GpuFacts("nvidia-smi", driver, None, tuple(cards), None if cards else "nvidia-smi lists no card")


def _digest(uuid: str) -> str:
    import hashlib

    return hashlib.sha256(uuid.encode()).hexdigest()[:16]


def _absent() -> str:
    node = "/dev/nvidia0 is there" if os.path.exists("/dev/nvidia0") else "no /dev/nvidia0"
    return f"none (no NVML library, {node})"

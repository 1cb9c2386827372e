"""Collect the runtime snapshot of a run: host, image, packages, allow-listed variables. Imports no torch.

What only torch or the driver can tell (build, devices, threads) is passed in by whoever asked it in a child process.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from experiments.evidence.runtime import Device, Host, Image, Peer, RuntimeSnapshot, Threads
from tools.environments.machine import host_facts

KEY_PACKAGES = (
    "accelerate",
    "datasets",
    "huggingface-hub",
    "jsonschema",
    "numpy",
    "nvidia-ml-py",
    "peft",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
    "triton",
    "trl",
    "vllm",
)
# Variables that change what is measured. Their values are kept only where they look like settings, never like texts.
VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "HF_HUB_OFFLINE",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MALLOC_ARENA_MAX",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "PYTHONHASHSEED",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TOKENIZERS_PARALLELISM",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TRANSFORMERS_OFFLINE",
)
HARMLESS = re.compile(r"[A-Za-z0-9_,:.=\-\[\] ]{0,100}")
CARD_NUMBER = re.compile(r"(GPU|MIG)-[0-9a-fA-F]")
WITHHELD = "set, value withheld"
IMAGE_VARIABLE = "TMLAB_IMAGE_DIGEST"  # whoever starts the container knows the image; what runs inside cannot
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def collect(
    *,
    torch: str | None = None,
    torch_cuda: str | None = None,
    cudnn: str | None = None,
    driver: str | None = None,
    devices: Sequence[Device] = (),
    threads: Threads = Threads(),  # noqa: B008 - frozen
    peers: Sequence[Peer] = (),
    environ: Mapping[str, str] = os.environ,
) -> RuntimeSnapshot:
    """The snapshot of this machine and this interpreter now. Without `torch` its version comes from its metadata."""
    packages = installed()
    return RuntimeSnapshot(
        host=host(),
        image=image(environ),
        python=platform.python_version(),
        torch=torch if torch is not None else packages.get("torch"),
        torch_cuda=torch_cuda,
        cudnn=cudnn,
        driver=driver,
        devices=tuple(devices),
        packages=packages,
        environment=variables(environ),
        threads=threads,
        peers=tuple(peers),
    )


def host() -> Host:
    """The machine, without its name."""
    memory = host_facts.memory_gib()
    return Host(
        system=platform.system() or "unknown",
        release=platform.release(),
        machine=platform.machine() or "unknown",
        libc=" ".join(filter(None, platform.libc_ver())) or None,
        cpu=cpu_model(),
        cores=host_facts.cores(),
        memory_bytes=None if memory is None else round(memory * 2**30),
    )


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """The CPU's own name, None where the system does not tell."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or None
    found = re.search(r"^model name\s*:\s*(\S.*?)\s*$", text, re.MULTILINE)
    return found[1] if found else None


def image(environ: Mapping[str, str] = os.environ) -> Image:
    """The container image's digest, or why it is not known."""
    given = environ.get(IMAGE_VARIABLE, "")
    if DIGEST.fullmatch(given):
        return Image(digest=given)
    runtime = host_facts.container(environ)
    if runtime is None:
        return Image(reason="not in a container")
    return Image(reason=f"in a container ({runtime}) that was started without {IMAGE_VARIABLE}")


def variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The allow-listed variables that are set; a value that is not plainly a setting is withheld."""
    found = {}
    for name in VARIABLES:
        value = environ.get(name)
        if value is not None:
            plain = HARMLESS.fullmatch(value) and not CARD_NUMBER.search(value)
            found[name] = value if plain else WITHHELD
    return found


def installed() -> dict[str, str]:
    """Versions of the key packages that are installed here, by metadata alone."""
    found = {}
    for name in KEY_PACKAGES:
        try:
            found[name] = metadata.version(name)
        except (metadata.PackageNotFoundError, KeyError, ValueError, OSError):  # absent, or its metadata is broken
            continue
    return found

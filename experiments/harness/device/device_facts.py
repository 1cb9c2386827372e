"""The facts task: what torch and NVML say of the device, asked in a forked child: the parent never touches it."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from experiments.evidence.codec import to_json
from experiments.evidence.digests import digest_of_text
from experiments.evidence.runtime import Clocks, Device
from experiments.evidence.vocabulary import JsonValue
from experiments.harness.device import nvml
from experiments.harness.experiment import DeviceFacts, DeviceKind


def gather(kind: DeviceKind, cap_gib: float | None) -> Mapping[str, JsonValue]:
    """`DeviceFacts` as JSON. Raises RuntimeError when a card is wanted and torch has none."""
    facts = _cuda(cap_gib) if kind == "cuda" else _cpu()
    written: Mapping[str, JsonValue] = to_json(facts, "device")
    return written


def _cpu() -> DeviceFacts:
    return DeviceFacts(
        kind="cpu", torch=torch.__version__, torch_cuda=torch.version.cuda, bf16_native=_bf16_on_cpu(), tf32=False
    )


def _bf16_on_cpu() -> bool:
    try:
        left = torch.ones(2, 2, dtype=torch.bfloat16)
        return bool(torch.isfinite(left @ left).all())
    except RuntimeError:
        return False


def _cuda(cap_gib: float | None) -> DeviceFacts:
    others, before = nvml.other_processes(), nvml.used_bytes()
    if not torch.cuda.is_available():
        raise RuntimeError("torch.cuda.is_available() is False")
    torch.ones(2, 2, device="cuda").mul_(2)  # a real kernel: a build without code for this card fails here, not later
    torch.cuda.synchronize()
    after = nvml.used_bytes()
    properties = torch.cuda.get_device_properties(0)
    capability = (properties.major, properties.minor)
    cudnn = torch.backends.cudnn.version()
    context = None
    if before is not None and after is not None and after > before:
        context = after - before - torch.cuda.memory_reserved()
    return DeviceFacts(
        kind="cuda",
        torch=torch.__version__,
        torch_cuda=torch.version.cuda,
        cudnn=None if cudnn is None else str(cudnn),
        driver=_driver(),
        bf16_native=capability >= (8, 0) and torch.cuda.is_bf16_supported(including_emulation=False),
        tf32=capability >= (8, 0),
        context_bytes=context if context is not None and context > 0 else None,
        card=Device(
            index=0,
            name=properties.name,
            memory_bytes=properties.total_memory,
            compute_capability=f"{properties.major}.{properties.minor}",
            uuid_hash=digest_of_text(str(properties.uuid)),
            memory_cap_gib=cap_gib,
            other_processes=others,
            clocks=_clocks(),
        ),
    )


def _driver() -> str | None:
    answer = nvml.ask(lambda library, _: library.nvmlSystemGetDriverVersion())
    return answer.decode() if isinstance(answer, bytes) else answer


def _clocks() -> Clocks | None:
    return nvml.ask(
        lambda library, card: Clocks(
            sm_mhz=library.nvmlDeviceGetClockInfo(card, library.NVML_CLOCK_SM),
            sm_max_mhz=library.nvmlDeviceGetMaxClockInfo(card, library.NVML_CLOCK_SM),
            memory_mhz=library.nvmlDeviceGetClockInfo(card, library.NVML_CLOCK_MEM),
            power_limit_w=library.nvmlDeviceGetEnforcedPowerLimit(card) / 1000,
        )
    )

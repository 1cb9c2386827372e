"""Which low precision a page steps in when precision is not its subject: bf16, else fp16 with a scaler, on CPU fp32.

`auto` takes bf16 only where the hardware and PyTorch both report it as native. On CPU it takes fp32: pages that change
where activations live show there that nothing else changes, and fp32 shows that to the last bit.
"""

from __future__ import annotations

from experiments.evidence.vocabulary import JsonValue
from experiments.harness.experiment import DeviceFacts

SETTINGS: dict[str, tuple[str | None, bool, str, str]] = {  # autocast, scaler, fp32 matmul, widest-error format
    "fp32": (None, False, "highest", "float32"),
    "tf32": (None, False, "high", "tf32"),
    "bf16": ("bfloat16", False, "highest", "bfloat16"),
    "fp16": ("float16", True, "highest", "float16"),
}


def chosen(precision: str, device: DeviceFacts) -> tuple[dict[str, JsonValue], str]:
    """Settings (`autocast`, `scaler`, `matmul`) and the dtype whose rounding bounds the gates. KeyError if unknown."""
    if precision == "auto":
        precision = "fp32" if device.kind == "cpu" else "bf16" if device.bf16_native else "fp16"
    autocast, scaler, matmul, dtype = SETTINGS[precision]
    return {"autocast": autocast, "scaler": scaler, "matmul": matmul}, dtype

"""Asks the NVIDIA driver what cards there are, through NVML and ctypes, and prints the answer as one JSON object.

Run as a program by `gpu_facts` in a child of its own, because a sick driver can block a call for ever: a child can be
given a time limit and a process cannot give one to itself. Nothing is imported but the standard library and nothing
of ours, so it also runs under `python -I -S`.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from typing import Any

LIBRARIES = ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1")
SUCCESS = 0
LIBRARY_MISMATCH = 18  # NVML_ERROR_LIB_RM_VERSION_MISMATCH: user-space library and kernel module differ
TEXT_BYTES = 96  # longest of NVML's own buffer sizes (device name v2)


class CardMemory(ctypes.Structure):
    """NVML's nvmlMemory_t: bytes, counted over the whole card."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class RefusedError(Exception):
    """NVML answered with an error code; the text is the driver's own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def load() -> Any:
    """The NVML library of this machine, or None where there is none."""
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def ask(library: Any) -> dict[str, Any]:
    """Driver version, highest CUDA it serves, and each card; raises `RefusedError` with the driver's words.

    Memory is in bytes, as the driver reports it. A card's UUID leaves this function only as a digest.
    """
    library.nvmlErrorString.restype = ctypes.c_char_p
    _call(library, "nvmlInit_v2")
    cuda = ctypes.c_int()
    count = ctypes.c_uint()
    driver = _text(library, "nvmlSystemGetDriverVersion")
    _call(library, "nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(cuda))
    _call(library, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    cards = [_card(library, index) for index in range(count.value)]
    return {"driver": driver, "cuda": f"{cuda.value // 1000}.{cuda.value % 1000 // 10}", "cards": cards}


def _card(library: Any, index: int) -> dict[str, Any]:
    handle = ctypes.c_void_p()
    major, minor = ctypes.c_int(), ctypes.c_int()
    memory = CardMemory()
    _call(library, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
    _call(library, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    _call(library, "nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
    return {
        "name": _text(library, "nvmlDeviceGetName", handle),
        "memory_bytes": memory.total,
        "capability": f"{major.value}.{minor.value}",
        "uuid": hashlib.sha256(_text(library, "nvmlDeviceGetUUID", handle).encode()).hexdigest()[:16],
    }


def _call(library: Any, function: str, *arguments: Any) -> None:
    code = int(getattr(library, function)(*arguments))
    if code != SUCCESS:
        raise RefusedError(
            code, (library.nvmlErrorString(code) or b"").decode(errors="replace") or f"NVML error {code}"
        )


def _text(library: Any, function: str, *arguments: Any) -> str:
    buffer = ctypes.create_string_buffer(TEXT_BYTES)
    _call(library, function, *arguments, buffer, ctypes.c_uint(TEXT_BYTES))
    return buffer.value.decode(errors="replace")


def main() -> None:
    """Print one JSON object: the facts, or `error` and `code`, or `missing` where no library is found."""
    library = load()
    if library is None:
        answer: dict[str, Any] = {"missing": True}
    else:
        try:
            answer = ask(library)
        except RefusedError as refusal:
            answer = {"error": str(refusal), "code": refusal.code}
        except AttributeError as absent:  # an NVML older than the functions asked for
            answer = {"error": f"NVML is too old: {absent}", "code": -1}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()

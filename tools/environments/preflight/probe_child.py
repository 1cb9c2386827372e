"""The child that really imports: each step is announced before it runs and answered after, as JSON lines on a pipe.

Started by `child_probe` with a file descriptor to answer on, so that whatever the imported packages print stays out of
the answers. It ends by os._exit, which spares the 0.3 s that taking down an interpreter with torch in it costs. When it
dies in the middle, the last announced step is the one that killed it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
from typing import Any

# jsonschema imports this only to offer one string format, compiling a grammar for 1 s; without it jsonschema is whole.
SKIPPED_OPTIONAL = ("rfc3987_syntax",)
SIDE = 16  # of the square matrices multiplied; with every element 0.5 all results are exact in every dtype


def main(spec: dict[str, Any]) -> None:
    """Run the steps of `spec` in order; a step that raises is answered as failed and the next one runs."""
    signal.alarm(int(spec["time_limit_s"]) + 5)  # ends this process even inside C code, should the parent be gone
    for name in SKIPPED_OPTIONAL:
        sys.modules[name] = None  # type: ignore[assignment]
    fd = int(spec["fd"])
    for kind, argument in spec["steps"]:
        step = f"{kind} {argument}".rstrip()
        _say(fd, {"step": step})
        try:
            facts: dict[str, Any] = STEPS[kind](argument)
            _say(fd, {"step": step, "ok": True, "facts": facts})
        except BaseException as error:  # an import may raise anything, SystemExit and KeyboardInterrupt too
            _say(fd, {"step": step, "ok": False, "error": f"{type(error).__name__}: {error}"[:500]})
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()  # what packages printed is part of what is told of a child: before the end is told
    _say(fd, {"end": True})


def _say(fd: int, message: dict[str, Any]) -> None:
    os.write(fd, json.dumps(message).encode() + b"\n")


def import_module(name: str) -> dict[str, Any]:
    """Where the module came from."""
    module = importlib.import_module(name)
    return {"file": getattr(module, "__file__", None)}


def torch_facts(wants_cuda: str) -> dict[str, Any]:
    """Version and build of torch; with `wants_cuda`, also what it sees of the cards and why if it sees none."""
    import torch

    # get_arch_list() answers nothing where no card is; the compiled-in flags are there all the same.
    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()
    facts: dict[str, Any] = {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "architectures": (flags or "").split(),
    }
    if wants_cuda:
        facts["cards"] = [list(torch.cuda.get_device_capability(index)) for index in range(torch.cuda.device_count())]
        facts["available"] = torch.cuda.is_available()
        facts["bf16_native"] = facts["available"] and torch.cuda.is_bf16_supported(including_emulation=False)
        if not facts["available"]:
            facts["why"] = _why_not(torch)
    return facts


def _why_not(torch: Any) -> str:
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        if str(error).strip():
            return str(error).strip().splitlines()[0]
    return "no CUDA device is visible"


def operate(argument: str) -> dict[str, Any]:
    """Multiply and differentiate once in `dtype` on `device` ("bfloat16 cuda"), and compare with the exact answer."""
    import torch

    name, device = argument.split()
    if name == "tf32":
        torch.backends.cuda.matmul.allow_tf32 = True
    dtype = torch.float32 if name == "tf32" else getattr(torch, name)
    x = torch.full((SIDE, SIDE), 0.5, dtype=dtype, device=device, requires_grad=True)
    y = x @ x
    y.sum().backward()
    assert x.grad is not None
    product, gradient = y[0, 0].item(), x.grad[0, 0].item()
    if (product, gradient) != (SIDE / 4, float(SIDE)):
        raise ArithmeticError(f"wanted {SIDE / 4}, {float(SIDE)}, got {product}, {gradient}")
    return {}


STEPS = {"import": import_module, "torch-facts": torch_facts, "operate": operate}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    os._exit(0)

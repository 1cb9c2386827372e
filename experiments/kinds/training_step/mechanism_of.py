"""The plain mechanism a candidate's settings name: autocast, scaler, fp32 matmul format, loss head. For worker code."""

from __future__ import annotations

import torch

from experiments.kinds.training_step.program import Mechanism
from experiments.kinds.training_step.worker import WorkerContext

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def plain(context: WorkerContext) -> Mechanism:
    """What every page shares; a page that changes more builds on it with `dataclasses.replace`."""
    settings = context.spec.settings
    torch.set_float32_matmul_precision(str(settings["matmul"]))
    autocast = settings["autocast"]
    return Mechanism(
        autocast=None if autocast is None else DTYPES[str(autocast)],
        scaler=torch.amp.GradScaler(context.facts.kind) if settings["scaler"] else None,
        head=str(settings["head"]),
    )

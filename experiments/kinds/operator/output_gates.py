"""The reference task and the gate task, inside a child: one call, compared with float64 and with the baseline.

Errors are only measured here; whether they pass is for `findings`, in the parent.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from experiments.harness import reference
from experiments.harness.finiteness import finite_or_none
from experiments.harness.launch.outcome import EnterPhase
from experiments.kinds.operator.answers import ExactAnswer, OperatorGateAnswer, OutputDistance
from experiments.kinds.operator.operation import Exact, Operation, OperatorContext
from experiments.kinds.operator.work_counter import count

EXACT, DENSE, CANCELLED = "float64", "dense", "cancelled.txt"
OUTPUT = "output"  # the one tensor of each; kept in float64, which holds every format exactly


def exact(found: Exact, context: OperatorContext, scratch: Path) -> ExactAnswer:
    """Write the float64 output as a reference. Raises ValueError for another shape or dtype, OSError."""
    _refuse_other(found.out, context, torch.float64)
    norm = float(torch.linalg.vector_norm(found.out))
    cancelled = found.terms / norm if norm > 0 else 1.0
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / CANCELLED).write_text(repr(cancelled), encoding="utf-8")
    _keep(found.out, scratch / EXACT)  # last: by it the reference is known to be whole
    return ExactAnswer(cancelled=cancelled)


@torch.no_grad()
def gate(context: OperatorContext, operation: Operation, scratch: Path, enter: EnterPhase) -> OperatorGateAnswer:
    """One call, counted while it runs. The baseline writes its output for the others to be compared with.

    Raises ValueError for an output of another shape or dtype than the workload and the candidate say, and OSError.
    """
    enter("call")
    out, work = count(operation)
    enter("other")
    _refuse_other(out, context, getattr(torch, context.spec.dtype))
    dense: OutputDistance | None = None
    if context.spec.role == "baseline":
        _keep(out, scratch / DENSE)
    else:
        dense = _error(out, scratch / DENSE)
    known = reference.is_whole(scratch / EXACT)
    return OperatorGateAnswer(
        finite=bool(torch.isfinite(out).all()),
        value=_error(out, scratch / EXACT),
        dense=dense,
        cancelled=float((scratch / CANCELLED).read_text(encoding="utf-8")) if known else None,
        work=work,
    )


def _keep(out: Tensor, folder: Path) -> None:
    reference.write(folder, {OUTPUT: out}, torch.float64)


def _error(out: Tensor, folder: Path) -> OutputDistance | None:
    """||out - reference|| / ||reference||, in float64; None without the reference."""
    if not reference.is_whole(folder):
        return None
    wanted = reference.read(folder, OUTPUT, out.shape)
    norm = float(torch.linalg.vector_norm(wanted))
    by_channel = torch.linalg.vector_norm(out.detach().to(device="cpu", dtype=torch.float64) - wanted, dim=0)
    apart = float(torch.linalg.vector_norm(by_channel))
    error = finite_or_none(apart / norm) if norm > 0 else None
    return OutputDistance(error=error, worst_channel=int(torch.argmax(by_channel)))


def _refuse_other(out: Tensor, context: OperatorContext, dtype: torch.dtype) -> None:
    """What is compared entry by entry has to have the same entries, and in float64 nothing would be rounded."""
    wanted = (context.workload.rows, context.workload.out_features)
    if tuple(out.shape) != wanted or out.dtype != dtype:
        raise ValueError(
            f"an output of shape {list(wanted)} in {dtype} is wanted, not {list(out.shape)} in {out.dtype}"
        )

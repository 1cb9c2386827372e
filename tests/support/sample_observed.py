"""Finished candidates and what a run observed, built from a few numbers, for tests of what pages conclude."""

from __future__ import annotations

from typing import Any

from experiments.evidence.candidate import Candidate, Checks, Failure, Gate, Memory, Sample
from experiments.evidence.rules.v1 import summary
from experiments.harness.experiment import DeviceFacts, Observed
from experiments.kinds.training_step.training_workload import TrainingWorkload

CPU = DeviceFacts(kind="cpu", torch="2.13.0+cpu", bf16_native=True, tf32=False)
CARD = DeviceFacts(kind="cuda", torch="2.11.0+cu130", torch_cuda="13.0", bf16_native=True, tf32=True)
OLD_CARD = DeviceFacts(kind="cuda", torch="2.11.0+cu130", torch_cuda="13.0", bf16_native=False, tf32=False)
WORKLOAD = TrainingWorkload(name="w", model="tiny-qwen2", batch=8, sequence=64, steps=3, warmup=1, rounds=2)
GIB = 2**30


def gate(error: float | None, tolerance: float = 1e-2, against: str = "none") -> Gate:
    """A gate that passes as the harness lets it pass."""
    return Gate(passed=error is not None and error <= tolerance, against=against, error=error, tolerance=tolerance)


def candidate(
    name: str,
    role: Any = "candidate",
    *,
    error: float | None = 1e-3,
    step: float | None = None,
    busy: float | None = None,
    peak: float | None = None,
    reserved: float | None = None,
    after: float | None = None,
    **changes: Any,
) -> Candidate:
    """A finished candidate: gradient error, step and busy milliseconds (within 1 %), memory in GiB."""
    taken = () if step is None else _samples(step, busy)
    sizes = {"peak_allocated_bytes": peak, "peak_reserved_bytes": reserved, "after_forward_bytes": after}
    held = {key: None if value is None else int(value * GIB) for key, value in sizes.items()}
    checks = (
        Checks(finite=True)
        if role == "baseline"
        else Checks(finite=True, gates={"gradient": gate(error), "update": gate(error)})
    )
    made: dict[str, Any] = {
        "name": name,
        "role": role,
        "settings": {},
        "status": "ok",
        "samples": taken,
        "summary": summary.summarise(name, taken),
        "memory": None if not any(held.values()) else Memory(**held),
        "checks": checks,
    }
    return Candidate(**{**made, **changes})


def _samples(step: float, busy: float | None) -> tuple[Sample, ...]:
    """Three steps in each of two rounds; the last of each round has a busy time, as the harness takes it."""
    return tuple(
        Sample(
            round=turn,
            position=0,
            step=number,
            values={
                "step_ms": step * (1 + 0.003 * (number - 1)),
                "wall_ms": step,
                **({} if busy is None or number != 2 else {"busy_ms": busy}),
                "loss": 2.5,
            },
        )
        for turn in range(2)
        for number in range(3)
    )


def broken(name: str, status: Any = "failed", kind: str = "RuntimeError", role: Any = "candidate", **more: Any) -> Any:
    """A candidate that came to nothing in backward."""
    return Candidate(
        name=name,
        role=role,
        settings={},
        status=status,
        failure=Failure(phase="backward", kind=kind, message="words", **more),
    )


def observed(*candidates: Candidate, device: DeviceFacts = CARD, **more: Any) -> Observed:
    """What a run saw: the baseline's twin is added where the baseline was timed, comparisons are the harness's own."""
    taken = []
    for one in candidates:
        taken.append(one)
        if one.is_baseline and (median := one.median("step_ms")) is not None:
            taken.append(candidate(f"{one.name} (again)", "baseline_again", error=0.0, step=median))
    return Observed(
        workload=more.get("workload", WORKLOAD),
        device=device,
        candidates=tuple(taken),
        comparisons=summary.comparisons(taken),
    )

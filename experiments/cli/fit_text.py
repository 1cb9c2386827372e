"""How `fit` is told: a status word, one table per workload, and what to run; or the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.cli.printing import status, table
from experiments.evidence.quantities import percent
from experiments.kinds.training_step.ledger.ledger import CONTEXT_BYTES
from experiments.kinds.training_step.ledger.ledger_fit import FRAGMENTATION, FitRow
from experiments.kinds.training_step.ledger.step_bytes import GIB
from experiments.kinds.training_step.training_workload import TrainingWorkload
from tools.environments.machine.host_gate import TOLERANCE
from tools.environments.model import Profile
from tools.environments.profile_session import OWN_COMMANDS


@dataclass(frozen=True, slots=True)
class Fitted:
    """One workload of one experiment, with a row for each candidate. `registered` is False where a knob was changed."""

    experiment: str
    workload: TrainingWorkload
    registered: bool
    rows: tuple[FitRow, ...]

    @property
    def whole(self) -> bool:
        """Whether every candidate that is predicted fits."""
        return self.some and not any(row.verdict in ("tight", "too large") for row in self.rows)

    @property
    def some(self) -> bool:
        """Whether any candidate does."""
        return any(row.verdict == "fits" for row in self.rows)


def as_lines(profile: Profile, memory: float, fitted: Sequence[Fitted], others: Mapping[str, str]) -> Iterator[str]:
    """The text, line by line. `others` are experiments without a ledger, each with its kind of measurement."""
    if not fitted:
        yield f"{status('skipped')} · {profile.id}: {_nothing_fitted(profile, others)}"
        return
    whole = sum(item.whole for item in fitted)
    yield (
        f"{status(_word(fitted))} · {profile.id} on a card of {memory:g} GiB"
        f" · {whole} of {len(fitted)} workloads fit whole · predicted, not executed"
    )
    if profile.gpu is not None and memory < (1 - TOLERANCE) * profile.gpu.memory_gib:
        yield f"  the profile asks for {profile.gpu.memory_gib:g} GiB: its preflight blocks on this card"
    for item in fitted:
        yield from _one(item, fitted, profile)
    yield ""
    if others:
        yield _without_ledger(others)
    yield (
        f"a card of: peak and {percent(FRAGMENTATION)} of it between blocks, "
        f"{CONTEXT_BYTES / GIB:.1f} GiB CUDA context, on a card that may report {percent(TOLERANCE)} less "
        "than its class; tight: only with every byte of the figure"
    )


def _nothing_fitted(profile: Profile, others: Mapping[str, str]) -> str:
    """Why nothing is predicted: no experiment at all, none with a ledger, or none that could be looked at."""
    if not profile.experiments:
        return "no experiment is registered for it, environment only"
    own = {name: "a command of its own" for name in profile.experiments if name in OWN_COMMANDS}
    known = {**others, **own}
    return _without_ledger(known) if known else f"none of its experiments is here: {', '.join(profile.experiments)}"


def _without_ledger(others: Mapping[str, str]) -> str:
    named = ", ".join(f"{name} ({kind})" for name, kind in others.items())
    return f"no memory ledger for {named}: only training steps have one"


def as_json(profile: Profile, memory: float, fitted: Sequence[Fitted], others: Mapping[str, str]) -> dict[str, Any]:
    """The same as JSON values; bytes where no other unit is named."""
    return {
        "status": _word(fitted),
        "profile": profile.id,
        "memory_gib": memory,
        "context_bytes": CONTEXT_BYTES,
        "executed": False,
        "workloads": [
            {
                "experiment": item.experiment,
                "workload": item.workload.name,
                "registered": item.registered,
                "model": item.workload.model,
                "batch": item.workload.batch,
                "sequence": item.workload.sequence,
                "optimizer": item.workload.optimizer,
                "candidates": [_row_as_json(row) for row in item.rows],
            }
            for item in fitted
        ],
        "without_ledger": [{"experiment": name, "kind": kind} for name, kind in others.items()],
    }


def _word(fitted: Sequence[Fitted]) -> str:
    if not fitted:
        return "skipped"
    if all(item.whole for item in fitted):
        return "ok"
    return "warning" if any(item.some for item in fitted) else "blocked"


def _one(item: Fitted, fitted: Sequence[Fitted], profile: Profile) -> Iterator[str]:
    workload = item.workload
    name = workload.name if item.registered else f"{workload.name}, changed"
    yield ""
    yield (
        f"{item.experiment} · {name} · {workload.batch} x {workload.sequence}"
        f" · {workload.optimizer}, {workload.model}, head {workload.head}"
    )
    head = ("candidate", "peak GiB", "where", "a card of", "verdict")
    yield from table(head, [_cells(row) for row in item.rows])
    for line in _advice(item, fitted, profile):
        yield f"  → {line}"


def _cells(row: FitRow) -> tuple[str, ...]:
    if row.ledger is None or row.card_gib is None:
        return row.candidate, "-", "-", "-", row.verdict
    return row.candidate, f"{row.ledger.peak / GIB:.2f}", _where(row), f"{row.card_gib:.1f} GiB", row.verdict


def _where(row: FitRow) -> str:
    """The phase of the peak, and whether it is the loss head's: its backward is part of the step's backward."""
    assert row.ledger is not None
    phase = row.ledger.peak_phase.replace("_", " ")
    return f"{phase} of the head" if row.ledger.head_limited and phase == "backward" else phase


def _advice(item: Fitted, fitted: Sequence[Fitted], profile: Profile) -> Iterator[str]:
    """What to run: the workload where all of it fits, else a registered smaller one, else a step of the ladder."""
    begin = f"python -m experiments run {item.experiment} --profile {profile.id}"
    if item.whole:
        model = "" if item.registered else f" --model {item.workload.model}"
        yield f"{begin} {_options(item.workload, item.registered)}{model}"
        return
    short = [row for row in item.rows if row.verdict in ("tight", "too large")]
    chunked = sum(row.chunked for row in short)
    if chunked:
        yield f"{chunked} more fit as they are with --head chunked: the loss head holds their peak"
    smaller = [other for other in fitted if other.whole and _is_smaller(other, item)]
    steps = [row.smaller for row in short if row.smaller is not None]
    if smaller:
        most = max(smaller, key=lambda other: other.workload.tokens)
        yield f"{begin} {_options(most.workload, True)}"
    elif short and len(steps) == len(short):
        least = min(steps, key=lambda step: (step.tokens, step.sequence))
        model = "" if item.registered else f" --model {least.model}"
        yield f"{begin} {_options(least, False)}{model} --run-label NEW"
        yield "that is another workload: its results are never merged with this one's"
    elif short:
        state = max(row.ledger.phases["optimizer"] for row in short if row.ledger is not None)
        yield (
            f"no step of the ladder fits them all: weights, gradients and optimizer alone take {state / GIB:.2f} GiB,"
            " beside the CUDA context"
        )


def _is_smaller(other: Fitted, item: Fitted) -> bool:
    return (
        other.experiment == item.experiment
        and other.registered
        and other.workload.model == item.workload.model
        and other.workload.tokens < item.workload.tokens
    )


def _options(workload: TrainingWorkload, registered: bool) -> str:
    if registered:
        return f"--workload {workload.name}"
    return f"--workload {workload.name} --batch {workload.batch} --sequence {workload.sequence}"


def _row_as_json(row: FitRow) -> dict[str, Any]:
    ledger, smaller = row.ledger, row.smaller
    return {
        "candidate": row.candidate,
        "verdict": row.verdict,
        "peak_allocated_bytes": None if ledger is None else ledger.peak,
        "peak_phase": None if ledger is None else ledger.peak_phase,
        "after_forward_bytes": None if ledger is None else ledger.after_forward,
        "head_limited": None if ledger is None else ledger.head_limited,
        "card_gib": None if row.card_gib is None else round(row.card_gib, 2),
        "fits_with_chunked_head": row.chunked,
        "smaller": None if smaller is None else {"batch": smaller.batch, "sequence": smaller.sequence},
    }

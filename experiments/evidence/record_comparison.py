"""Two records side by side, if they are about the same thing in every respect but at most one that was named.

Refusing is the point: a difference in model, tokens, precision, environment or device explains a difference in speed
better than any mechanism does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.evidence import rules
from experiments.evidence.candidate import Candidate
from experiments.evidence.codec import to_json
from experiments.evidence.record import Quantity, Record
from experiments.evidence.rules.rule_set import Rules
from experiments.evidence.vocabulary import Verdict
from tools.environments.errors import EXIT_USAGE, LabError

# Knobs of a workload that stand under a field of their own.
NAMED_KNOBS = frozenset({"batch", "sequence", "sequence_length", "precision", "dtype", "concurrency", "model", "ranks"})


def _model(record: Record) -> Any:
    model = record.model
    if model is None:
        return None
    identity = (model.id, model.weights_source, model.resolved_commit, model.config_digest, model.parameter_count)
    return identity if model.weights_source != "local" else (*identity, model.weights_digest)


def _workload(record: Record) -> Any:
    knobs = {name: value for name, value in record.workload.knobs.items() if name not in NAMED_KNOBS}
    return record.identity.experiment, to_json(knobs)


def _tokens(record: Record) -> Any:
    workload = record.workload
    return workload.batch, workload.sequence_length, workload.tokens_per_step, workload.tokenized_manifest_digest


def _dtype(record: Record) -> Any:
    return record.workload.dtype, record.workload.knobs.get("precision"), record.workload.knobs.get("dtype")


def _backend(record: Record) -> Any:
    backend = record.backend
    if backend.name == "pytorch":
        return backend.name  # its version and build stand under `torch`
    return backend.name, backend.version, backend.build_options, to_json(backend.engine_parameters)


def _device(record: Record) -> Any:
    runtime = record.runtime
    if not runtime.devices:
        return runtime.host.machine, runtime.host.cpu, runtime.host.cores, runtime.threads.intra_op
    cards = [(card.name, card.memory_bytes, card.compute_capability, card.memory_cap_gib) for card in runtime.devices]
    return tuple(cards)


FIELDS: Mapping[str, Callable[[Record], Any]] = {
    "model_commit": _model,
    "tokenizer": lambda record: record.model and to_json(record.model.tokenizer),
    "template": lambda record: record.model and record.model.template.chat_template,
    "thinking_mode": lambda record: record.model and record.model.template.thinking_mode,
    "kind": lambda record: record.identity.kind,
    "launch": lambda record: (record.identity.launch.type, record.identity.launch.ranks),
    "workload": _workload,
    "concurrency": lambda record: record.workload.concurrency,
    "token_counts": _tokens,
    "dtype": _dtype,
    "profile": lambda record: record.profile.id,
    "torch": lambda record: (record.runtime.torch, record.runtime.torch_cuda),
    "backend": _backend,
    "device": _device,
}


# A profile pins its torch build, so two profiles may differ in that as well.
IMPLIED: Mapping[str, tuple[str, ...]] = {"profile": ("torch",)}


@dataclass(frozen=True, slots=True)
class Pair:
    """One candidate in both records. Ratios are second / first; None where a side lacks the quantity."""

    candidate: str
    first_value: float | None  # medians in the quantity that the records compare by
    second_value: float | None
    ratio: float | None
    low: float | None
    high: float | None
    verdict: Verdict | None
    first_peak_bytes: int | None
    second_peak_bytes: int | None
    statuses: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """What two records say together. `across` is the one field that differs and is the thing compared, if any."""

    first: str  # run labels
    second: str
    across: str | None
    across_values: tuple[str, str] | None
    noise_floor: float | None
    quantity: Quantity | None  # what ratios and noise are of
    pairs: tuple[Pair, ...]


def differing(first: Record, second: Record) -> list[str]:
    """The fields in which two records differ, in the order of `FIELDS`."""
    return [name for name, value in FIELDS.items() if value(first) != value(second)]


def compare(first: Record, second: Record, across: str | None = None) -> Difference:
    """Second against first, by the newer of their rules.

    Raises LabError for one record twice, and naming each field that differs but `across`.
    """
    if across is not None and across not in FIELDS:
        known = ", ".join(FIELDS)
        raise LabError(f"one of the fields {known}", ascii(across)[:60], "choose one of them", "--across", EXIT_USAGE)
    if first.identity == second.identity:
        label = first.identity.run_label
        raise LabError(
            "two records", f"{label} twice", "name another: python -m experiments results list", label, EXIT_USAGE
        )
    allowed = {across, *IMPLIED.get(across or "", ())}
    others = [name for name in differing(first, second) if name not in allowed]
    if others:
        shown = "; ".join(f"{name}: {' against '.join(_values(name, first, second))}" for name in others)
        if len(others) == 1 and across is None:
            mend = f"if {others[0]} is the thing to compare, say so: --across {others[0]}"
        else:
            mend = "compare records that differ in one field only"
        raise LabError(
            "two records of the same thing", shown, mend, f"{first.identity.run_label}, {second.identity.run_label}"
        )
    floor = _noise(first, second)
    mine = {candidate.name: candidate for candidate in first.candidates}
    newer = max(rules.of(first), rules.of(second), key=lambda found: found.version)
    quantity = second.compared_by()
    pairs = [
        _pair(newer, mine[other.name], other, floor, quantity) for other in second.candidates if other.name in mine
    ]
    values = _values(across, first, second) if across else None
    return Difference(
        first.identity.run_label, second.identity.run_label, across, values, floor, quantity, tuple(pairs)
    )


def _pair(newer: Rules, first: Candidate, second: Candidate, floor: float | None, quantity: Quantity | None) -> Pair:
    found = None if quantity is None else newer.across(second, first, floor, quantity)
    word = "" if quantity is None else quantity.word
    return Pair(
        candidate=first.name,
        first_value=first.median(word),
        second_value=second.median(word),
        ratio=found.ratio if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        verdict=found.verdict if found else None,
        first_peak_bytes=first.memory.peak_allocated_bytes if first.memory else None,
        second_peak_bytes=second.memory.peak_allocated_bytes if second.memory else None,
        statuses=(first.status, second.status),
    )


def _noise(first: Record, second: Record) -> float | None:
    """The two runs' floors together: each may have drifted by its own."""
    by = [(record, quantity.word) for record in (first, second) if (quantity := record.compared_by()) is not None]
    floors = [floor.relative for record, word in by for floor in record.noise_floors if floor.quantity == word]
    return sum(floors) if len(floors) == 2 else None


def _values(name: str, first: Record, second: Record) -> tuple[str, str]:
    return _contrast(FIELDS[name](first), FIELDS[name](second))


def _contrast(mine: Any, theirs: Any) -> tuple[str, str]:
    """Two values as text; of what has parts, only those in which they differ."""
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        ours, others = (", ".join(f"{name} {_short(side.get(name))}" for name in names) for side in (mine, theirs))
        return ours, others
    if isinstance(mine, tuple) and isinstance(theirs, tuple) and len(mine) == len(theirs) and mine != theirs:
        pairs = [_contrast(one, other) for one, other in zip(mine, theirs, strict=True) if one != other]
        return ", ".join(one for one, _ in pairs), ", ".join(other for _, other in pairs)
    return _short(mine), _short(theirs)


def _short(value: Any) -> str:
    text = ", ".join(map(_short, value)) if isinstance(value, tuple) else "none" if value is None else str(value)
    if text.startswith("sha256:"):
        return text[:19]
    return text if len(text) <= 80 else f"{text[:77]}..."

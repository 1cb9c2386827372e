"""A record as people read it: one head line, one table, what it says and what it does not.

Pure text made from the record, and from what its kind says of its marks: `show`, the end of a run and the documents all
draw from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.evidence.candidate import Candidate, Interval
from experiments.evidence.conclusion import Comparison
from experiments.evidence.quantities import gib, milliseconds, percent
from experiments.evidence.record import Record
from experiments.evidence.subject import Model
from experiments.evidence.vocabulary import Mark

DTYPES: Mapping[str, str] = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
PHASES: Mapping[str, str] = {"loss_head": "loss head", "warm_up": "warm-up"}
# What a reader might take from a record and must not, by the limit that forbids it.
SILENCES: Mapping[str, str] = {
    "dry_run": "anything measured: it is a plan",
    "not_executed": "anything measured: nothing was executed",
    "cpu_only": "anything about GPU memory or speed",
    "no_device": "anything about a GPU",
    "other_image": "anything about a GPU: the image was not the profile's",
    "off_profile": "anything about the profile: the environment was another",
    "profile_not_checked": "that the environment was the profile's",
    "unregistered_workload": "anything comparable with registered workloads",
    "no_noise_floor": "which differences are real",
    "dirty_tree": "which commit it belongs to",
    "gate_failed": "that every candidate computes the same",
    "gate_missing": "that every candidate computes the same",
    "memory_cap": "how fast a small card is",
    "random_init": "anything about loss quality or natural underflow (random weights)",
    "shared_device": "how fast the card is alone",
    "control_not_caught": "that its gates can tell wrong from right",
}


def headline(record: Record, standing: str | None = None) -> str:
    """Workload, model, device and level on one line; `standing` adds what the index knows (`gpu_reproduced`)."""
    workload, model = record.workload, record.model
    optimizer = workload.knobs.get("optimizer")
    names = {"sgd": "SGD", "adamw": "AdamW"}
    sides = [str(side) for side in (workload.batch, workload.sequence_length) if side is not None]
    formats = [] if workload.dtype is None else [DTYPES.get(workload.dtype, workload.dtype)]
    parts = [" x ".join(sides)] if sides else []
    parts += formats
    if isinstance(optimizer, str):
        parts.append(names.get(optimizer, optimizer))
    what = f"{workload.title}: {', '.join(parts)}" if parts else workload.title
    level: str = record.evidence_level or "not graded"
    if standing == "gpu_reproduced":
        level += ", runs agree (gpu_reproduced)"
    return " · ".join((what, *([] if model is None else [_weights(model)]), device(record), level))


def _weights(model: Model) -> str:
    return f"{model.id} shape, random weights" if model.weights_source == "random_init" else model.id


def device(record: Record) -> str:
    """`one NVIDIA H200`, `2 NVIDIA H200`, `CPU (model)`."""
    cards = record.runtime.devices
    if not cards:
        return f"CPU ({record.runtime.host.cpu})" if record.runtime.host.cpu else "CPU"
    cap = cards[0].memory_cap_gib
    count = "one" if len(cards) == 1 else str(len(cards))
    return f"{count} {cards[0].name}" + (f" capped at {cap:g} GiB" if cap is not None else "")


def table(record: Record, hints: Mapping[Mark, str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and rows: candidate, step time with its interval, against the baseline, memory, prediction, where, marks.

    `hints` says of the kind's marks what to do about each; one that it lacks is told by its word.
    """
    baseline = record.baseline()
    by = record.compared_by()
    word = "" if by is None else by.word
    against = {c.candidate: c for c in record.comparisons if c.quantity == word}
    columns: list[tuple[str, list[str]]] = [
        ("candidate", [_name(c) for c in record.candidates]),
        (f"{word.replace('_', ' ')} (95 % interval)", [_middle(c, word) for c in record.candidates]),
        (f"vs {baseline.name if baseline else 'baseline'}", [_against(against.get(c.name)) for c in record.candidates]),
        ("after forward GiB", [gib(c.memory.after_forward_bytes) if c.memory else "" for c in record.candidates]),
        ("predicted", [_predicted(c, "after_forward_bytes") for c in record.candidates]),
        ("peak GiB", [gib(c.memory.peak_allocated_bytes) if c.memory else "" for c in record.candidates]),
        ("predicted", [_predicted(c, "peak_allocated_bytes") for c in record.candidates]),
        ("where", [_where(c) for c in record.candidates]),
        ("", [" · ".join(hints.get(mark, mark.replace("_", " ")) for mark in c.marks) for c in record.candidates]),
    ]
    kept = [(head, cells) for head, cells in columns if any(cells)]
    head = tuple(head for head, _ in kept)
    return head, list(zip(*(tuple(cells) for _, cells in kept), strict=True))


def floors(record: Record) -> str:
    """Each floor once, with everybody's distance from it, and the noise; empty when the record has neither.

    `float16 matmul rate 4.21 ms: fp16 + scaler at 24.84x · fp16, unscaled at 21.67x; noise floor 25 %`. The baseline's
    twin is left out: what it would add is noise, and that has its own number.
    """
    distances: dict[str, list[str]] = {}
    for candidate in record.candidates:
        if candidate.role == "baseline_again":
            continue
        for floor in candidate.floors:
            value = f"{milliseconds(floor.floor)} ms" if floor.unit == "ms" else _other(floor.floor, floor.unit)
            those = distances.setdefault(f"{floor.limited_by} {value}", [])
            if floor.distance is not None:
                those.append(f"{candidate.name} at {floor.distance:.2f}x")
    parts = [f"{floor}: {' · '.join(those)}" if those else floor for floor, those in distances.items()]
    by = record.compared_by()
    parts += [f"noise floor {percent(f.relative)}" for f in record.noise_floors if by and f.quantity == by.word]
    return "; ".join(parts)


def says(record: Record) -> list[str]:
    """The claims, each with its level where that is lower than the record's."""
    lines = []
    for claim in record.claims:
        lower = claim.level is not None and claim.level != record.evidence_level
        lines.append(claim.statement + (f" (only {claim.level})" if lower else ""))
    return lines


def does_not_say(record: Record) -> str:
    """What must not be read into it."""
    found = [SILENCES[limit.code] for limit in record.limits if limit.code in SILENCES]
    others = "other cards" if record.runtime.devices else "other machines"
    return ", or ".join(dict.fromkeys([*found, others]))


def _name(candidate: Candidate) -> str:
    role = {"baseline": " (baseline)", "baseline_again": " (A/A)", "control": " (wrong on purpose)"}
    return candidate.name + role.get(candidate.role, "")


def _middle(candidate: Candidate, word: str) -> str:
    if candidate.status != "ok":
        failure = candidate.failure
        word = {"oom": "out of memory", "failed": "failed", "skipped": "skipped"}[candidate.status]
        place = f" in {PHASES.get(failure.phase, failure.phase)}" if failure and candidate.status != "skipped" else ""
        return word + place
    found = candidate.summary.intervals.get(word) if candidate.summary else None
    return "" if found is None else interval(found)


def interval(step: Interval) -> str:
    """`222.6  (222.3 - 224.1)`, in milliseconds."""
    return f"{milliseconds(step.median)}  ({milliseconds(step.low)} - {milliseconds(step.high)})"


def _against(comparison: Comparison | None) -> str:
    if comparison is None or comparison.ratio is None:
        return ""
    change = percent(comparison.ratio - 1, signed=True)
    return {"same": f"same ({change})", "ambiguous": f"ambiguous ({change})"}.get(
        comparison.verdict, f"{change} {comparison.verdict}"
    )


def _predicted(candidate: Candidate, quantity: str) -> str:
    found: Sequence[float] = [p.predicted for p in candidate.predictions if p.quantity == quantity]
    return gib(found[0]) if found else ""


def _where(candidate: Candidate) -> str:
    phase = candidate.memory.peak_phase if candidate.memory else None
    return PHASES.get(phase, phase) if phase else ""


def _other(value: float, unit: str) -> str:
    return f"{gib(value)} GiB" if unit == "bytes" else f"{value:.4g} {unit}"

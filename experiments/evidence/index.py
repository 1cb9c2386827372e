"""All records together: which are reproduced, and what each profile's own row says. Never filled across profiles.

`gpu_reproduced` is a status of the index: two or more independent `gpu_measured` records of the same thing on the same
kind of card that agree within their noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal, TypeAlias

from experiments.evidence import rules, store, stored_runs
from experiments.evidence.candidate import Candidate, Interval
from experiments.evidence.record import Record
from experiments.evidence.record_comparison import differing
from experiments.evidence.rules.rule_set import Known
from experiments.evidence.validation import MissingPackageError
from experiments.evidence.vocabulary import LEVELS, Level
from tools.environments.errors import LabError

IndexStatus: TypeAlias = Literal["not measured"] | Level | Literal["gpu_reproduced"]
NOT_MEASURED: IndexStatus = "not measured"
MEMORY_TOLERANCE = 0.01  # the allocator's rounding between runs; peaks of one program repeat closer than this


@dataclass(frozen=True, slots=True)
class Entry:
    """A record and the file it came from."""

    path: Path
    record: Record


@dataclass(frozen=True, slots=True)
class Row:
    """One experiment and workload under one profile. `entries` are the records behind the status, newest first.

    A changed workload has a row of its own: it never fills that of the registered one.
    """

    profile: str
    experiment: str
    workload: str
    device: str
    status: IndexStatus
    entries: tuple[Entry, ...] = ()


def load(folder: Path) -> tuple[tuple[Entry, ...], tuple[LabError, ...]]:
    """Every record below `folder` in order of path, and a finding for each file that is none.

    A copy under another name is none: it would count twice.
    """
    entries: list[Entry] = []
    refused: list[LabError] = []
    for path in sorted(folder.rglob("*.json")):
        try:
            record = store.read(path)
        except MissingPackageError:
            raise
        except LabError as error:
            refused.append(error)
            continue
        other = stored_runs.misplaced(record, path.parent.name, path.stem, f"{path.parent.name}/{path.stem}")
        if other is None:
            entries.append(Entry(path, record))
        else:
            refused.append(other)
    return tuple(entries), tuple(refused)


def device_of(record: Record) -> str:
    """The card, with its cap, or the CPU: what a row is about."""
    cards = [
        card.name + (f" capped at {card.memory_cap_gib:g} GiB" if card.memory_cap_gib is not None else "")
        for card in record.runtime.devices
    ]
    return ", ".join(cards) or record.runtime.host.cpu or "CPU"


def rows(wanted: Mapping[str, Sequence[tuple[str, str]]], entries: Iterable[Entry]) -> tuple[Row, ...]:
    """The table of the index. `wanted` maps each profile to its (experiment, workload) pairs; each gets a row.

    A pair without a record of that very profile reads "not measured". Records beyond `wanted` get rows too.
    """
    found: dict[tuple[str, str, str, str], list[Entry]] = {}
    for entry in entries:
        record = entry.record
        key = (record.profile.id, record.identity.experiment, record.workload.title, device_of(record))
        found.setdefault(key, []).append(entry)
    table = [Row(*key, *_standing(group)) for key, group in found.items()]
    have = {(row.profile, row.experiment, row.workload) for row in table}
    for profile, pairs in wanted.items():
        for experiment, workload in pairs:
            if (profile, experiment, workload) not in have:
                table.append(Row(profile, experiment, workload, "", NOT_MEASURED))
    order = {profile: place for place, profile in enumerate(wanted)}
    return tuple(
        sorted(table, key=lambda row: (order.get(row.profile, len(order)), row.experiment, row.workload, row.device))
    )


def differing_rows(first: Record, second: Record) -> list[str]:
    """What keeps two records out of one row: profile, experiment, workload or device. Empty when nothing does."""
    keys = [
        (record.profile.id, record.identity.experiment, record.workload.title, device_of(record))
        for record in (first, second)
    ]
    names = ("profile", "experiment", "workload", "device")
    return [name for name, ours, theirs in zip(names, *keys, strict=True) if ours != theirs]


def status_of(records: Sequence[Record], known: Known = rules.KNOWN) -> IndexStatus:
    """The status records of one row have together: the highest level among them, or `gpu_reproduced`.

    A record whose rules are not `known` counts as none: nothing here has computed its level.
    """
    records = [record for record in records if rules.find(record, known) is not None]
    if not records:
        return NOT_MEASURED
    measured = [record for record in records if record.evidence_level == "gpu_measured"]
    if any(agree(first, second) for first, second in combinations(measured, 2)):
        return "gpu_reproduced"
    return max((record.evidence_level or "plan" for record in records), key=LEVELS.index)


def agree(first: Record, second: Record) -> bool:
    """Whether two records are independent runs of the same thing that agree within noise in every shared candidate."""
    if not independent(first, second) or differing(first, second):
        return False
    mine = {candidate.name: candidate for candidate in first.candidates}
    theirs = {candidate.name: candidate for candidate in second.candidates}
    if mine.keys() != theirs.keys():
        return False
    quantity = first.compared_by()
    if quantity is None:
        return False  # nothing was measured that two runs could agree in
    noise = [_noise(record, quantity.word) for record in (first, second)]
    return all(_agree(mine[name], theirs[name], quantity.word, noise) for name in mine)


def independent(first: Record, second: Record) -> bool:
    """Not the same run, nor a copy of it under another label: other label, other beginning, other samples."""
    if first.identity.run_label == second.identity.run_label or first.identity.created_at == second.identity.created_at:
        return False
    return [candidate.samples for candidate in first.candidates] != [
        candidate.samples for candidate in second.candidates
    ]


def _standing(entries: Sequence[Entry]) -> tuple[IndexStatus, tuple[Entry, ...]]:
    newest = sorted(entries, key=lambda entry: entry.record.identity.created_at, reverse=True)
    return status_of([entry.record for entry in newest]), tuple(newest)


def _agree(first: Candidate, second: Candidate, word: str, noise: Sequence[float]) -> bool:
    if first.status != second.status:
        return False
    if first.status != "ok":
        return True
    ours = first.summary.intervals.get(word) if first.summary else None
    other = second.summary.intervals.get(word) if second.summary else None
    if ours is None or other is None:
        return ours is other
    return _overlap(ours, noise[0], other, noise[1]) and _same_memory(first, second)


def _overlap(ours: Interval, our_noise: float, other: Interval, other_noise: float) -> bool:
    """Whether the 95 % intervals meet once each is widened by its own run's noise floor."""
    low, high = ours.low * (1 - our_noise), ours.high * (1 + our_noise)
    return low <= other.high * (1 + other_noise) and other.low * (1 - other_noise) <= high


def _same_memory(first: Candidate, second: Candidate) -> bool:
    ours = first.memory.peak_allocated_bytes if first.memory else None
    other = second.memory.peak_allocated_bytes if second.memory else None
    if ours is None or other is None:
        return ours is other
    return abs(ours - other) <= MEMORY_TOLERANCE * max(ours, other)


def _noise(record: Record, word: str) -> float:
    return next((floor.relative for floor in record.noise_floors if floor.quantity == word), 0.0)

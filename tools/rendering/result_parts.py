"""Parts made from records: the newest committed result of an experiment, and the rows of a topic.

Only committed records count, and each profile's row comes from that profile's own: what was not measured says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from experiments import kinds
from experiments.cli import discovery
from experiments.cli.report import wanted
from experiments.cli.showing import own_table
from experiments.evidence import index, record_text
from experiments.evidence.index import Entry, Row
from experiments.evidence.record import Record
from tools.environments.model import Profile
from tools.environments.registry.registry import Registry
from tools.rendering import conformance_parts
from tools.rendering.blocks import Language, Maker, language
from tools.rendering.profile_tables import table

RESULTS = Path("experiments", "results")
_HEAD: Mapping[Language, tuple[str, ...]] = {
    "en": ("profile", "experiment", "workload", "status", "device", "run label", "decision"),
    "zh": ("Profile", "实验", "工作负载", "状态", "设备", "运行标签", "决策"),
}
_NOT_MEASURED: Mapping[Language, str] = {"en": "not measured", "zh": "未测量"}
_WORDS: Mapping[Language, tuple[str, str, str]] = {
    "en": ("does not say", "record", "reproduce"),
    "zh": ("不说明", "记录", "重现"),
}


def makers(registry: Registry, root: Path) -> dict[str, Maker]:
    """The generated parts of this module, by name. LabError where a committed record does not hold."""
    entries, refused = index.load(root / RESULTS)
    if refused:
        raise refused[0]
    return {
        "result": lambda arguments, path: result(entries, arguments, path),
        "result-index": lambda arguments, path: rows(registry, entries, arguments, path),
        "profile-results": lambda arguments, path: profile_rows(registry, entries, arguments, path),
        **conformance_parts.makers(entries, registry),
    }


def result(entries: Sequence[Entry], arguments: Sequence[str], path: Path) -> str:
    """The newest record of `EXPERIMENT PROFILE`: head, table, what it does not say, where it lies."""
    lang = language(path)
    if len(arguments) != 2 or arguments[0] not in discovery.packages():
        raise ValueError(f"result wants an experiment and a profile, found {' '.join(arguments) or 'nothing'}")
    experiment, profile = arguments
    found = [e for e in entries if (e.record.identity.experiment, e.record.profile.id) == (experiment, profile)]
    if not found:
        return f"{_NOT_MEASURED[lang]}: `{experiment}`, `{profile}`"
    newest = max(found, key=lambda entry: entry.record.identity.created_at)
    record, words = newest.record, _WORDS[lang]
    head, lines = _table(record)
    closing = [
        (words[0], record_text.does_not_say(record)),
        (words[1], f"[{record.identity.run_label}]({_link(newest, path)}), {record.identity.created_at[:10]}"),
        (words[2], f"`{kinds.reproduce(record)}`"),
    ]
    return "\n\n".join(
        [
            f"`{experiment}` · {record_text.headline(record)}",
            table(head, lines),
            "\n".join(f"- {word}: {text}" for word, text in closing),
        ]
    )


def rows(registry: Registry, entries: Sequence[Entry], arguments: Sequence[str], path: Path) -> str:
    """Every profile of `TOPIC` with each experiment and workload registered for it, measured or not."""
    if len(arguments) != 1 or arguments[0] not in registry.topics:
        raise ValueError(f"result-index wants a topic, one of {', '.join(registry.topics)}")
    return _rows([each for each in registry.profiles.values() if each.topic == arguments[0]], entries, path)


def profile_rows(registry: Registry, entries: Sequence[Entry], arguments: Sequence[str], path: Path) -> str:
    """The same rows of one `PROFILE`."""
    if len(arguments) != 1 or arguments[0] not in registry.profiles:
        raise ValueError(f"profile-results wants a profile, found {' '.join(arguments) or 'nothing'}")
    return _rows([registry.profiles[arguments[0]]], entries, path)


def _rows(members: Sequence[Profile], entries: Sequence[Entry], path: Path) -> str:
    lang = language(path)
    order = {profile.id: place for place, profile in enumerate(members)}
    found = [row for row in index.rows(wanted(members), entries) if row.profile in order]
    ordered = sorted(found, key=lambda row: (order[row.profile], row.experiment))
    cells: list[tuple[str, ...]] = []
    for _, group in groupby(ordered, key=lambda row: (row.profile, row.experiment)):
        together = list(group)
        cells += [_cells(row, path, lang) for row in together if row.entries]
        cells += _unmeasured([row for row in together if not row.entries], lang)
    return table(_HEAD[lang], cells)


def _unmeasured(rows: Sequence[Row], lang: Language) -> list[tuple[str, ...]]:
    """One line for all workloads of an experiment that nobody has measured under this profile."""
    if not rows:
        return []
    workloads = ", ".join(f"`{row.workload}`" for row in rows)
    return [(f"`{rows[0].profile}`", f"`{rows[0].experiment}`", workloads, _NOT_MEASURED[lang], "", "", "")]


def _cells(row: Row, path: Path, lang: Language) -> tuple[str, ...]:
    runs = ", ".join(f"[{entry.record.identity.run_label}]({_link(entry, path)})" for entry in row.entries)
    decision = row.entries[0].record.decision.code
    status = f"`{row.status}`"
    return f"`{row.profile}`", f"`{row.experiment}`", f"`{row.workload}`", status, row.device, runs, decision


def _table(record: Record) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The experiment's own table, else the one that every record has."""
    own = own_table(record)
    return (own.columns, own.rows) if own is not None else record_text.table(record, kinds.hints(record))


def _link(entry: Entry, path: Path) -> str:
    return os.path.relpath(entry.path, path.parent)

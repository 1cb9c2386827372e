"""Parts made from the newest committed conformance record: pages, checks, and which check notices which fault."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.conformance import catalogue, conformance_record, page_choice
from experiments.conformance.catalogue import PageEntry
from experiments.conformance.frameworks import TORCH
from experiments.evidence.candidate import Candidate
from experiments.evidence.index import Entry
from tools.environments.registry.registry import Registry
from tools.rendering.blocks import Language, Maker, language
from tools.rendering.profile_tables import table

_HEADS: Mapping[str, Mapping[Language, tuple[str, ...]]] = {
    "pages": {
        "en": ("page", "", "result", "checks", "faults noticed", "closest to its tolerance"),
        "zh": ("页面", "", "结果", "检查", "识破的错误", "最接近容差处"),
    },
    "checks": {
        "en": ("check", "checked against", "cases", "worst error", "allowed", "where that comes from"),
        "zh": ("检查", "对照", "用例", "最大误差", "允许", "来源"),
    },
    "faults": {
        "en": ("fault put into the page's code", "module", "public report", "noticed by"),
        "zh": ("放进代码的错误", "模块", "公开报告", "由此识破"),
    },
}
_WORDS: Mapping[Language, Mapping[str, str]] = {
    "en": {"none": "no record is committed yet", "held": "checked against", "record": "record", "no": "no difference"},
    "zh": {"none": "尚无已提交的记录", "held": "对照", "record": "记录", "no": "无差异"},
}


def makers(entries: Sequence[Entry], registry: Registry) -> dict[str, Maker]:
    """The generated parts of this module, by name, from the committed records."""

    def pages_of(arguments: Sequence[str], path: Path) -> str:
        topic = _topic(arguments)
        return pages(topic, newest(entries, registry, topic), path)

    def checks_of(arguments: Sequence[str], path: Path) -> str:
        page = _page(arguments)
        return checks(newest(entries, registry, page.topic), page.id, language(path))

    def faults_of(arguments: Sequence[str], path: Path) -> str:
        page = _page(arguments)
        return faults(newest(entries, registry, page.topic), page.id, language(path))

    return {"conformance-pages": pages_of, "conformance-checks": checks_of, "conformance-faults": faults_of}


def newest(entries: Sequence[Entry], registry: Registry, topic: str) -> Entry | None:
    """The newest record of all pages of a topic, made in the profile that they are registered for."""
    home, workload = page_choice.home(registry, topic), catalogue.find_topic(topic).workload
    found = [
        entry
        for entry in entries
        if (entry.record.identity.experiment, entry.record.workload.name) == (conformance_record.EXPERIMENT, workload)
        and (home is None or entry.record.profile.id == home.id)
    ]
    return max(found, key=lambda entry: entry.record.identity.created_at, default=None)


def pages(topic: str, entry: Entry | None, path: Path) -> str:
    """One row a page of the topic, and under it what they were checked against and where the record lies."""
    lang = language(path)
    words = _WORDS[lang]
    if entry is None:
        return words["none"]
    record = entry.record
    rows = []
    for page in catalogue.entries(topic):
        held, mutants = _of(record.candidates, page.id)
        gates = [one.checks.gates.get("oracle") for one in held]
        passed = all(gate is not None and gate.passed for gate in gates)
        noticed = sum((gate := one.checks.gates.get("oracle")) is not None and not gate.passed for one in mutants)
        title = page.title_zh if lang == "zh" else page.title
        place = f"{title} ({page.part})" if page.part else title
        result = "passed" if passed and noticed == len(mutants) else "failed"
        rows.append(
            (f"`{page.id}`", place, result, str(len(held)), f"{noticed} / {len(mutants)}", _closest(held, lang))
        )
    versions = ", ".join(
        f"{name} {record.runtime.packages[name]}"
        for name in (TORCH, *catalogue.find_topic(topic).frameworks)
        if name in record.runtime.packages
    )
    link = os.path.relpath(entry.path, path.parent).replace(os.sep, "/")
    closing = f"{words['held']} {versions} · {words['record']} [{record.identity.run_label}]({link})"
    return f"{table(_HEADS['pages'][lang], rows)}\n\n{closing}, {record.identity.created_at[:10]}"


def checks(entry: Entry | None, page: str, lang: Language) -> str:
    """One row a check of the page named."""
    if entry is None:
        return _WORDS[lang]["none"]
    rows = []
    for one in _of(entry.record.candidates, page)[0]:
        gate = one.checks.gates.get("oracle")
        name, cases = f"`{_short(one)}`", str(one.settings.get("cases", ""))
        if gate is None:
            rows.append((name, one.failure.message if one.failure else "", cases, "", "", ""))
        else:
            rows.append(
                (name, gate.against, cases, _number(gate.error), _number(gate.tolerance), _source(gate.yardstick))
            )
    return table(_HEADS["checks"][lang], rows)


def faults(entry: Entry | None, page: str, lang: Language) -> str:
    """One row a fault of the page named, with the first check that noticed it."""
    if entry is None:
        return _WORDS[lang]["none"]
    rows = []
    for one in _of(entry.record.candidates, page)[1]:
        gate = one.checks.gates.get("oracle")
        noticed = "—" if gate is None or gate.passed else f"`{gate.against}`"
        module = f"`{one.settings.get('module', '')}`"
        rows.append((str(one.settings.get("fault", "")), module, str(one.settings.get("public_report", "")), noticed))
    return table(_HEADS["faults"][lang], rows)


def _topic(arguments: Sequence[str]) -> str:
    known = [topic.name for topic in catalogue.topics()]
    if len(arguments) != 1 or arguments[0] not in known:
        raise ValueError(f"this part wants a topic that has conformance pages, one of {', '.join(known)}")
    return arguments[0]


def _page(arguments: Sequence[str]) -> PageEntry:
    known = {entry.id: entry for entry in catalogue.entries()}
    if len(arguments) != 1 or arguments[0] not in known:
        raise ValueError(f"this part wants a conformance page, one of {', '.join(known)}")
    return known[arguments[0]]


def _of(candidates: Sequence[Candidate], page: str) -> tuple[list[Candidate], list[Candidate]]:
    """The checks and the faults of one page."""
    mine = [one for one in candidates if one.settings.get("page") == page]
    return [one for one in mine if one.role == "candidate"], [one for one in mine if one.role == "control"]


def _closest(held: Sequence[Candidate], lang: Language) -> str:
    shares = [
        (gate.error / gate.tolerance, one)
        for one in held
        if (gate := one.checks.gates.get("oracle")) is not None and gate.error is not None and gate.tolerance
    ]
    if not shares:
        return _WORDS[lang]["no"]
    share, one = max(shares, key=lambda pair: pair[0])
    return f"{100 * share:.2g} % (`{_short(one)}`)"


def _short(one: Candidate) -> str:
    return one.name.split("/", 1)[1]


def _number(value: float | None) -> str:
    return "" if value is None else "0" if value == 0 else f"{value:.1e}"


def _source(yardstick: str) -> str:
    """`31 roundings: exp, V sums` out of `6.9e-15 (float64, 31 roundings: exp, V sums)`."""
    return yardstick.partition("(")[2].rpartition(")")[0] or yardstick

"""Parts of the evidence contract made from the code that keeps it: fields, limits, levels, and what `compare` asks.

English descriptions come from the schema; the Chinese ones stand in `record_terms.zh.json`, and a term that one side
has and the other lacks is a finding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from experiments.evidence import limits, record_comparison, schema
from experiments.evidence.rules import CURRENT
from experiments.evidence.vocabulary import SCHEMA_VERSION
from tools.rendering.blocks import Language, Maker, language
from tools.rendering.profile_tables import table

TERMS = Path(__file__).with_name("record_terms.zh.json")
FIELD_HEAD: Mapping[Language, tuple[str, ...]] = {
    "en": ("field", "type", "meaning"),
    "zh": ("字段", "类型", "含义"),
}
LIMIT_HEAD: Mapping[Language, tuple[str, ...]] = {
    "en": ("code", "limits", "meaning"),
    "zh": ("代码", "限制什么", "含义"),
}
LIMITED: Mapping[Language, tuple[str, str]] = {"en": ("the level", "claims"), "zh": ("等级", "结论")}
OR_NULL: Mapping[Language, str] = {"en": "{}, or null", "zh": "{}，可为 null"}
LIST_OF: Mapping[Language, str] = {"en": "list of {}", "zh": "{} 的列表"}
MAP_OF: Mapping[Language, str] = {"en": "object of {}", "zh": "对象（值为 {}）"}
ANY: Mapping[Language, str] = {"en": "any JSON", "zh": "任意 JSON"}


def makers() -> dict[str, Maker]:
    """The generated parts of this module, by name. ValueError where the Chinese terms do not fit the schema."""
    return {
        "record-version": _plain(lambda lang: f"    {SCHEMA_VERSION}"),
        "record-groups": _plain(groups),
        "record-limits": _plain(limit_table),
        "record-on-profile": _plain(lambda lang: ", ".join(f"`{name}`" for name in CURRENT.on_profile)),
        "record-compared": _plain(lambda lang: ", ".join(f"`{name}`" for name in record_comparison.FIELDS)),
    }


def groups(lang: Language) -> str:
    """Every group of fields with its table, the record first, then the groups it is made of in order of use."""
    document = schema.build()
    shapes: dict[str, Any] = {"Record": document, **document["$defs"]}
    parts = []
    for name in _in_order_of_use(shapes):
        head = "record" if name == "Record" else f"`{name}`"
        says = _meaning(name, shapes[name]["description"], lang)
        rows = [
            (f"`{field}`", _type(kind, lang), _field_meaning(name, field, kind, shapes, lang))
            for field, kind in shapes[name]["properties"].items()
        ]
        parts.append(f"### {head}\n\n{says}\n\n{table(FIELD_HEAD[lang], rows)}")
    return "\n\n".join(parts)


def limit_table(lang: Language) -> str:
    """Every limit's code, whether it limits the level or claims, and what it means."""
    rows = [
        (f"`{code}`", LIMITED[lang][place], _meaning(f"limit.{code}", says, lang))
        for place, known in enumerate((limits.LEVEL_LIMITS, limits.CLAIM_LIMITS))
        for code, says in known.items()
    ]
    return table(LIMIT_HEAD[lang], rows)


def missing_terms() -> list[str]:
    """Terms that the Chinese file lacks, or has without need."""
    document = schema.build()
    shapes = {"Record": document, **document["$defs"]}
    wanted = set(shapes) | {f"limit.{code}" for code in (*limits.LEVEL_LIMITS, *limits.CLAIM_LIMITS)}
    for name, shape in shapes.items():
        wanted |= {f"{name}.{field}" for field, kind in shape["properties"].items() if "description" in kind}
    return sorted(wanted ^ set(_terms()))


def _plain(make: Callable[[Language], str]) -> Maker:
    def part(arguments: Sequence[str], path: Path) -> str:
        if arguments:
            raise ValueError(f"this part takes no argument, found {' '.join(arguments)}")
        if wrong := missing_terms():
            raise ValueError(f"{TERMS.name} does not fit the schema: {', '.join(wrong[:5])}")
        return make(language(path))

    return part


@cache
def _terms() -> dict[str, str]:
    terms: dict[str, str] = json.loads(TERMS.read_text(encoding="utf-8"))
    return terms


def _meaning(key: str, english: str, lang: Language) -> str:
    return _terms().get(key, "") if lang == "zh" else " ".join(english.split())


def _field_meaning(name: str, field: str, kind: Any, shapes: Mapping[str, Any], lang: Language) -> str:
    """A field's own description, else that of the group it holds."""
    if "description" in kind:
        return _meaning(f"{name}.{field}", kind["description"], lang)
    held = _referred(kind)
    return _meaning(held[0], shapes[held[0]]["description"], lang) if held else ""


def _type(kind: Mapping[str, Any], lang: Language) -> str:
    if "anyOf" in kind:
        return OR_NULL[lang].format(_type(kind["anyOf"][0], lang))
    if "$ref" in kind:
        return f"`{kind['$ref'].rsplit('/', 1)[1]}`"
    if "enum" in kind:
        return ", ".join(f"`{word}`" for word in kind["enum"])
    if kind.get("type") == "array":
        return LIST_OF[lang].format(_type(kind["items"], lang))
    if kind.get("type") == "object":
        return MAP_OF[lang].format(_type(kind["additionalProperties"], lang))
    return kind.get("type") or ANY[lang]


def _in_order_of_use(shapes: Mapping[str, Any]) -> list[str]:
    order: list[str] = []
    ahead = ["Record"]
    while ahead:
        name = ahead.pop(0)
        if name in order:
            continue
        order.append(name)
        ahead = [*_referred(shapes[name]["properties"]), *ahead]
    return order


def _referred(value: Any) -> list[str]:
    if isinstance(value, dict):
        here = [value["$ref"].rsplit("/", 1)[1]] if "$ref" in value else []
        return [*here, *(name for item in value.values() for name in _referred(item))]
    if isinstance(value, list):
        return [name for item in value for name in _referred(item)]
    return []

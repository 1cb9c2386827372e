"""The JSON Schema of a record, read off the dataclasses.

`record.schema.json` is what our records, and others reading them, are validated with. It is generated here, and a test
fails when it drifts:

    python -m experiments.evidence.schema --write
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from experiments.evidence.codec import COMPUTED, hints, later
from experiments.evidence.record import Record
from experiments.evidence.vocabulary import SCHEMA_VERSION, JsonValue, Least, Pattern, Since
from tools.environments.model import STATUS_ORDER

SCHEMA_PATH = Path(__file__).with_name("record.schema.json")
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def build() -> dict[str, Any]:
    """The schema as a plain value."""
    definitions: dict[str, Any] = {}
    _define(Record, definitions)
    top = definitions.pop("Record")
    return {
        "$schema": DIALECT,
        "$id": f"urn:training-mechanism-lab:record:{SCHEMA_VERSION}",
        "title": "Record of one run of one experiment",
        **top,
        "$defs": dict(sorted(definitions.items())),
    }


def text() -> str:
    """The schema as the file holds it."""
    return json.dumps(build(), indent=1, ensure_ascii=False) + "\n"


def _define(cls: type, definitions: dict[str, Any]) -> None:
    if cls.__name__ in definitions:
        return
    definitions[cls.__name__] = {}  # holds the place, should a type ever refer back to itself
    properties = {name: _schema_of(kind, definitions) for name, kind in hints(cls).items()}
    if cls.__name__ in COMPUTED:
        properties[COMPUTED[cls.__name__]] = {"enum": list(STATUS_ORDER)}
    definitions[cls.__name__] = {
        "description": (cls.__doc__ or "").strip(),
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in later(cls)],
        "additionalProperties": False,
    }


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if get_origin(kind) is Annotated:
        inner, *extras = get_args(kind)
        made = _schema_of(inner, definitions)
        for extra in extras:
            if isinstance(extra, Pattern):
                made["pattern"] = extra.expression
            elif isinstance(extra, Least):
                made["minimum"] = extra.value
            elif isinstance(extra, Since):
                made = made["anyOf"][0]  # absent where missing, never null
            elif isinstance(extra, str):
                made = {"description": extra, **made}
        return made
    return _schema_of_plain(kind, definitions)


def _schema_of_plain(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is JsonValue:
        return {}
    if origin in (Union, UnionType):
        (inner,) = (part for part in parts if part is not NoneType)
        return {"anyOf": [_schema_of(inner, definitions), {"type": "null"}]}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(parts[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema_of(parts[1], definitions)}
    if isinstance(kind, type) and is_dataclass(kind):
        _define(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    return {"type": SCALARS[kind]}


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        SCHEMA_PATH.write_text(text(), encoding="utf-8")
    else:
        sys.stdout.write(text())

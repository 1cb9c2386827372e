"""Frozen dataclasses to plain JSON values and back, driven by their type annotations, with the path in every refusal.

The dataclasses own the shape of a record: this module reads it off them, and so does `schema`. Decoding is strict:
an unknown key, a missing key, a wrong type or a value out of its range is a `LabError` that says where.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from experiments.evidence.vocabulary import JsonValue, Least, Pattern, Since
from tools.environments.errors import LabError

T = TypeVar("T")
COMPUTED: dict[str, str] = {"Report": "status"}  # written for readers, recomputed on reading
NEXT = "python -m experiments results verify PATH   (or measure again under a new run label)"


@cache
def hints(cls: type) -> dict[str, Any]:
    """Field name -> annotation with its extras, in the order of declaration."""
    resolved = get_type_hints(cls, include_extras=True)
    return {field.name: resolved[field.name] for field in fields(cls)}


@cache
def later(cls: type) -> dict[str, int]:
    """Field name -> minor version that brought it, for the fields that an older record lacks."""
    extras = {name: getattr(kind, "__metadata__", ()) for name, kind in hints(cls).items()}
    return {name: extra.minor for name, found in extras.items() for extra in found if isinstance(extra, Since)}


def to_json(value: object, where: str = "record") -> Any:
    """The JSON value of a dataclass, mapping, sequence or scalar. Raises LabError on a number that is not finite."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        names = [name for name in hints(kind) if name not in later(kind) or getattr(value, name) is not None]
        written = {name: to_json(getattr(value, name), f"{where}.{name}") for name in names}
        computed = COMPUTED.get(kind.__name__)
        return {**written, computed: getattr(value, computed)} if computed else written
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refuse("a finite number, or null where there is none", str(value), where)
        return value
    if isinstance(value, Mapping):
        return {str(key): to_json(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, Sequence):
        return [to_json(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise _refuse("a value JSON can hold", type(value).__name__, where)


def from_json(cls: type[T], value: object, where: str = "record") -> T:
    """The dataclass `cls` from parsed JSON. Raises LabError with the path of the first thing that does not fit."""
    return cast(T, _decode(cls, value, where))


def _decode(kind: Any, value: object, where: str) -> Any:
    extras: tuple[object, ...] = ()
    if get_origin(kind) is Annotated:
        kind, *rest = get_args(kind)
        extras = tuple(rest)
    decoded = _decode_plain(kind, value, where)
    for extra in extras:
        if isinstance(extra, Pattern) and ("\n" in decoded or re.search(extra.expression, decoded) is None):
            raise _refuse(f"text like {extra.expression}", repr(decoded)[:80], where)
        if isinstance(extra, Least) and decoded < extra.value:
            raise _refuse(f"at least {extra.value:g}", str(decoded)[:40], where)
    return decoded


def _decode_plain(kind: Any, value: object, where: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is JsonValue:
        return _plain_json(value, where)
    if origin in (Union, UnionType):
        if value is None and NoneType in parts:
            return None
        (inner,) = (part for part in parts if part is not NoneType)
        return _decode(inner, value, where)
    if origin is Literal:
        if not isinstance(value, str) or value not in parts:
            raise _refuse(" | ".join(map(str, parts)), repr(value)[:80], where)
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise _refuse("a list", _kind(value), where)
        return tuple(_decode(parts[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _refuse("an object", _kind(value), where)
        return {key: _decode(parts[1], item, f"{where}.{key}") for key, item in value.items()}
    if is_dataclass(kind):
        return _decode_dataclass(cast(type, kind), value, where)
    return _decode_scalar(kind, value, where)


def _decode_scalar(kind: Any, value: object, where: str) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise _refuse("a finite number", str(value)[:40], where)
        return number
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if (kind is bool and isinstance(value, bool)) or (kind is str and isinstance(value, str)):
        return value
    raise _refuse(
        {float: "a number", int: "a whole number", bool: "true or false", str: "text"}[kind], _kind(value), where
    )


def _decode_dataclass(cls: type, value: object, where: str) -> Any:
    if not isinstance(value, dict):
        raise _refuse("an object", _kind(value), where)
    expected = hints(cls)
    computed = COMPUTED.get(cls.__name__)
    unknown = [key for key in value if key not in expected and key != computed]
    if unknown:
        raise _refuse(f"only the fields {', '.join(expected)}", f"an unknown field {unknown[0]!r}"[:120], where)
    required = [name for name in expected if name not in later(cls)]  # the others `consistency` holds to the version
    absent = [name for name in (*required, *([computed] if computed else [])) if name not in value]
    if absent:
        raise _refuse(f"the field {absent[0]} (null where missing)", "no such field", where)
    made = cls(
        **{
            name: _decode(kind, value[name], f"{where}.{name}") if name in value else None
            for name, kind in expected.items()
        }
    )
    if computed and getattr(made, computed) != value[computed]:
        raise _refuse(f"{computed} {getattr(made, computed)}, as the rest says", repr(value[computed])[:80], where)
    return made


def _plain_json(value: object, where: str) -> Any:
    if isinstance(value, dict):
        return {key: _plain_json(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_plain_json(item, f"{where}[{index}]") for index, item in enumerate(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise _refuse("a finite number", str(value), where)
    return value


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def _refuse(wanted: str, found: str, where: str) -> LabError:
    return LabError(wanted=wanted, found=found, next=NEXT, where=where)

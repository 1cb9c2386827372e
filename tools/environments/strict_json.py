"""JSON as these files mean it: one value per key, finite numbers, text that can be printed.

Python's own reader takes more than the standard does (NaN, repeated keys, lone surrogates) and fails in more ways
than one (RecursionError, integers of thousands of digits). Here each of these is a finding with a place and a mend.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

from tools.environments.errors import LabError, unreadable

LARGEST_INTEGER = 2**53  # beyond it other readers of JSON lose digits
MOST_DIGITS = 20


def read(path: Path, where: str) -> object:
    """The value in the file at `path`; `where` is how messages call it. LabError when it is missing or not strict."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(error, where) from None
    return loads(data, where)


def loads(data: bytes, where: str) -> object:
    """The value in `data`. LabError for anything that is not one strict JSON document in UTF-8."""

    def refuse(wanted: str, found: str, mend: str) -> NoReturn:
        raise LabError(wanted, found, mend, where) from None

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(items)
        if len(value) != len(items):
            seen: set[str] = set()
            twice = next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            refuse("each key once in an object", f"the key {twice!a} twice", "keep one of the two")
        return value

    def integer(text: str) -> int:
        value = int(text) if len(text) <= MOST_DIGITS else LARGEST_INTEGER + 1
        if abs(value) > LARGEST_INTEGER:
            refuse("an integer below 2^53", f"one of {len(text)} digits", "write a smaller number")
        return value

    def number(text: str) -> float:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            refuse("a finite number", text[:40], "write a number a float can hold")
        return value

    def constant(text: str) -> NoReturn:
        refuse("a finite number", text, "write null where a value is missing")

    if data.startswith(b"\xef\xbb\xbf"):
        refuse("UTF-8 without a byte order mark", "a byte order mark", "save the file as plain UTF-8")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse("UTF-8 text", f"byte 0x{data[error.start]:02x} at offset {error.start}", "save the file as plain UTF-8")
    try:
        value: object = json.loads(
            text, object_pairs_hook=pairs, parse_int=integer, parse_float=number, parse_constant=constant
        )
    except json.JSONDecodeError as error:
        refuse("JSON", f"line {error.lineno}, column {error.colno}: {error.msg}", "mend that line")
    except RecursionError:
        refuse("JSON nested a few levels deep", "nesting beyond what can be read", "remove the nesting")
    if b"\\u" in data and (lost := _unprintable(value)) is not None:
        refuse("text that can be printed", f"a lone surrogate in {ascii(lost)[:60]}", "write the character itself")
    return value


def _unprintable(value: object) -> str | None:
    """A string below `value` that UTF-8 cannot carry, or None. Iterative, since depth is the reader's to choose."""
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            rest.extend(item.keys())
            rest.extend(item.values())
        elif isinstance(item, list):
            rest.extend(item)
        elif isinstance(item, str) and any("\ud800" <= char <= "\udfff" for char in item):
            return item
    return None

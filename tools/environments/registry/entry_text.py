"""One more experiment in a profile's entry, as an edit of the registry's text: all else keeps its formatting.

The file is written by hand, several fields to a line, and read in diffs; to load it and write it anew would change
every line of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

FIELD = "experiments"
BEFORE = "environment"  # where an entry without the field of its own gets one


class Placed(NamedTuple):
    """A value of a JSON text and where it lies: a field begins with its name, an element of a list with itself."""

    key: str  # empty for an element of a list
    begin: int
    value_begin: int
    end: int


def with_experiment(text: str, profile: str, name: str, inherited: tuple[str, ...] = ()) -> str:
    """The registry's text with `name` last among the experiments of a profile, which has an entry in it.

    `inherited` are those that an entry without a list of its own extends. KeyError for a profile without an entry, such
    as a companion.
    """
    profiles = next(_within(text, field.value_begin) for field in _within(text, 0) if field.key == "profiles")
    for entry in profiles:
        fields = {field.key: field for field in _within(text, entry.value_begin)}
        if "id" in fields and _value(text, fields["id"]) == profile:
            if FIELD in fields:
                return _appended(text, fields[FIELD], name)
            listed = json.dumps([*inherited, name])
            place = fields.get(BEFORE, fields["id"]).begin
            line = text.rfind("\n", 0, place) + 1
            parting = f"\n{text[line:place]}" if text[line:place].isspace() else " "
            return f'{text[:place]}"{FIELD}": {listed},{parting}{text[place:]}'
    raise KeyError(profile)


def _appended(text: str, field: Placed, name: str) -> str:
    """The list with one more element, parted from the last as the last two are from each other."""
    elements = list(_within(text, field.value_begin))
    added = json.dumps(name)
    if not elements:
        return f"{text[: field.value_begin]}[{added}]{text[field.end :]}"
    last, begin = elements[-1], field.value_begin + 1
    parting = text[elements[-2].end : last.begin] if len(elements) > 1 else ", "
    if len(elements) == 1 and "\n" in text[begin : last.begin]:
        parting = "," + text[begin : last.begin]
    return text[: last.end] + parting + added + text[last.end :]


def _value(text: str, placed: Placed) -> object:
    return json.loads(text[placed.value_begin : placed.end])


def _within(text: str, begin: int) -> Iterator[Placed]:
    """The fields or elements of the object or list that begins there. The text is known to be strict JSON."""
    decoder, place = json.JSONDecoder(), _past_blanks(text, begin)
    named = text[place] == "{"
    place = _past_blanks(text, place + 1)
    while text[place] not in "}]":
        first, key = place, ""
        if named:
            key, place = decoder.raw_decode(text, place)
            place = _past_blanks(text, _past_blanks(text, place) + 1)  # behind the colon
        _, end = decoder.raw_decode(text, place)
        yield Placed(key, first, place, end)
        place = _past_blanks(text, end)
        place = _past_blanks(text, place + 1) if text[place] == "," else place


def _past_blanks(text: str, place: int) -> int:
    while text[place : place + 1].isspace():
        place += 1
    return place

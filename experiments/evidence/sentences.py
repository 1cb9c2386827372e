"""Sentences as data: a template with named fields, and a `Said` that names the template and what fills it.

A template is a text with fields as in Python's format strings, `{name}` or `{name:spec}`; there are no choices and no
loops in it. A part that is not always said is a template of its own, a clause: it is an argument of the sentence.
Arguments are numbers in full precision and names from the record, so that the text can be made again from them, in
another language too, by templates of the same codes. A committed record names codes, so a template never changes its
words: another wording is another code.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from experiments.evidence.conclusion import Claim, Decision, Said
from experiments.evidence.quantities import GIB, gib, milliseconds, percent
from experiments.evidence.vocabulary import DecisionCode

Templates: TypeAlias = Mapping[str, str]  # text by code
CLAUSE = frozenset({"code", "arguments"})  # keys of a clause where it is an argument


class Sentence(NamedTuple):
    """What is said, as data and as text."""

    said: Said
    text: str


def names(given: Sequence[str]) -> str:
    """Names joined by commas; by semicolons where a name has a comma of its own."""
    return ("; " if any("," in name for name in given) else ", ").join(given)


NAMED: Mapping[str, Callable[[Any], str]] = {  # specs beside Python's own
    "gib": gib,  # bytes as GiB, with as many digits as they deserve; `gib.2f`: with two decimals
    "ms": milliseconds,
    "names": names,
    "percent": percent,  # of a share
    "quoted": repr,  # what a user gave
    "words": lambda word: word.replace("_", " "),  # a word of the record
}


def say(templates: Templates, code: str, **arguments: object) -> Sentence:
    """The sentence of that code, and how it is recorded.

    An argument is a number, a text, a list of texts, or a clause: a sentence itself, or a list of them. A list is
    joined by the field's spec. Raises KeyError for a code without a template, ValueError for arguments that are
    missing, too many, no JSON values, or none that the template can show.
    """
    data = {name: _data(f"{code}.{name}", value) for name, value in arguments.items()}
    shown = {name: _words_of_clauses(value) for name, value in arguments.items()}
    return Sentence(Said(code=code, arguments=data), _filled(code, templates[code], shown))


def text_of(templates: Templates, said: Said) -> str:
    """The text made again from a record's code and arguments.

    Raises KeyError for a code, its own or a clause's, without a template, ValueError for arguments that do not fill it.
    """
    try:
        return _again(templates, said.code, said.arguments)
    except RecursionError:
        raise ValueError(f"{said.code}: clauses nested too deep") from None


def merged(*parts: Templates) -> Templates:
    """Templates of several sources as one mapping. Raises ValueError where two use one code."""
    found: dict[str, str] = {}
    for part in parts:
        for code, text in part.items():
            if code in found:
                raise ValueError(f"two templates of the code {code}")
            found[code] = text
    return found


def fields(template: str) -> frozenset[str]:
    """Names of the fields of a template: the arguments it needs. Raises ValueError for one that is more than a name."""
    return frozenset(name for _, name, _ in _parts(template) if name is not None)


def claim(kind: str, sentence: Sentence, candidates: Sequence[str], rests_on: Sequence[str]) -> Claim:
    """A claim, not yet graded, that states a sentence."""
    return Claim(
        kind=kind,
        statement=sentence.text,
        said=sentence.said,
        candidates=tuple(candidates),
        rests_on=tuple(rests_on),
    )


def decision(code: DecisionCode, sentence: Sentence) -> Decision:
    """A decision for which a sentence gives the reason."""
    return Decision(code=code, sentence=sentence.text, said=sentence.said)


def _again(templates: Templates, code: str, arguments: Mapping[str, Any]) -> str:
    return _filled(code, templates[code], {name: _read(templates, value) for name, value in arguments.items()})


def _read(templates: Templates, value: Any) -> Any:
    """An argument of a record as it is shown: a clause as its text."""
    if isinstance(value, Mapping) and value.keys() == CLAUSE and isinstance(value["arguments"], Mapping):
        return _again(templates, str(value["code"]), value["arguments"])
    return [_read(templates, item) for item in value] if isinstance(value, list | tuple) else value


def _words_of_clauses(value: object) -> object:
    if isinstance(value, Sentence):
        return value.text
    return [_words_of_clauses(item) for item in value] if isinstance(value, list | tuple) else value


def _data(where: str, value: object) -> Any:
    """An argument as a JSON value, in the containers that reading a record gives."""
    if isinstance(value, Sentence):
        return {"code": value.said.code, "arguments": value.said.arguments}
    if isinstance(value, list | tuple):
        return tuple(_data(where, item) for item in value)
    if not isinstance(value, str | int | float) or isinstance(value, bool) or not math.isfinite(_number(value)):
        raise ValueError(f"{where}: {value!r} is no argument of a sentence")
    return value


def _number(value: str | float) -> float:
    return value if isinstance(value, float) else 0.0


def _filled(code: str, template: str, values: Mapping[str, Any]) -> str:
    wanted = fields(template)
    if wanted != values.keys():
        missing, surplus = sorted(wanted - values.keys()), sorted(values.keys() - wanted)
        raise ValueError(f"{code}: arguments missing {missing}, too many {surplus}")
    try:
        return "".join(
            literal if name is None else literal + _shown(values[name], spec)
            for literal, name, spec in _parts(template)
        )
    except (TypeError, ValueError, OverflowError, AttributeError) as error:  # a record may hold any value
        raise ValueError(f"{code}: {error}") from None


def _parts(template: str) -> list[tuple[str, str | None, str]]:
    """Literal text, and the field that follows it with its spec; None where none follows."""
    found = []
    for literal, name, spec, conversion in string.Formatter().parse(template):
        if name is not None and (not name.isidentifier() or conversion or "{" in (spec or "")):
            raise ValueError(f"a field is a name with a plain spec: {name!r} in {template!r}")
        found.append((literal, name, spec or ""))
    return found


def _shown(value: Any, spec: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | list):
        raise TypeError(f"{type(value).__name__} cannot be shown")
    if spec in NAMED:
        return NAMED[spec](value)
    if isinstance(value, list):
        return spec.join(value)
    if spec.startswith("gib.") and not isinstance(value, str):
        return format(value / GIB, spec.removeprefix("gib"))
    return format(value, spec)

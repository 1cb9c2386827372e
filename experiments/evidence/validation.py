"""Checking a parsed record against its schema: version first, then shape. jsonschema is imported only when needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

from experiments.evidence import earlier_shapes
from experiments.evidence.vocabulary import SCHEMA_VERSION
from tools.environments import strict_json
from tools.environments.errors import LabError

FORMAT_EXTRAS = (
    "fqdn",
    "idna",
    "isoduration",
    "jsonpointer",
    "rfc3339_validator",
    "rfc3986_validator",
    "rfc3987",
    "rfc3987_syntax",
    "uri_template",
    "webcolors",
)
SCHEMA_PATH = Path(__file__).with_name("record.schema.json")
# What records of 1.0 and 1.1 were written by: kept as it was, never generated again.
EARLIER_SCHEMA_PATH = Path(__file__).with_name("record-1.1.schema.json")


class MissingPackageError(LabError):
    """No record can be read here at all: about the environment, never about one record."""


def check_version(document: object, where: str) -> None:
    """Refuse a record of another major version, or of a newer minor one, before its shape is looked at."""
    identity = document.get("identity") if isinstance(document, dict) else None
    version = identity.get("schema_version") if isinstance(identity, dict) else None
    parts = version.split(".") if isinstance(version, str) else []
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 7 for part in parts):
        raise LabError(
            "a record with identity.schema_version", ascii(version)[:60], "name a record.json made by a run", where
        )
    theirs, ours = [int(part) for part in parts], [int(part) for part in SCHEMA_VERSION.split(".")]
    if theirs[0] != ours[0]:
        mend = "check out the version of this repository" if theirs[0] < ours[0] else "update this checkout: git pull"
        raise LabError(
            f"a record of schema version {ours[0]}.x", f"version {version}", f"{mend}, then read it there", where
        )
    if theirs[1] > ours[1]:
        raise LabError(
            f"a record up to schema version {SCHEMA_VERSION}",
            f"version {version}",
            "update this checkout: git pull",
            where,
        )


def validate(document: object, where: str) -> None:
    """Check a parsed record against its version's schema file. Raises LabError with the path of the worst fault."""
    best_match, validator = _validator(EARLIER_SCHEMA_PATH if earlier_shapes.is_earlier(document) else SCHEMA_PATH)
    try:
        error = best_match(validator.iter_errors(document))
    except RecursionError:
        raise LabError(
            "JSON nested a few levels deep", "deeper nesting", "name a record made by a run", where
        ) from None
    if error is not None:
        raise LabError(
            f"{_place(error.absolute_path)}: {_wanted(error)}",
            _found(error),
            "restore the file, or measure again under a new run label: a record is never edited",
            where,
        )


def require() -> None:
    """Raises MissingPackageError where this environment cannot validate: asked before work that ends in a record."""
    _validator(SCHEMA_PATH)


@cache
def _validator(path: Path) -> tuple[Any, Any]:
    try:
        with _no_format_extras():
            from jsonschema import Draft202012Validator
            from jsonschema.exceptions import best_match
    except ImportError:
        raise MissingPackageError(
            "the package jsonschema, to validate records",
            "an environment without it",
            "run this in a profile's environment: python tools/install_environment_profile.py --profile TRAIN-CPU",
        ) from None
    return best_match, Draft202012Validator(cast(dict[str, Any], strict_json.read(path, path.name)))


@contextmanager
def _no_format_extras() -> Iterator[None]:
    """Import jsonschema without the packages that check formats, which the schema does not use.

    Where Jupyter is installed they are there, and building one of their grammars takes a second of every command.
    """
    if "jsonschema" in sys.modules:
        yield
        return
    hidden = [name for name in FORMAT_EXTRAS if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: "import" fails, as if not installed
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def _place(path: Any) -> str:
    return "record" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _found(error: Any) -> str:
    if error.validator == "additionalProperties" and error.validator_value is False:
        unknown = next(name for name in error.instance if name not in error.schema["properties"])
        return f"the field {ascii(unknown)[:80]}"
    return ascii(error.instance)[:100]


def _wanted(error: Any) -> str:
    rule, value = error.validator, error.validator_value
    if rule == "required":
        absent = [name for name in value if name not in error.instance]
        return f"the field {absent[0]} (null where missing)"
    if rule == "additionalProperties":
        return "only the fields of the schema"
    if rule == "anyOf":
        return "one of the kinds the schema allows"
    return f"{rule} {value}"[:160]

"""What each field of the registry may hold, as small functions that accept a value or refuse it with its place.

This is the authority; requirements/environment-profiles.schema.json says the same for editors, and a test holds the two
together. A shape takes a value and its JSON pointer and raises LabError with pointer, rule and mend.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NoReturn

from tools.environments.errors import LabError

REGISTRY_NAME = "requirements/environment-profiles.json"
END = r"(?![\s\S])"  # the true end of a string, in Python's and in ECMA's dialect; `$` forgives a newline

Shape = Callable[[object, str], None]


def refuse(pointer: str, wanted: str, found: str, mend: str) -> NoReturn:
    """Every refusal of a registry: the place as a JSON pointer, the rule, and how to mend it."""
    raise LabError(wanted, found, mend, where=f"{REGISTRY_NAME}#{pointer}")


def describe(value: object) -> str:
    """A value in one short line, whatever it is."""
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def step(pointer: str, key: str | int) -> str:
    """The pointer one level deeper (RFC 6901 escapes)."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def text(pattern: str | None = None, example: str = "") -> Shape:
    """A string; with a pattern, one that matches it from start to true end."""
    matcher = re.compile(pattern + END) if pattern else None
    wanted = f"text such as {example!r}" if example else "text that is not empty"

    def check(value: object, pointer: str) -> None:
        if not isinstance(value, str) or not value or (matcher and not matcher.match(value)):
            refuse(pointer, wanted, describe(value), "write it like that")

    return check


def one_of(*choices: str) -> Shape:
    def check(value: object, pointer: str) -> None:
        if not isinstance(value, str) or value not in choices:
            refuse(pointer, f"one of {', '.join(choices)}", describe(value), "choose one of these")

    return check


def number(least: float, whole: bool = False) -> Shape:
    """A number of at least `least`; `whole` asks for an integral value (1.0 counts, as it does in JSON Schema)."""
    wanted = f"{'a whole' if whole else 'a'} number, {least:g} or more"

    def check(value: object, pointer: str) -> None:
        good = isinstance(value, int | float) and not isinstance(value, bool) and value >= least
        if not good or (whole and isinstance(value, float) and not value.is_integer()):
            refuse(pointer, wanted, describe(value), "write such a number, without quotes")

    return check


def boolean(value: object, pointer: str) -> None:
    if not isinstance(value, bool):
        refuse(pointer, "true or false", describe(value), "write one of them, without quotes")


def nullable(shape: Shape) -> Shape:
    def check(value: object, pointer: str) -> None:
        if value is not None:
            shape(value, pointer)

    return check


def items(shape: Shape, least: int = 0) -> Shape:
    """A list whose entries are of one shape, each there once."""

    def check(value: object, pointer: str) -> None:
        if not isinstance(value, list) or len(value) < least:
            refuse(pointer, f"a list of {least} or more", describe(value), "write a list in [ ]")
        for place, item in enumerate(value):
            shape(item, step(pointer, place))
            if item in value[:place]:
                refuse(step(pointer, place), "each entry once", f"{describe(item)} twice", "remove one of them")

    return check


def fields(shapes: Mapping[str, Shape], required: tuple[str, ...] = ()) -> Shape:
    """An object with these fields and no other."""

    def check(value: object, pointer: str) -> None:
        if not isinstance(value, dict):
            refuse(pointer, "an object in { }", describe(value), "write an object")
        for key, item in value.items():
            if key not in shapes:
                refuse(step(pointer, key), f"one of the fields {', '.join(shapes)}", f"{key!r}", "remove or rename it")
            shapes[key](item, step(pointer, key))
        for key in required:
            if key not in value:
                refuse(step(pointer, key), f"the field {key!r}", "nothing there", "add it")

    return check


def table(key_shape: Shape, shape: Shape) -> Shape:
    """An object whose keys are free names and whose values are of one shape."""

    def check(value: object, pointer: str) -> None:
        if not isinstance(value, dict):
            refuse(pointer, "an object in { }", describe(value), "write an object")
        for key, item in value.items():
            key_shape(key, step(pointer, key))
            shape(item, step(pointer, key))

    return check


DISTRIBUTION = text(r"^[a-z0-9]+(-[a-z0-9]+)*", "huggingface-hub")
NAME = text(r"^[a-z][a-z0-9_.-]*", "cuda-12.8")
PROFILE_ID = text(r"^[A-Z][A-Z0-9]*(-[A-Z0-9]+)*", "TRAIN-CPU")
DRIVER = text(r"^[0-9]+(\.[0-9]+)*", "570")
DOCUMENT = text(r"^docs/[a-z0-9_]+(/[a-z0-9_]+)*\.md", "docs/performance/quickstart.md")
INDEX = text(r"^https://[a-z0-9./_-]+", "https://download.pytorch.org/whl/cu128")
LAYER = one_of("cpu", "delivery", "cuda", "serving")

_NUMBERS = r"[0-9]{1,9}(\.[0-9]{1,9})"
_CLAUSE = rf"((==|!=|>=|<=|<|>){_NUMBERS}*|~={_NUMBERS}+)"  # what PEP 440 has, less pre-releases and wildcards
TORCH = fields(
    {
        "specifier": text(f"^{_CLAUSE}(,{_CLAUSE})*", ">=2.11,<2.14"),
        "build": text(r"^(cpu|cu[0-9]{3})", "cu128"),
        "cuda": nullable(text(r"^[0-9]+\.[0-9]", "12.8")),
        "index": INDEX,
    }
)
GPU = fields(
    {
        "count": number(1, whole=True),
        "memory_gib": number(1),
        "driver_floor": DRIVER,
        "driver_native": DRIVER,
        "compute_capability": text(r"^[0-9]+\.[0-9]", "7.5"),
    }
)
HOST = fields(
    {
        "systems": items(one_of("linux-x86_64", "linux-aarch64", "darwin-arm64"), least=1),
        "memory_gib": number(1),
        "download_gib": number(0),
        "disk_gib": number(0),
        "minutes": text(r"^[0-9]{1,4}(-[0-9]{1,4})?", "2-4"),
    }
)
ENTRY: Mapping[str, Shape] = {
    "extends": text(r"^[A-Za-z][A-Za-z0-9_.-]*", "cuda-12.8"),
    "layer": LAYER,
    "title": text(),
    "title_zh": text(),
    "purpose": text(),
    "purpose_zh": text(),
    "python": items(text(r"^3\.[0-9]+", "3.12"), least=1),
    "torch": nullable(TORCH),
    "requirements": items(text(r"^[a-z0-9][a-z0-9._-]*\.txt", "training-mechanism.txt"), least=1),
    "constraints": items(text(r"^constraints/[a-z0-9][a-z0-9._-]*\.txt", "constraints/torch-mechanism.txt")),
    "capabilities": items(NAME),
    "required_modules": items(text(r"^[A-Za-z_][A-Za-z0-9_.]*", "huggingface_hub"), least=1),
    "gpu": nullable(GPU),
    "host": HOST,
    "environment": text(r"^[a-z][a-z0-9_]*", "llm_train_cpu"),
    "dtypes": items(one_of("float32", "tf32", "float16", "bfloat16")),
    "experiments": items(text(r"^[a-z][a-z0-9_]*", "mixed_precision_backward")),
    "judgements": items(text(r"^[a-z][a-z0-9_]*", "performance_delivery")),
    "tags": items(one_of("cpu", "cuda", "serving", "multi-gpu")),
    "topic": text(r"^[a-z][a-z0-9_]*", "training_mechanism"),
}
NESTED: Mapping[
    str, tuple[str, ...]
] = {  # objects that merge field by field under `extends`, and what they must end with
    "torch": ("specifier", "build", "cuda", "index"),
    "gpu": ("count", "memory_gib", "driver_floor", "driver_native", "compute_capability"),
    "host": ("systems", "memory_gib", "download_gib", "disk_gib", "minutes"),
}


def _version_one(value: object, pointer: str) -> None:
    if value != 1 or isinstance(value, bool):
        refuse(pointer, "schema_version 1", describe(value), "use the tools of the checkout this registry is from")


FAMILY = fields(
    {"packages": items(DISTRIBUTION, least=1), "layers": items(LAYER), "gpus": number(1, whole=True)},
    required=("packages", "layers"),
)
DOCUMENTS = ("title", "title_zh", "quickstart", "assets")
TOPIC = fields(
    {"title": text(), "title_zh": text(), "quickstart": DOCUMENT, "assets": DOCUMENT, "generated": boolean},
    required=(*DOCUMENTS, "generated"),
)
BUILD_PARTS = {"build": text(r"^cu[0-9]{3}", "cu130"), "cuda": text(r"^[0-9]+\.[0-9]", "13.0"), "index": INDEX}
SAVED = {"download_gib": number(0), "disk_gib": number(0)}
COMPANION = {
    "of": text(r"^cu[0-9]{3}", "cu128"),
    "torch": fields(BUILD_PARTS, required=tuple(BUILD_PARTS)),
    "driver": DRIVER,
    "saves": fields(SAVED, required=tuple(SAVED)),
}
DOCUMENT_SHAPE = fields(
    {
        "$schema": text(),
        "schema_version": _version_one,
        "isolation": fields({"families": table(NAME, FAMILY), "alone": items(NAME)}, required=("families", "alone")),
        "cuda130": fields(COMPANION, required=tuple(COMPANION)),
        "topics": table(ENTRY["topic"], TOPIC),
        "templates": table(NAME, fields(ENTRY)),
        "profiles": items(fields({"id": PROFILE_ID, "cuda130": boolean, **ENTRY}, required=("id",)), least=1),
    },
    required=("schema_version", "isolation", "cuda130", "topics", "templates", "profiles"),
)

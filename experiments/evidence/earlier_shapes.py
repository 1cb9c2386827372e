"""Records of schema 1.0 and 1.1 in the shape of 1.2 and back: pure JSON to JSON, losing and adding nothing.

Those versions knew one subject, a training step: its quantities were fields of a sample and its gates fields of the
checks. Read, such a record has the kind `training_step`; written, it has its own shape again, byte for byte in meaning:
`downgrade(upgrade(document)) == document`. A document that is no record passes through, for the codec to refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIRST_OF_THIS_SHAPE = 2  # minor version
TIMES = ("step_ms", "wall_ms", "busy_ms")
VALUES = (*TIMES, "loss", "loss_scale")  # fields of a sample, in their order
GATES = ("gradient", "update", "oracle")  # fields of the checks, in their order
GROUNDS = {  # what the kinds of claims of those versions needed of each candidate named
    "memory": ["peak_allocated_bytes"],
    "time": ["step_ms"],
    "gradient_equivalence": ["gradient"],
    "scaler_semantics": ["scaler"],
}
TRAINING_STEP: tuple[dict[str, Any], ...] = tuple(
    {"word": word, "unit": unit, "better": better, "main": main, "taken": taken}
    for word, unit, better, main, taken in (
        ("step_ms", "ms", "lower", True, "repetition"),
        ("wall_ms", "ms", "lower", False, "repetition"),
        ("busy_ms", "ms", "lower", False, "repetition"),
        ("loss", "nats", None, False, "repetition"),
        ("loss_scale", "ratio", None, False, "repetition"),
        ("peak_allocated_bytes", "bytes", "lower", True, "process"),
        ("peak_reserved_bytes", "bytes", "lower", False, "process"),
        ("process_bytes", "bytes", "lower", False, "process"),
        ("after_forward_bytes", "bytes", "lower", False, "process"),
        ("state_bytes", "bytes", "lower", False, "process"),
        ("transferred_bytes", "bytes", None, False, "process"),
    )
)


def is_earlier(document: object) -> bool:
    """Whether a parsed record has the shape of 1.0 or 1.1."""
    identity = document.get("identity") if isinstance(document, dict) else None
    version = identity.get("schema_version") if isinstance(identity, dict) else None
    parts = version.split(".") if isinstance(version, str) else []
    return len(parts) == 3 and parts[0] == "1" and parts[1].isdigit() and int(parts[1]) < FIRST_OF_THIS_SHAPE


def upgrade(document: Any) -> Any:
    """A record of 1.0 or 1.1 in the shape of 1.2. Its version number stays: it says which rules and schema are its."""
    out = dict(document)
    launch = {"type": "process", "ranks": 1}
    out["identity"] = {**document["identity"], "kind": "training_step", "launch": launch, "rules": 1}
    out["quantities"] = [dict(quantity) for quantity in TRAINING_STEP]
    _each(out, "candidates", _candidate)
    _each(out, "claims", _claim)
    _each(out, "limits", _with_said)
    _one(out, "decision", _with_said)
    return out


def downgrade(document: dict[str, Any]) -> dict[str, Any]:
    """What `upgrade` made of a record, in its own shape again."""
    out = dict(document)
    out["identity"] = _without(document["identity"], "kind", "launch", "rules")
    del out["quantities"]
    _each(out, "candidates", _candidate_again)
    _each(out, "claims", _claim_again)
    _each(out, "limits", _without_said)
    _one(out, "decision", _without_said)
    return out


def _candidate(candidate: dict[str, Any]) -> dict[str, Any]:
    out = dict(candidate)
    _each(out, "samples", lambda sample: _gathered(sample, VALUES, "values"))
    _one(out, "summary", lambda summary: _gathered(summary, TIMES, "intervals"))
    _one(out, "checks", lambda checks: _gathered(checks, GATES, "gates"))
    if isinstance(out.get("checks"), dict):
        out["checks"]["wanted"] = (
            ["finite"] if candidate.get("role") == "baseline" else ["finite", "gradient", "update"]
        )
    return out


def _candidate_again(candidate: dict[str, Any]) -> dict[str, Any]:
    out = dict(candidate)
    _each(out, "samples", lambda sample: _scattered(sample, VALUES, "values", before="skipped"))
    _one(out, "summary", lambda summary: _scattered(summary, TIMES, "intervals"))
    _one(out, "checks", lambda checks: _scattered(_without(checks, "wanted"), GATES, "gates"))
    return out


def _gathered(value: dict[str, Any], names: tuple[str, ...], into: str) -> dict[str, Any]:
    """Fields of a dict as one mapping; a null among them is absent there. A field that is missing stays missing."""
    if any(name not in value for name in names):
        return value  # not one of ours: the codec says what is wrong
    rest = _without(value, *names)
    return {**rest, into: {name: value[name] for name in names if value[name] is not None}}


def _scattered(value: dict[str, Any], names: tuple[str, ...], out_of: str, before: str = "") -> dict[str, Any]:
    fields = {name: value[out_of].get(name) for name in names}
    out: dict[str, Any] = {}
    for key, item in _without(value, out_of).items():
        if key == before:
            out.update(fields)
        out[key] = item
    return out if before else {**out, **fields}


def _claim(claim: dict[str, Any]) -> dict[str, Any]:
    out = {**_with_said(claim), "rests_on": GROUNDS.get(str(claim.get("kind")), [])}
    _each(out, "limits", _with_said)
    return out


def _claim_again(claim: dict[str, Any]) -> dict[str, Any]:
    out = _without(claim, "said", "rests_on")
    _each(out, "limits", _without_said)
    return out


def _with_said(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "said": None}


def _without_said(value: dict[str, Any]) -> dict[str, Any]:
    return _without(value, "said")


def _without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in names}


def _each(document: dict[str, Any], name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    found = document.get(name)
    if isinstance(found, list):
        document[name] = [change(item) if isinstance(item, dict) else item for item in found]


def _one(document: dict[str, Any], name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    found = document.get(name)
    if isinstance(found, dict):
        document[name] = change(found)

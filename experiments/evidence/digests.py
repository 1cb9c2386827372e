"""Digests of values, all of one form: sha256 over canonical JSON (sorted keys, no spaces, UTF-8, finite numbers)."""

from __future__ import annotations

import hashlib
import json

from experiments.evidence.codec import to_json


def digest_of(value: object) -> str:
    """`sha256:` and the hash of a JSON value or of a frozen dataclass of this package. Raises LabError on NaN."""
    plain = to_json(value, "value")
    return digest_of_text(json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False))


def digest_of_text(text: str) -> str:
    """`sha256:` and the hash of a text in UTF-8: for what is no JSON, such as a card's identifier."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

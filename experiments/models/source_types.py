"""The values every model source returns: which model and tokenizer take part, and where their files lie.

Whoever loads a model (hub, local folder, registered configuration) answers with one `ModelAsset`; the harness builds
the network from it and copies its `identity` into the record. Nothing here imports torch, transformers or a client.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

WeightsSource = Literal["hub", "local", "random_init"]
ModelSource = Literal["config", "hub", "local"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a user asked for: `source` says where to look, `path` is the folder of a local source."""

    id: str
    source: ModelSource = "config"
    revision: str | None = None  # branch, tag or commit; None: the source's default branch
    path: Path | None = None
    local_files_only: bool = False


@dataclass(frozen=True, slots=True)
class TokenizerIdentity:
    """Which tokenizer made the ids. `digest` is over its file's bytes ("sha256:...")."""

    id: str
    commit: str | None  # None: shipped in this repository, whose own commit the record carries
    digest: str


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model took part. Two records are comparable only where all of this agrees."""

    id: str
    requested_revision: str | None
    resolved_commit: str | None  # None for random_init and for a local folder without a commit
    weights_source: WeightsSource
    parameter_count: int
    config_digest: str  # `digests.digest_of(config)`
    tokenizer: TokenizerIdentity
    chat_template: str | None = None  # digest of the template, None: none is applied
    thinking_mode: str | None = None
    weights_digest: str | None = None  # digest over the weight files' own digests, None for random_init


@dataclass(frozen=True, slots=True)
class ModelAsset:
    """A model that can be built: its configuration, its weight files (none: seeded random weights), its tokenizer file.

    `config` is the parsed config.json. `tokenizer_file` is a `tokenizer.json` for the `tokenizers` library; None takes
    the small tokenizer shipped here, whose ids lie inside any registered vocabulary.
    """

    identity: ModelIdentity
    config: Mapping[str, object]
    weight_files: tuple[Path, ...] = ()
    tokenizer_file: Path | None = None
    notes: tuple[str, ...] = field(default=())  # for people, such as "served from the local cache"


def digest_of_file(path: Path) -> str:
    """Digest of a file's bytes, read in blocks. Raises OSError."""
    with path.open("rb") as stream:
        return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()

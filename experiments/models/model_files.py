"""Which files make a model, and the asset they add up to: shared by the hub and the local folder.

Only config.json, tokenizer.json and safetensors are read: pickled weights can run code when they are loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.evidence.digests import digest_of
from experiments.models import safetensors_header
from experiments.models.registered_config import shape
from experiments.models.source_types import ModelAsset, ModelIdentity, TokenizerIdentity, WeightsSource
from experiments.models.tokenizer import shipped_identity, vocabulary
from tools.environments.errors import LabError

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model's files on disk and the sha256 of each ("sha256:..."), by the name they have in the model."""

    paths: Mapping[str, Path]
    digests: Mapping[str, str]

    @property
    def weights(self) -> tuple[str, ...]:
        """Names of the weight files, sorted."""
        return tuple(sorted(name for name in self.paths if name.endswith(".safetensors")))


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the files came from, as the record says it."""

    id: str
    source: WeightsSource
    requested_revision: str | None = None
    commit: str | None = None
    notes: tuple[str, ...] = ()


def weight_names(present: Collection[str], read_index: Callable[[], bytes], where: str) -> tuple[str, ...]:
    """The weight files of a model: one, or the parts its index names. Raises LabError when there are none to use."""
    if WEIGHTS in present:
        return (WEIGHTS,)
    if INDEX not in present:
        pickled = sorted(name for name in present if name.endswith((".bin", ".pt", ".pth")))
        raise LabError(
            wanted=f"weights as {WEIGHTS}, or in parts with {INDEX}",
            found=f"pickled weights only: {', '.join(pickled[:3])}" if pickled else "neither",
            next="choose a revision or folder with safetensors weights; pickled ones are not loaded",
            where=where,
        )
    parts = json_object(read_index(), INDEX).get("weight_map")
    names = sorted(set(parts.values()), key=str) if isinstance(parts, dict) else []
    if not names or not all(isinstance(name, str) and plain(name) for name in names):
        raise LabError(
            wanted=f"{INDEX} that maps each tensor to a file beside it",
            found="something else",
            next="copy or download the file again",
            where=where,
        )
    return tuple(names)


def plain(name: str) -> bool:
    """Whether a part's name stays inside the model's folder and is safetensors."""
    return name.endswith(".safetensors") and "/" not in name and "\\" not in name


def json_object(content: bytes, name: str) -> dict[str, object]:
    """Parse a JSON object. Raises LabError for anything else."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise LabError(
            wanted=f"{name}: a JSON object",
            found="text that is none",
            next="copy or download the file again",
            where=name,
        )
    return value


def assemble(files: ModelFiles, origin: Origin) -> ModelAsset:
    """The asset of complete, checked files. Raises LabError where configuration, weights and tokenizer do not fit."""
    config = json_object(files.paths[CONFIG].read_bytes(), CONFIG)
    sizes = shape(config, CONFIG)
    weights = tuple(files.paths[name] for name in files.weights)
    stored = safetensors_header.count(safetensors_header.read_all(weights), tied=sizes.tied)
    if stored != sizes.parameters:
        raise LabError(
            wanted=f"weights of the model {CONFIG} describes: {sizes.parameters:,} parameters",
            found=f"{stored:,}",
            next="bring files of one model and one revision together again",
            where=origin.id,
        )
    notes = origin.notes
    if TOKENIZER in files.paths:
        tokenizer = TokenizerIdentity(id=origin.id, commit=origin.commit, digest=files.digests[TOKENIZER])
    else:
        tokenizer = shipped_identity()
        notes = (*notes, f"no {TOKENIZER} there: text is read with the small tokenizer shipped here")
        if sizes.vocabulary < vocabulary():
            raise LabError(
                wanted=f"a {TOKENIZER}, or a vocabulary of at least {vocabulary()} for the tokenizer shipped here",
                found=f"no {TOKENIZER}, and a vocabulary of {sizes.vocabulary}",
                next=f"add the model's {TOKENIZER}",
                where=origin.id,
            )
    identity = ModelIdentity(
        id=origin.id,
        requested_revision=origin.requested_revision,
        resolved_commit=origin.commit,
        weights_source=origin.source,
        parameter_count=stored,
        config_digest=digest_of(config),
        tokenizer=tokenizer,
        weights_digest=digest_of({name: files.digests[name] for name in files.weights}),
    )
    return ModelAsset(
        identity=identity, config=config, weight_files=weights, tokenizer_file=files.paths.get(TOKENIZER), notes=notes
    )

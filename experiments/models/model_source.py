"""One question for every kind of model source: which model is this, exactly, and where are its files?"""

from __future__ import annotations

from pathlib import Path

from experiments.models import registered_config
from experiments.models.source_types import ModelAsset, ModelIdentity, ModelRequest
from tools.environments.errors import EXIT_USAGE, LabError


def resolve(request: ModelRequest, *, cache: Path | None = None) -> ModelAsset:
    """The asset a request stands for. `cache` replaces the hub client's cache folder. Raises LabError.

    `config`: a registered configuration with random weights, nothing is read or asked elsewhere. `local`: a folder.
    `hub`: the hub's client, or its cache alone with `local_files_only`.
    """
    if request.source == "config":
        return registered_config.asset(request.id)
    if request.source == "local":
        from experiments.models import local

        if request.path is None:
            raise LabError(
                wanted="the folder of the local model",
                found="none given",
                next="name it: --model-source local --model FOLDER",
                where="--model",
                code=EXIT_USAGE,
            )
        return local.resolve(request.path)
    from experiments.models import hub

    return hub.resolve(request, cache)


def same_commit(begun: ModelIdentity, resolved: ModelAsset) -> None:
    """Stop a resumed run whose model is no longer the one it began with: raises LabError, names what changed.

    Commits decide for a hub model, file digests for a local one, the configuration for random weights; the tokenizer
    decides for all of them.
    """
    now = resolved.identity
    pairs = {
        "model": (begun.id, now.id),
        "weights source": (begun.weights_source, now.weights_source),
        "commit": (begun.resolved_commit, now.resolved_commit),
        "weights": (begun.weights_digest, now.weights_digest),
        "configuration": (begun.config_digest, now.config_digest),
        "tokenizer": (begun.tokenizer.digest, now.tokenizer.digest),
    }
    for what, (before, after) in pairs.items():
        if before != after:
            raise LabError(
                wanted=f"the {what} this run began with: {before}",
                found=str(after),
                next=_how_to_go_on(begun, what),
                where="--resume",
            )


def _how_to_go_on(begun: ModelIdentity, what: str) -> str:
    old = f"; --revision {begun.resolved_commit} gives the first model again" if what == "commit" else ""
    return f"begin again under a new --run-label, since samples of two models are never put together{old}"

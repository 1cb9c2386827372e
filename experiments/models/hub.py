"""A model from the Hugging Face hub, or a mirror of it.

The requested revision is resolved to a commit first, and only files of that commit are taken: config, tokenizer,
safetensors. Each is compared with its digest, because the hub's client compares sizes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from experiments.models import hub_cache
from experiments.models.hub_cache import Checked
from experiments.models.hub_client import HubClient, findings
from experiments.models.hub_errors import Wanted
from experiments.models.model_files import CONFIG, INDEX, TOKENIZER, WEIGHTS, ModelFiles, Origin, assemble, weight_names
from experiments.models.source_types import ModelAsset, ModelRequest
from tools.environments.errors import LabError

DEFAULT_REVISION = "main"
FROM_CACHE = "served from the local cache"
NO_DIGEST = "the hub's mirror names no digest for {names}: their content was taken as it came"


def resolve(request: ModelRequest, cache: Path | None = None) -> ModelAsset:
    """Resolve the revision, fetch what the cache lacks, check every file, and answer with the asset.

    With `local_files_only`, or HF_HUB_OFFLINE in the environment, the cache alone is used and nothing is asked; so it
    is for a whole commit that is complete in the cache. Raises LabError for all that can go wrong on the way.
    """
    wanted = Wanted(request.id, request.revision or DEFAULT_REVISION)
    client = HubClient(wanted, cache)
    if request.local_files_only or client.offline:
        return _from_cache(client)
    if hub_cache.COMMIT.fullmatch(wanted.revision):
        try:
            return _from_cache(client)
        except LabError:
            return _from_hub(client)  # something is missing or altered: fetch mends both
    return _from_hub(client)


def _from_cache(client: HubClient) -> ModelAsset:
    with findings(client.wanted):
        commit, checked = _cached_files(client)
    altered = [name for name, file in checked.items() if file.content == "altered"]
    if altered:
        raise LabError(
            wanted=f"{client.wanted}, as its digests describe it",
            found=f"altered content in the cache: {', '.join(altered[:3])}",
            next="repeat once with LOCAL_FILES_ONLY=False: the altered files are then downloaded again",
            where="model",
        )
    return _asset(client.wanted, commit, checked, (FROM_CACHE,))


def _cached_files(client: HubClient) -> tuple[str, dict[str, Checked]]:
    """Commit and files as the cache has them; all names a run needs are there, or LabError says which are not."""
    commit = hub_cache.commit_of(client.storage, client.wanted.revision)
    if commit is None:
        raise _not_cached(client.wanted, "the cache does not have it")
    folder = client.storage / "snapshots" / commit
    present = frozenset(entry.name for entry in folder.iterdir() if entry.is_file()) if folder.is_dir() else frozenset()
    _demand((CONFIG, TOKENIZER), present, client.wanted)
    if not present & {WEIGHTS, INDEX}:
        raise _not_cached(client.wanted, "the cache lacks its weights")
    names = weight_names(present, lambda: (folder / INDEX).read_bytes(), client.wanted.model)
    _demand(names, present, client.wanted)
    return commit, {name: hub_cache.check(folder / name) for name in (CONFIG, TOKENIZER, *names)}


def _from_hub(client: HubClient) -> ModelAsset:
    listing = client.listing()
    missing = [name for name in (CONFIG, TOKENIZER) if name not in listing.sizes]
    if missing:
        raise LabError(
            wanted=f"a model with {CONFIG} and {TOKENIZER}",
            found=f"{client.wanted} lacks {', '.join(missing)}",
            next="choose another revision or model",
            where="model",
        )
    checked = {name: client.fetch(name, listing.commit) for name in (CONFIG, TOKENIZER)}
    names = weight_names(
        listing.sizes, lambda: client.fetch(INDEX, listing.commit).path.read_bytes(), client.wanted.model
    )
    client.refuse_without_room(names, listing)
    checked |= {name: client.fetch(name, listing.commit) for name in names}
    hub_cache.note_commit(client.storage, client.wanted.revision, listing.commit)
    return _asset(client.wanted, listing.commit, checked, ())


def _asset(wanted: Wanted, commit: str, checked: Mapping[str, Checked], notes: tuple[str, ...]) -> ModelAsset:
    unknown = [name for name, file in checked.items() if file.content == "unknown"]
    if unknown:
        notes = (*notes, NO_DIGEST.format(names=", ".join(unknown)))
    files = ModelFiles(
        paths={name: file.path for name, file in checked.items()},
        digests={name: file.digest for name, file in checked.items()},
    )
    return assemble(files, Origin(wanted.model, "hub", wanted.revision, commit, notes))


def _demand(names: Iterable[str], present: frozenset[str], wanted: Wanted) -> None:
    missing = [name for name in names if name not in present]
    if missing:
        raise _not_cached(wanted, f"the cache lacks {', '.join(missing[:3])}")


def _not_cached(wanted: Wanted, found: str) -> LabError:
    return LabError(
        wanted=f"{wanted}, complete in the local cache",
        found=found,
        next="run once with LOCAL_FILES_ONLY=False (and without HF_HUB_OFFLINE) where the hub can be reached",
        where="model",
    )

"""The one door to the hub: two questions put to its own client, every error of it turned into a finding.

The client reads HF_ENDPOINT, HF_HOME, tokens and proxies when it is imported, so it is imported here and late. It
works the same way in its 1.x and 2.x versions; what is asked of it is in both.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.models import hub_cache, hub_errors
from experiments.models.hub_cache import Checked
from experiments.models.hub_errors import Wanted
from tools.environments.errors import EXIT_USAGE, LabError

ANSWER_SECONDS = 10.0
_REVISION = re.compile(r"(?![/.])(?!.*(?:\.\.|//))[\w./+-]{1,200}(?<!/)")


@dataclass(frozen=True, slots=True)
class Listing:
    """What the hub says about one commit: the files and their sizes in bytes, where it tells them."""

    commit: str
    sizes: Mapping[str, int | None]


class HubClient:
    """The hub's client for one model at one requested revision. Every method raises LabError and nothing else."""

    def __init__(self, wanted: Wanted, cache: Path | None = None) -> None:
        """Import the client and refuse names that could not be a model's. `cache` replaces its cache folder."""
        try:
            import huggingface_hub
            from huggingface_hub import constants, utils
        except ImportError as error:
            raise LabError(
                wanted="the package huggingface_hub",
                found="it is not installed here, or does not import",
                next="use an environment made by tools/install_environment_profile.py, or --model-source config",
                where="model",
            ) from error
        self._hub: Any = huggingface_hub
        self._utils: Any = utils
        self.wanted = wanted
        self.offline = bool(constants.HF_HUB_OFFLINE)
        self.cache = cache or Path(constants.HF_HUB_CACHE)
        self._refuse_impossible_names()
        if not sys.stderr.isatty():
            utils.disable_progress_bars()
        utils.logging.set_verbosity_error()  # its warnings carry addresses; its errors come as findings

    @property
    def storage(self) -> Path:
        """Where the cache keeps this model."""
        return hub_cache.folder(self.cache, self.wanted.model)

    def listing(self) -> Listing:
        """Resolve the revision to a commit, and list its files. One request."""
        with findings(self.wanted):
            try:
                info = self._hub.HfApi().model_info(
                    self.wanted.model, revision=self.wanted.revision, files_metadata=True, timeout=ANSWER_SECONDS
                )
                commit = str(info.sha)
                sizes = {file.rfilename: file.size for file in info.siblings or ()}
            except (KeyError, TypeError, AttributeError) as error:
                raise hub_errors.not_a_hub(self.wanted) from error
            except ValueError as error:
                raise hub_errors.explain(error, self.wanted) or hub_errors.not_a_hub(self.wanted) from error
        if not hub_cache.COMMIT.fullmatch(commit):
            raise hub_errors.not_a_hub(self.wanted)
        return Listing(commit, sizes)

    def fetch(self, name: str, commit: str) -> Checked:
        """One file of a commit: from the cache where it is whole there, else downloaded, and checked either way.

        A cached file whose content was altered is taken out and downloaded once more. A download with the wrong
        content is taken out too, so nothing is left that a later run would take for whole.
        """
        wanted = Wanted(self.wanted.model, self.wanted.revision, name)
        was_cached = (self.storage / "snapshots" / commit / name).exists()
        checked = self._download(name, commit, wanted)
        if checked.content == "altered" and was_cached:
            hub_cache.discard(checked.path)
            checked = self._download(name, commit, wanted)
        if checked.content == "altered":
            hub_cache.discard(checked.path)
            raise LabError(
                wanted=f"{wanted}, as its digest describes it",
                found="other content under that name: altered on the way, or at the source",
                next="repeat; if it happens again, use another HF_ENDPOINT or network (nothing of this file was kept)",
                where="model",
            )
        return checked

    def refuse_without_room(self, names: tuple[str, ...], listing: Listing) -> None:
        """Before a large download: what is still to come has to fit on the cache's disk."""
        snapshot = self.storage / "snapshots" / listing.commit
        needed = sum(listing.sizes.get(name) or 0 for name in names if not (snapshot / name).exists())
        there = next(folder for folder in (self.cache, *self.cache.absolute().parents) if folder.exists())
        free = shutil.disk_usage(there).free
        if needed > free:
            raise LabError(
                wanted=f"{needed / 2**30:.2f} GiB for {self.wanted.model} on the cache's disk",
                found=f"{free / 2**30:.2f} GiB free; no weights were downloaded",
                next="free some space, or set HF_HOME to a larger disk",
                where="model",
            )

    def _download(self, name: str, commit: str, wanted: Wanted) -> Checked:
        with findings(wanted):
            path = self._hub.hf_hub_download(self.wanted.model, name, revision=commit, cache_dir=self.cache)
            return hub_cache.check(Path(path))

    def _refuse_impossible_names(self) -> None:
        try:
            self._utils.validate_repo_id(self.wanted.model)
        except ValueError as error:
            raise LabError(
                wanted="a model of the hub, as ORGANISATION/NAME",
                found=repr(self.wanted.model)[:120],
                next="give such a name; for a folder on this machine use --model-source local",
                where="--model",
                code=EXIT_USAGE,
            ) from error
        if not _REVISION.fullmatch(self.wanted.revision):
            raise LabError(
                wanted="a branch, tag or commit",
                found=repr(self.wanted.revision)[:120],
                next="give one, such as main",
                where="--revision",
                code=EXIT_USAGE,
            )


@contextmanager
def findings(wanted: Wanted) -> Iterator[None]:
    """Turn what the client raises into findings; what no user caused passes as it is."""
    try:
        yield
    except LabError:
        raise
    except Exception as error:
        finding = hub_errors.explain(error, wanted)
        if finding is None:
            raise
        raise finding from error

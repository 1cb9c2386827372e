"""A model from a folder on this machine. It has no commit, so the digest of its files says which model it is.

The folder's path is the user's own affair and goes into no record: the model is named `local/` and its architecture.
"""

from __future__ import annotations

from pathlib import Path

from experiments.models.model_files import (
    CONFIG,
    INDEX,
    TOKENIZER,
    ModelFiles,
    Origin,
    assemble,
    json_object,
    weight_names,
)
from experiments.models.source_types import ModelAsset, digest_of_file
from tools.environments.errors import EXIT_USAGE, LabError


def resolve(path: Path) -> ModelAsset:
    """The model in a folder: config.json, safetensors, and tokenizer.json where it has one. Raises LabError."""
    present = _present(path)
    if CONFIG not in present:
        raise LabError(
            wanted=f"a folder with {CONFIG} and safetensors weights",
            found=_what_else(present),
            next="give the folder that Transformers' save_pretrained wrote, or a snapshot folder of the hub's cache",
            where="model folder",
        )
    try:
        names = [CONFIG, *weight_names(present, lambda: (path / INDEX).read_bytes(), "model folder")]
        missing = [name for name in names if name not in present]
        if missing:
            raise LabError(
                wanted=f"every part that {INDEX} names",
                found=f"{len(missing)} missing: {', '.join(missing[:3])}",
                next="copy the missing parts into the folder",
                where="model folder",
            )
        names += [TOKENIZER] if TOKENIZER in present else []
        paths = {name: path / name for name in names}
        files = ModelFiles(paths=paths, digests={name: digest_of_file(paths[name]) for name in names})
        kind = str(json_object(paths[CONFIG].read_bytes(), CONFIG).get("model_type"))
        return assemble(files, Origin(id=f"local/{kind}", source="local"))
    except OSError as error:
        raise _unreadable(error) from error


def _present(path: Path) -> frozenset[str]:
    """Names of the files there, broken links left out. Raises LabError when there is no such folder."""
    if not path.is_dir():
        raise LabError(
            wanted="a model folder",
            found="a file" if path.is_file() else "no such folder",
            next=f"give the folder that holds {CONFIG}",
            where="model folder",
            code=EXIT_USAGE,
        )
    try:
        return frozenset(entry.name for entry in path.iterdir() if entry.is_file())
    except OSError as error:
        raise _unreadable(error) from error


def _what_else(present: frozenset[str]) -> str:
    if not present:
        return "an empty folder, or one of folders only"
    return f"no {CONFIG} among {len(present)} files"


def _unreadable(error: OSError) -> LabError:
    return LabError(
        wanted="a model folder that can be read",
        found=error.strerror or type(error).__name__,
        next="check the permissions of the folder and its files",
        where="model folder",
    )

"""A wheel of the pip that runs these tests, packed from its own files: Debian's Python brings no wheel along."""

from __future__ import annotations

import zipfile
from importlib import metadata
from pathlib import Path


def wheel_of_pip(folder: Path) -> Path:
    """pip-VERSION-py3-none-any.whl in `folder`; its RECORD stays true, since scripts and bytecode are no part of it."""
    pip = metadata.distribution("pip")
    path = folder / f"pip-{pip.version}-py3-none-any.whl"
    left_out = ("INSTALLER", "REQUESTED", "direct_url.json")
    files = [file for file in pip.files or () if file.parts[0] != ".." and file.suffix != ".pyc"]
    kept = [file for file in files if file.name not in left_out]
    with zipfile.ZipFile(path, "w") as archive:
        for file in kept:
            if file.name == "RECORD":
                lines = (f"{other},," for other in kept)
                archive.writestr(str(file), "\n".join(lines) + "\n")
            else:
                archive.write(file.locate(), str(file))
    return path

"""Files of a checkout that appear together or not at all: new ones, and one that is there and is changed last.

A file that exists is never written over. Whatever goes wrong, what was made is taken back, folders too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tools.environments.errors import LabError


def write(root: Path, new: Mapping[str, str], changed: str, before: str, after: str) -> None:
    """Write the `new` files (path -> text) and put `after` in place of `before` in the file `changed`.

    LabError where a file is there already, `changed` is no longer as it was read, or the disk refuses.
    """
    with ExitStack() as back:
        where = changed
        try:
            for where, text in new.items():
                _make_folders(root, Path(where).parent, back)
                with (root / where).open("x", encoding="utf-8", newline="\n") as file:
                    back.callback(_remove, root / where)
                    file.write(text)
            where = changed
            _exchange(root / changed, before, after, back)
        except FileExistsError:
            raise LabError("a place where nothing is", "a file, which is kept", "choose another name", where) from None
        except OSError as error:
            raise LabError(
                wanted="a checkout that can be written",
                found=error.strerror or type(error).__name__,
                next="check owner and mode of that place, and the room on its disk; nothing was changed",
                where=where,
            ) from None
        back.pop_all()


def _make_folders(root: Path, folder: Path, back: ExitStack) -> None:
    for part in reversed([folder, *folder.parents]):
        if not (root / part).is_dir():
            (root / part).mkdir()
            back.callback(_remove, root / part)


def _exchange(path: Path, before: str, after: str, back: ExitStack) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    aside.unlink(missing_ok=True)  # left by a killed process of the same number
    with aside.open("x", encoding="utf-8", newline="") as file:
        back.callback(_remove, aside)
        file.write(after)
    if path.read_bytes() != before.encode("utf-8"):
        raise LabError("the registry as it was read", "another one by now", "run the same command again", path.name)
    aside.chmod(path.stat().st_mode & 0o777)
    os.replace(aside, path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.rmdir() if path.is_dir() else path.unlink()

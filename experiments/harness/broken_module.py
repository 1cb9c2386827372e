"""What is said of an experiment or a kind whose code does not import: file, line, error, and how to see more of it."""

from __future__ import annotations

from pathlib import Path

import experiments
from tools.environments.errors import LabError

LONGEST = 160  # characters of the error's own words: one line of a list


def broken(module: str, error: BaseException, exposes: str) -> LabError:
    """The LabError for a module (`experiments.<topic>.<name>.experiment`) that raised `error` on import."""
    words = " ".join(_words(error).split())
    if len(words) > LONGEST:
        words = words[: LONGEST - 3] + "..."
    return LabError(
        wanted=f"a module that imports and exposes {exposes}, named as its folder is",
        found=words,
        next=f"the whole traceback: python -c 'import {module}'",
        where=_place(module, error),
    )


def _words(error: BaseException) -> str:
    kind = type(error).__name__
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{kind}: {text}" if text else kind


def _place(module: str, error: BaseException) -> str:
    """`experiments/<topic>/<name>/file.py:12`: the innermost line of this package that was being run or read."""
    import traceback  # here: only a broken experiment needs it

    root = Path(next(iter(experiments.__path__)))
    lines = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename is not None:
        lines.append((error.filename, error.lineno))
    own = root / "cli"
    for name, number in reversed(lines):
        path = Path(name)
        if path.is_relative_to(root) and not path.is_relative_to(own):
            return f"{path.relative_to(root.parent).as_posix()}:{number}"
    return module.replace(".", "/") + ".py"

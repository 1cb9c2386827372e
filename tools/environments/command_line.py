"""How every command line here begins and ends, whatever it was started by and wherever its output goes.

`begin` stands above all other imports of a script and refuses a Python too old for them; `run` calls its main and
answers for the streams: an encoding without our signs, a closed one, a reader that has gone, a full disk. A file that
nox or invoke loads calls `begin_inside` instead of both. Python 3.6 must get as far as the refusal, so its syntax is
used in the whole file, and nothing of ours is imported.
"""

import atexit
import codecs
import contextlib
import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Thread
    from types import TracebackType
    from typing import TextIO

OLDEST = (3, 11)
LEFT_BEHIND = "left-behind"  # the name of a thread that nobody waits for, whatever it is doing
PLAIN_SIGNS = {"→": "->", "·": "-", "—": "-", "–": "-", "×": "x", "−": "-", "…": "...", "≤": "<="}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def begin() -> None:
    """End with 1 and what to type instead where this Python is too old; from here on a Ctrl-C has no traceback."""
    if sys.version_info < OLDEST:
        sys.exit(_refusal(os.environ.get("PATH", os.defpath)))
    sys.excepthook = _told


def begin_inside() -> None:
    """Answer for the streams of a program that is not ours, such as the nox that has loaded its noxfile."""
    open_streams()
    sys.excepthook = _told
    atexit.register(_last_flush)


def run(main: "Callable[[list[str]], int]") -> int:
    """The exit code of `main(arguments)`, once its output has been written out.

    Does not return where a thread was left behind: one that is inside OpenSSL while the interpreter takes that down
    makes the process crash, so then it ends here.
    """
    open_streams()
    code = written(lambda: main(sys.argv[1:]))
    if any(thread.name == LEFT_BEHIND for thread in _threads()):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    return code


def _threads() -> "list[Thread]":
    """The threads that still run; the module is not imported where nothing started one."""
    module = sys.modules.get("threading")
    return [] if module is None else list(module.enumerate())


def open_streams() -> None:
    """Let every character be written somehow, and a closed stream be one that nobody reads."""
    codecs.register_error("plain-signs", _plain)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="plain-signs")


def written(body: "Callable[[], int]") -> int:
    """The exit code of `body()`, once its output has been written out; 1, and why, where it cannot be."""
    try:
        try:
            return body()
        finally:
            sys.stdout.flush()
    except OSError as error:
        code = _of_output(error)
        if code is None:
            raise
        return code


def newer_pythons(path: str) -> "list[str]":
    """The names under which PATH has a Python this project takes, best first."""
    names = [f"python3.{minor}" for minor in (12, 11, 13, 14)]
    folders = path.split(os.pathsep)
    return [name for name in names if any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders)]


def _refusal(path: str) -> str:
    found = newer_pythons(path)
    main = sys.modules["__main__"].__spec__
    call = sys.argv[:1] if main is None else ["-m", _module(main.name)]
    advice = " ".join([found[0], *call, *sys.argv[1:]]) if found else "install Python 3.12 or 3.11, then use that"
    version = ".".join(map(str, sys.version_info[:3]))
    return f"blocked\n  wanted Python 3.11 or 3.12\n  found  Python {version} ({sys.executable})\n  -> {advice}"


def _module(name: str) -> str:
    """What follows `-m` for a module of this name: a package is called by its own."""
    return name[: -len(".__main__")] if name.endswith(".__main__") else name


def _told(kind: "type[BaseException]", error: BaseException, trace: "TracebackType | None") -> None:
    """What is shown of an error that nobody caught: one word for a Ctrl-C that came before main could answer it."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    elif not isinstance(error, OSError) or _of_output(error) is None:
        sys.__excepthook__(kind, error, trace)


def _of_output(error: OSError) -> "int | None":
    """The exit code where output could not be written, and why on stderr; None for an error of anything else."""
    if isinstance(error, BrokenPipeError):  # the reader, `head` perhaps, has seen enough
        _drop(sys.stdout)
        return 0
    # A stream has no name; what writes files answers for them itself.
    if error.filename is not None or error.errno not in _NO_ROOM:
        return None
    _drop(sys.stdout)
    reason = os.strerror(error.errno)
    sys.stderr.write(f"blocked\n  wanted output that can be written\n  found  {reason}\n")
    sys.stderr.write("  -> free some space, or send the output elsewhere\n")
    return 1


def _last_flush() -> None:
    """Write out what waits; a reader that has gone is no fault. On any other, Python ends with a code of its own."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)
    except OSError:
        pass


def _plain(error: UnicodeError) -> "tuple[str, int]":
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(PLAIN_SIGNS.get(sign) or ascii(sign)[1:-1] for sign in lost), error.end


def _drop(stream: "TextIO") -> None:
    """Let what is still waiting go nowhere, so that the interpreter's own last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

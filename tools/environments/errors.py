"""The one exception a user can cause, and the exit codes of every command line here.

Each command line catches `LabError` in one place, prints it with `render`, and exits with its code. Anything else
that escapes is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_BLOCKED = 1  # the machine, the environment or the data stands in the way
EXIT_USAGE = 2  # the command line itself is wrong
EXIT_INTERRUPTED = 130  # Ctrl-C: what was finished is kept


class LabError(Exception):
    """Something a user can mend: what was wanted, what was found, and the command to run next.

    `where` names the file or option the finding is about; `code` is the exit code of the command line.
    """

    def __init__(self, wanted: str, found: str, next: str, where: str = "", code: int = EXIT_BLOCKED) -> None:
        super().__init__(wanted, found, next, where, code)  # as args, so that it crosses a process boundary whole
        self.wanted = wanted
        self.found = found
        self.next = next
        self.where = where
        self.code = code

    def __str__(self) -> str:
        return render(self)


def unreadable(error: OSError, where: str) -> LabError:
    """A file of this checkout that cannot be read: git gives a lost one back, and only its owner opens a locked one."""
    lost = not isinstance(error, PermissionError)
    mend = f"restore it: git checkout -- {where}" if lost else "check its owner and mode"
    return LabError("a readable file", error.strerror or "unreadable", mend, where)


def render(error: LabError) -> str:
    """The three lines a user sees: `blocked`, wanted and found, then one arrow with what to do."""
    place = f" {error.where}" if error.where else ""
    return f"blocked{place}\n  wanted {error.wanted}\n  found  {error.found}\n  → {error.next}"

"""Run nox, invoke or uv on a machine that has only Python 3.11 or newer.

    python3 tools/bootstrap.py nox -s TRAIN-CPU     one profile: gate, install, preflight, experiments
    python3 tools/bootstrap.py nox                  lint and tests
    python3 tools/bootstrap.py invoke --list        the pipelines

The first call makes .envs/automation; a later one only looks whether requirements/automation.txt is still the one it
was made from, and hands over. Mirrors, or no network: TMLAB_INDEX_URL, TMLAB_FIND_LINKS, TMLAB_OFFLINE.
"""

# An older Python must get as far as the version check: 3.6's syntax in the whole file, no import of ours above it.
import os
import sys

OLDEST = (3, 11)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def newer_pythons(path):  # type: (str) -> list[str]
    """The names under which PATH has a Python this project takes, best first."""
    names = [f"python3.{minor}" for minor in (12, 11, 13, 14)]
    folders = path.split(os.pathsep)
    return [name for name in names if any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders)]


def refuse_old_python():  # type: () -> None
    """End with 1 and what to do, where this Python is too old."""
    found = newer_pythons(os.environ.get("PATH", os.defpath))
    advice = f"{found[0]} {' '.join(sys.argv)}" if found else "install Python 3.12 or 3.11, then use that"
    version = ".".join(map(str, sys.version_info[:3]))
    sys.exit(f"blocked\n  wanted Python 3.11 or 3.12\n  found  Python {version} ({sys.executable})\n  -> {advice}")


if sys.version_info < OLDEST:
    refuse_old_python()

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [ROOT, *(path for path in sys.path if path != _HERE)]

from tools.environments import automation  # noqa: E402  the root must be on sys.path first
from tools.environments.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, LabError, render  # noqa: E402


def main(arguments: list[str]) -> int:
    """Make the automation environment where it is not current, then become the tool; returns where none is run."""
    try:
        if arguments in (["-h"], ["--help"]):
            print(__doc__.rstrip() if __doc__ else "")
            return EXIT_OK
        if arguments and arguments[0] not in automation.TOOLS:
            raise LabError(
                wanted=f"one of {', '.join(automation.TOOLS)}",
                found=arguments[0],
                next="python3 tools/bootstrap.py nox -l",
                code=EXIT_USAGE,
            )
        automation.ensure(os.environ)
        if not arguments:
            print(f"{automation.PREFIX} is ready; next: python3 tools/bootstrap.py nox -l")
            return EXIT_OK
        os.chdir(ROOT)
        tool = str(automation.PREFIX / "bin" / arguments[0])
        os.execve(tool, [tool, *arguments[1:]], automation.tool_environment(os.environ))
    except LabError as error:
        print(render(error), file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("stopped; the next call makes the environment anew", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Run nox, invoke or uv on a machine that has only Python 3.11 or newer.

    python3 tools/bootstrap.py nox -s TRAIN-CPU     one profile: gate, install, preflight, experiments
    python3 tools/bootstrap.py nox                  lint and tests
    python3 tools/bootstrap.py invoke --list        the pipelines

The first call makes .envs/automation; a later one only looks whether it is whole and requirements/automation.txt is
still the one it was made from, and hands over. A second Python gets its own, such as .envs/automation-3.12.
Mirrors, or no network: TMLAB_INDEX_URL, TMLAB_FIND_LINKS, TMLAB_OFFLINE.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [ROOT, *(path for path in sys.path if path != _HERE)]

from tools.environments import command_line  # noqa: E402  the root must be on sys.path first

command_line.begin()

from tools.environments import automation  # noqa: E402
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
        prefix = automation.ensure(os.environ)
        if not arguments:
            print(f"{prefix} is ready; next: python3 tools/bootstrap.py nox -l")
            return EXIT_OK
        os.chdir(ROOT)
        command = [*automation.command(arguments[0], prefix), *arguments[1:]]
        try:
            os.execve(command[0], command, automation.tool_environment(os.environ, prefix))
        except OSError as error:
            raise automation.cannot_start(arguments[0], error, prefix) from None
    except LabError as error:
        print(render(error), file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("stopped; the next call makes the environment anew", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(command_line.run(main))

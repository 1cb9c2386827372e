"""Make `import tools` and `import experiments` work in every notebook of the environment that runs this file.

    python tools/register_notebook_runtime.py            write the registration (again changes nothing)
    python tools/register_notebook_runtime.py --check    prove it, and that this environment's kernels start it
    python tools/register_notebook_runtime.py --remove   take it away

Standard library only, also under `python -I`. Exit code 0 done or proven, 1 blocked, 2 wrong usage.
"""

import argparse
import os
import sys

_HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [os.path.dirname(_HERE), *(path for path in sys.path if os.path.realpath(path) != _HERE)]

from tools.environments import command_line  # noqa: E402  the root must be on sys.path first

command_line.begin()

from tools.environments.errors import EXIT_BLOCKED, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, LabError, render  # noqa: E402
from tools.environments.installed import kernels, registration  # noqa: E402
from tools.environments.layout import ROOT  # noqa: E402
from tools.environments.model import Check  # noqa: E402


def parser() -> argparse.ArgumentParser:
    """The command line, apart from running it, so that tests and documentation can read it."""
    command = argparse.ArgumentParser(
        prog="register_notebook_runtime.py", description=(__doc__ or "").partition("\n")[0]
    )
    action = command.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="prove the registration and look at the Jupyter kernels")
    action.add_argument("--remove", action="store_true", help="take the registration away")
    command.add_argument(
        "--system",
        action="store_true",
        help="also in a Python that is no environment of its own (a hosted notebook); PYTHONPATH is then left alone",
    )
    return command


def checks() -> tuple[Check, ...]:
    """The registration, this environment's kernels, and whether any other kernel is broken."""
    found = kernels.find(kernels.data_folders(sys.prefix, os.environ))
    return (
        registration.check(registration.site_packages()),
        kernels.check(sys.prefix, found),
        kernels.check_others(sys.prefix, found),
    )


def show(results: tuple[Check, ...]) -> int:
    """Print each check as status, name and finding, with what to do under it; the exit code is that of the worst."""
    for result in results:
        print(f"{result.status:<8} {result.id:<24} {result.found}")
        if result.repair:
            print(f"         → {result.repair}")
    return EXIT_BLOCKED if any(result.status == "blocked" for result in results) else EXIT_OK


def register(system: bool) -> None:
    """Write the registration and say what it does. Raises LabError in a Python that other programs depend on."""
    environment = registration.is_environment()
    if not environment and not system:
        raise LabError(
            wanted="the Python of an environment",
            found=f"{sys.executable}, the system's own, which other programs depend on",
            next="activate an environment first, or add --system where a hosted notebook offers no other",
            code=EXIT_USAGE,
        )
    site = registration.site_packages()
    new = registration.register(site, strip=environment)
    state = "registered" if new else "already registered"
    print(f"{state}: import tools and import experiments work from any folder, from {ROOT}")
    print(f"  {site / registration.PTH_NAME}")
    print("  running kernels see it after a restart")


def main(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    options = parser().parse_args(arguments)
    try:
        if options.check:
            return show(checks())
        if options.remove:
            gone = registration.remove(registration.site_packages())
            print("removed" if gone else "nothing was registered here")
        else:
            register(options.system)
    except LabError as error:
        print(render(error), file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(command_line.run(main))

"""`python -m benchmarks [NAME ...]`: run these benchmarks, or all, and print one table."""

import argparse
import importlib
import platform
import shlex
import subprocess
import sys
from pathlib import Path

from tools.environments import command_line
from tools.environments.errors import LabError

if __name__ == "__main__":
    command_line.begin()

from benchmarks.measure import Row

_LAST_LINES = 12


def modules() -> list[str]:
    """The names of the benchmarks: every bench_NAME.py here, whose `rows()` measures."""
    return sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def line(row: Row) -> str:
    """One row: status, name, value with its limit, and what it was compared with."""
    limit = "" if row.limit is None else f"at most {row.limit:g} {row.unit}"
    status = "ok" if row.holds else "over"
    return f"{status:<5} {row.name:<44} {row.value:>8.3g} {row.unit:<4} {limit:<16} {row.detail}"


def main(arguments: list[str]) -> int:
    """Print the table as it is measured; 1 where a limit is exceeded or a command failed."""
    command = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    command.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(modules())}")
    chosen = command.parse_args(arguments).names or modules()
    unknown = sorted(set(chosen) - set(modules()))
    if unknown:
        command.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(modules())}")
    print(f"{platform.system()} {platform.machine()}, Python {platform.python_version()}; medians, in one run")
    over = 0
    for name in chosen:
        try:
            for row in importlib.import_module(f"benchmarks.bench_{name}").rows():
                print(line(row), flush=True)
                over += not row.holds
        except LabError as error:  # what it measures cannot be had on this machine: no result, and no limit exceeded
            print(f"none  {name}: wanted {error.wanted}; found {error.found}; {error.next}", flush=True)
        except subprocess.CalledProcessError as error:
            told = [text for text in str(error.output or error.stderr or "").splitlines() if text.strip()]
            print(f"failed {name}: {shlex.join(map(str, error.cmd))} ended with {error.returncode}")
            print("\n".join(f"       {text}" for text in told[-_LAST_LINES:]), flush=True)
            over += 1
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(command_line.run(main))

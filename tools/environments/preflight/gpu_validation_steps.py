"""What tools/validate_cnb_gpu.sh asks of Python: a preflight report as its steps, its experiment, and the mark.

python -m tools.environments.preflight.gpu_validation_steps rows --profile ID --report FILE   parts by SEPARATOR
python -m tools.environments.preflight.gpu_validation_steps experiment --profile ID         its smoke run's
python -m tools.environments.preflight.gpu_validation_steps card --profile ID               ends with 2 for none
python -m tools.environments.preflight.gpu_validation_steps here                            what this environment is for
python -m tools.environments.preflight.gpu_validation_steps clear|checked|passed --profile ID
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.environments import command_line, profile_session
from tools.environments.errors import EXIT_OK, LabError, render
from tools.environments.installed import stamp
from tools.environments.model import Profile
from tools.environments.preflight import gpu_validation
from tools.environments.registry import registry

OPERATION = "operation."
SEPARATOR = "\x1f"  # between the parts of a line: a shell keeps empty parts only where this is no white space


def rows(report: Mapping[str, Any], profile: Profile) -> Iterator[tuple[str, str, str, str, str]]:
    """A preflight report as steps of the script: id, status, wanted, found, repair.

    First the report as a whole, then one operation for each dtype that the profile claims, or the card has of its own.
    """
    checks = {str(check["id"]): check for check in report["checks"]}
    bad = [check for check in checks.values() if check["status"] in ("blocked", "warning")]
    bad = [check for check in bad if not (check["status"] == "warning" and check["id"] in report["accepted"])]
    count = sum(check["status"] == "ok" for check in checks.values())
    wanted = f"an environment and a machine on profile {profile.id}"
    if bad:
        found = "; ".join(f"{check['id']}: wanted {check['wanted']}, found {check['found']}" for check in bad)
        yield "preflight", "blocked", wanted, found, next((str(c["repair"]) for c in bad if c["repair"]), "")
    else:
        yield "preflight", "ok", wanted, f"status={report['status']}, {count} checks ok", ""
    for name, check in checks.items():
        dtype = name.removeprefix(OPERATION)
        if dtype != name and (check["status"] != "skipped" or dtype in profile.dtypes):
            status = "ok" if check["status"] == "ok" else "blocked"
            yield name, status, str(check["wanted"]), str(check["found"]), str(check["repair"])


def main(arguments: list[str]) -> int:
    """Run the command line; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.environments.preflight.gpu_validation_steps", description=__doc__
    )
    parser.add_argument("action", choices=("here", "rows", "experiment", "card", "clear", "checked", "passed"))
    parser.add_argument("--profile")
    parser.add_argument("--report", metavar="FILE", help="of the preflight, for `rows`")
    given = parser.parse_args(arguments)
    if given.profile is None and given.action != "here":
        parser.error("--profile is missing")
    try:
        if given.action == "here":
            found = stamp.read(Path(sys.prefix))
            print("" if found is None else found.profile)
            return EXIT_OK
        profile = registry.load().get(given.profile)
        if given.action == "rows":
            for row in rows(json.loads(Path(given.report).read_bytes()), profile):
                print(SEPARATOR.join(" ".join(part.split()) for part in row))
        elif given.action == "experiment":
            print(next((name for name in profile.experiments if name not in profile_session.OWN_COMMANDS), ""))
        elif given.action == "card":
            gpu_validation.refuse_without_card(profile)
        else:
            state = None if given.action == "clear" else given.action
            gpu_validation.mark(profile, state, gpu_validation.place(os.environ))
    except LabError as error:
        print(render(error), file=sys.stderr)
        return error.code
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(command_line.run(main))

#!/usr/bin/env python3
"""Is this Python environment fit for a profile? Lists the profiles, or checks one and says what to do.

Starts on a bare Python 3.11 or 3.12 with nothing installed. stdout carries the report and nothing else. Exit code 0 for
ok and warning, 1 for blocked (with --strict for a warning too), 2 for wrong usage, 130 after Ctrl-C.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if sys.path and os.path.realpath(sys.path[0] or ".") == os.path.join(ROOT, "tools"):
    del sys.path[0]  # modules in tools/ are imported as tools.*, never by their bare names
sys.path.insert(0, ROOT)

from tools.environments import command_line  # noqa: E402

command_line.begin()

from tools.environments.errors import EXIT_INTERRUPTED, EXIT_OK, LabError, render  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def main(arguments: "Sequence[str]") -> int:
    """Run the command line; returns its exit code."""
    try:
        if "--list-profiles" in arguments and set(arguments) <= {"--list-profiles", "--json"}:
            return _list(as_json="--json" in arguments)  # argparse alone costs as much as reading the registry
        options = _parser().parse_args(list(arguments))
        return _list(as_json=options.json) if options.list_profiles else _check(options)
    except LabError as error:
        print(render(error), file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("interrupted: nothing was changed", file=sys.stderr)
        return EXIT_INTERRUPTED


def _parser() -> "argparse.ArgumentParser":
    import argparse

    parser = argparse.ArgumentParser(
        prog="environment_preflight.py",
        description="Check the running Python environment against a profile, or list the profiles.",
        allow_abbrev=False,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list-profiles", action="store_true", help="one line per profile")
    what.add_argument("--profile", metavar="ID", help="the profile to check this environment against")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.add_argument("--strict", action="store_true", help="exit code 1 for a warning too")
    parser.add_argument("--quick", action="store_true", help="import nothing and sweep no files: under 0.3 s")
    parser.add_argument("--notebook", action="store_true", help="check notebooks even where Jupyter is not installed")
    parser.add_argument("--accept", action="append", default=[], metavar="CHECK", help="accept this warning by its id")
    parser.add_argument("--model", metavar="ORG/NAME[@REV]", help="a model the run will take from the hub")
    parser.add_argument(
        "--time-limit", type=_seconds, default=120.0, metavar="S", help="longest wait for an import (default 120)"
    )
    return parser


def _seconds(text: str) -> float:
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"wanted seconds between 0 and 3600, found {text!a}")
    return value


def _list(*, as_json: bool) -> int:
    if as_json:
        print(_listing_json())
    else:
        from tools.environments.registry import profile_list

        print(profile_list.listing())
    return EXIT_OK


def _listing_json() -> str:
    import json

    from tools.environments.registry import registry

    loaded = registry.load()
    entries = [
        {
            "id": profile.id,
            "layer": profile.layer,
            "title": profile.title,
            "title_zh": profile.title_zh,
            "purpose": profile.purpose,
            "purpose_zh": profile.purpose_zh,
            "environment": profile.environment,
            "python": list(profile.python),
            "torch": {"specifier": profile.torch.specifier, "build": profile.torch.build} if profile.torch else None,
            "gpus": profile.gpu.count if profile.gpu else 0,
            "download_gib": profile.host.download_gib,
            "disk_gib": profile.host.disk_gib,
            "tags": list(profile.tags),
            "experiments": list(profile.experiments),
            "judgements": list(profile.judgements),
            "companion_of": profile.companion_of or None,
        }
        for profile in loaded.profiles.values()
    ]
    return json.dumps({"registry_digest": loaded.digest, "profiles": entries}, indent=1)


def _check(options: "argparse.Namespace") -> int:
    from tools.environments.machine import network_facts
    from tools.environments.preflight import preflight, report_text
    from tools.environments.registry import registry

    loaded = registry.load()
    profile = loaded.get(options.profile)
    model = None if options.model is None else network_facts.model_name(options.model)
    report = preflight.run(
        profile,
        loaded,
        quick=options.quick,
        notebook=options.notebook,
        accept=options.accept,
        model=model,
        time_limit_s=options.time_limit,
    )
    if options.json:
        import json

        print(json.dumps(report_text.to_json(report), indent=1))
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(report_text.to_text(report, colour=colour))
    return preflight.exit_code(report, strict=options.strict)


if __name__ == "__main__":
    sys.exit(command_line.run(main))

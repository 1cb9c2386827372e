"""The installer's command line: options, one place where errors become text or JSON, exit codes."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tools.environments.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, LabError, render
from tools.environments.install import adopt, backends, install_text
from tools.environments.install.install import GateBlockedError, Installation
from tools.environments.install.install_text import Narrator
from tools.environments.install.planning import InstallRequest
from tools.environments.installed.environment_lock import unwritable
from tools.environments.layout import ROOT
from tools.environments.machine import image_facts
from tools.environments.sources import index_settings
from tools.environments.sources.index_settings import without_credentials

SCRIPT = "python tools/install_environment_profile.py"


def parser() -> argparse.ArgumentParser:
    """Every option of the command line."""
    options = argparse.ArgumentParser(
        prog="install_environment_profile.py",
        description="Make the environment of a profile, resume an interrupted install, or find it current.",
        allow_abbrev=False,
    )
    add = options.add_argument
    add("--profile", required=True, metavar="ID", help="a profile of the registry")
    add("--env-name", metavar="NAME", help="name of the environment (default: the profile's own)")
    add("--backend", choices=backends.CHOICES, default=os.environ.get("TMLAB_BACKEND") or "auto")
    add("--python", metavar="X.Y|PATH", help="the Python to make it from")
    add("--dry-run", action="store_true", help="print exactly what would run, and do nothing")
    add("--locate", action="store_true", help="say where the finished environment is, and install nothing")
    add("--json", action="store_true", help="stdout carries one JSON object and nothing else")
    add("--target", choices=("host", "image"), default="host", help="image: leave out what needs the host's GPU")
    add("--layers", metavar="DIR", help="write the package steps as layers of an image, and install nothing")
    add("--adopt", action="store_true", help="stamp an environment made by hand, once its preflight holds")
    add("--recreate", action="store_true", help="remove the old one, with everything in it, if a new one can be made")
    add("--index-url", metavar="URL", help="package index or mirror (TMLAB_INDEX_URL)")
    add("--torch-index", metavar="URL", help="mirror of PyTorch's index for this build (TMLAB_TORCH_INDEX)")
    add("--find-links", metavar="DIR", action="append", default=[], help="folder of wheels (TMLAB_FIND_LINKS)")
    add("--offline", action="store_true", help="use no network at all, only wheel folders (TMLAB_OFFLINE)")
    return options


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Run the command line; returns its exit code: 0, 1 blocked, 2 wrong usage, 130 interrupted."""
    given = parser().parse_args(arguments)
    say = Narrator(sys.stderr if given.json else sys.stdout)
    at: list[Installation] = []
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        answer = _run(given, say, root, at)
    except KeyboardInterrupt:
        return _interrupted(given, say, arguments, at)
    except LabError as error:
        return _failed(given, say, error)
    except OSError as error:
        if error.errno is None or not error.filename:
            raise
        return _failed(given, say, unwritable(Path(str(error.filename)), error))
    if given.json:
        _answer(answer)
    return EXIT_OK


def _refuse_pairs(given: argparse.Namespace) -> None:
    """LabError (usage) for two options of which one would have to be ignored."""
    ways = [name for name in ("locate", "layers", "adopt", "dry_run") if getattr(given, name)]
    if given.recreate and not given.dry_run:
        ways.append("recreate")
    if len(ways) > 1:
        first, second = (f"--{name.replace('_', '-')}" for name in ways[:2])
        raise LabError(
            wanted=f"either {first} or {second}",
            found="both",
            next=f"leave one of them out; {second} does not change what {first} does",
            where=second,
            code=EXIT_USAGE,
        )


def _refuse_backend(given: argparse.Namespace) -> None:
    """LabError (usage) for a variable that names no backend; an option that does was refused as it was read."""
    if given.backend not in backends.CHOICES:
        raise LabError(
            wanted=f"one of {', '.join(backends.CHOICES)}",
            found=f"{given.backend!a}"[:80],
            next="set TMLAB_BACKEND to one of these, or unset it",
            where="TMLAB_BACKEND",
            code=EXIT_USAGE,
        )


def _run(given: argparse.Namespace, say: Narrator, root: Path, at: list[Installation]) -> dict[str, Any]:
    _refuse_pairs(given)
    _refuse_backend(given)
    options = index_settings.IndexOptions(given.index_url, given.torch_index, tuple(given.find_links), given.offline)
    request = InstallRequest(
        profile=given.profile,
        env_name=given.env_name,
        backend=given.backend,
        python=given.python,
        target=given.target,
        recreate=given.recreate,
        settings=index_settings.resolve(options, os.environ),
    )
    if given.locate:
        return Installation(request, os.environ, say, root).locate().as_data()
    if given.layers:
        from tools.environments.install import image_layers  # with urllib behind it: no other call pays for that

        plan = image_layers.write(request, os.environ, Path(given.layers), root)
        say.line(f"{plan.profile} · {', '.join(image_layers.LAYERS)} written to {given.layers}")
        return install_text.as_data(plan)
    if given.adopt:
        return adopt.adopt(request, os.environ, say, root).as_data()
    if given.dry_run:
        on_paper = Installation(request, os.environ, say, root)
        plan = on_paper.on_paper()
        if not given.json:
            for line in (install_text.head(on_paper.profile), *install_text.paper(plan)):
                say.line(line)
        return install_text.as_data(plan)
    _refuse_in_another_image(given.profile)
    installation = Installation(request, os.environ, say, root)
    at.append(installation)
    return installation.run().as_data()


def _refuse_in_another_image(profile: str) -> None:
    """LabError inside an image that was built for another profile: its environment is the one it has."""
    image = image_facts.gather(os.environ).profile
    if image not in (None, profile):
        raise LabError(
            wanted=f"the profile that this image was built for: {image}",
            found=profile,
            next=f"on the host: python3 tools/bootstrap.py nox -s {profile} -- --image",
            where="--profile",
        )


def _answer(data: dict[str, Any]) -> None:
    """The object of --json, alone on stdout; where nobody reads it any more, the exit code still tells."""
    Narrator(sys.stdout).line(json.dumps(data))


def _failed(given: argparse.Namespace, say: Narrator, error: LabError) -> int:
    if isinstance(error, GateBlockedError):
        say.line("nothing was downloaded")
    else:
        say.line(render(error))
    if given.json:
        checks = [vars_of(check) for check in error.checks] if isinstance(error, GateBlockedError) else []
        told = {"wanted": error.wanted, "found": error.found, "next": error.next, "where": error.where}
        status = "usage" if error.code == EXIT_USAGE else "blocked"
        blank = {"environment": given.env_name, "prefix": None, "python": None}
        _answer({"status": status, "profile": given.profile, **blank, "error": told, "checks": checks})
    return error.code


def _interrupted(given: argparse.Namespace, say: Narrator, arguments: Sequence[str], at: list[Installation]) -> int:
    step = at[0].at if at else ""
    begun = at and not at[0].anew  # what --recreate asked for is done then
    kept = [argument for argument in arguments if argument != "--recreate"] if begun else arguments
    again = without_credentials(f"{SCRIPT} {shlex.join(kept)}")
    say.line(f"interrupted in step {step}; what was finished is kept" if step else "interrupted: nothing was done")
    say.line(f"resume   {again}")
    if given.json:
        blank = {"environment": given.env_name, "prefix": None, "python": None}
        _answer({"status": "interrupted", "profile": given.profile, **blank, "step": step, "resume": again})
    return EXIT_INTERRUPTED


def _interrupt(_signal: int, _frame: object) -> NoReturn:
    """A polite request to end is answered as Ctrl-C is: the child is ended first, and the user is told."""
    raise KeyboardInterrupt


def vars_of(check: Any) -> dict[str, str]:
    """A check as JSON holds it."""
    return {name: getattr(check, name) for name in ("id", "status", "wanted", "found", "repair")}

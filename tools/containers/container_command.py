"""`python -m tools.containers build | smoke | run | list | prune`: the command line behind `invoke image.*`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from tools.containers import build, engine, image_text, inventory, smoke
from tools.environments import profile_session
from tools.environments.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, LabError, render
from tools.environments.install.install_text import Narrator, head
from tools.environments.layout import ROOT
from tools.environments.model import Profile
from tools.environments.registry import registry
from tools.environments.registry.registry import Registry
from tools.environments.sources import index_settings

CheckCommands = Callable[[Iterable[Sequence[str]]], None]


def parser() -> argparse.ArgumentParser:
    """Every option of the command line."""
    command = argparse.ArgumentParser(prog="python -m tools.containers", description=__doc__, allow_abbrev=False)
    actions = command.add_subparsers(dest="action", required=True)
    building = actions.add_parser("build", help="build a profile's image", allow_abbrev=False)
    proving = actions.add_parser(
        "smoke", help="prove a built image: preflight and experiments inside", allow_abbrev=False
    )
    both = actions.add_parser("run", help="build, then smoke", allow_abbrev=False)
    listing = actions.add_parser("list", help="the images of this project, and whether they are current")
    pruning = actions.add_parser("prune", help="remove what newer images replaced")
    for each in (building, proving, both):
        each.add_argument("--profile", metavar="ID", help="a profile of the registry")
        each.add_argument("--cpu", action="store_true", help=f"the CPU image: {image_text.CPU.profile}")
        each.add_argument("--gpu", action="store_true", help=f"the GPU image: {image_text.GPU.profile}")
    for each in (building, both):
        _add_build_options(each)
    for each in (building, proving, both, listing, pruning):
        each.add_argument("--json", action="store_true", help="stdout carries one JSON value and nothing else")
    return command


def _add_build_options(to: argparse.ArgumentParser) -> None:
    add = to.add_argument
    add("--base-image", default=os.environ.get("TMLAB_BASE_IMAGE", ""), metavar="NAME", help="(TMLAB_BASE_IMAGE)")
    add("--ca", default=os.environ.get("TMLAB_CA_FILE"), metavar="FILE", help="a certificate to trust (TMLAB_CA_FILE)")
    add("--network", default=os.environ.get("TMLAB_BUILD_NETWORK", ""), help="host: share it (TMLAB_BUILD_NETWORK)")
    add("--index-url", metavar="URL", help="package index or mirror (TMLAB_INDEX_URL)")
    add("--torch-index", metavar="URL", help="mirror of PyTorch's index for this build (TMLAB_TORCH_INDEX)")
    add("--find-links", metavar="DIR", action="append", default=[], help="folder of wheels (TMLAB_FIND_LINKS)")
    add("--target", default="", metavar="STAGE", help="stop at this stage: base, plan, torch, packages")
    add("--user", default="", help="who the image runs as (root: for platforms that know no other)")
    add("--system-packages", metavar="NAMES", help="Debian packages to put in, instead of the Dockerfile's own")
    add("--no-cache", action="store_true", help="run every step again")


def main(arguments: Sequence[str], check: CheckCommands) -> int:
    """Run the command line; returns its exit code: 0, 1 blocked, 2 wrong usage, 130 interrupted.

    `check` judges the commands that a session is to run after its install. LabError for one that could not begin.
    """
    given, rest = parser().parse_known_args(arguments)
    say = Narrator(sys.stderr if given.json else sys.stdout)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if rest and given.action not in ("smoke", "run"):
            raise LabError(
                "options of this command", rest[0], f"python -m tools.containers {given.action} --help", code=EXIT_USAGE
            )
        answer = _run(given, rest, say, check)
    except LabError as error:
        say.line(render(error))
        if given.json:
            told = {"wanted": error.wanted, "found": error.found, "next": error.next, "where": error.where}
            print(json.dumps({"status": "usage" if error.code == EXIT_USAGE else "blocked", "error": told}))
        return error.code
    except KeyboardInterrupt:
        say.line("stopped; the steps that were finished are kept, and the same command goes on from there")
        return EXIT_INTERRUPTED
    if given.json:
        print(json.dumps(answer, ensure_ascii=False))
    return EXIT_OK


def _run(given: argparse.Namespace, rest: list[str], say: Narrator, check: CheckCommands) -> object:
    known = registry.load(ROOT)
    if given.action == "list":
        entries = inventory.images(engine.connect(), known)
        for line in (
            inventory.table(entries) if entries else ["no image was built here yet; next: invoke image.build --cpu"]
        ):
            say.line(line)
        return [dataclasses.asdict(entry) for entry in entries]
    if given.action == "prune":
        count, gib = inventory.prune(engine.connect())
        say.line(f"removed {count} layers that no image uses any more, {gib:g} GiB")
        return {"removed": count, "gib": gib}
    profile = chosen(given, known)
    options = profile_session.parse(rest)
    if given.action != "build":
        check(profile_session.after_install(profile, options))  # before minutes go into an image
    client = engine.connect()
    answer: dict[str, object] = {"status": "ok"}
    if given.action in ("build", "run"):
        answer |= dataclasses.asdict(_build(given, profile, known, client, say))
    if given.action in ("smoke", "run") and not getattr(given, "target", ""):
        say.line(f"{profile.id} · inside its image")
        answer |= dataclasses.asdict(smoke.smoke(profile, options, client, say))
    return answer


def chosen(given: argparse.Namespace, known: Registry) -> Profile:
    """The profile meant by --profile, --cpu or --gpu. LabError (usage) for none, or more than one of them."""
    named = [name for name in (given.profile, *(k.profile for k in image_text.KINDS if getattr(given, k.name))) if name]
    if len(named) != 1:
        raise LabError(
            wanted="one of --profile ID, --cpu, --gpu",
            found=", ".join(named) or "none of them",
            next="invoke image.build --cpu",
            code=EXIT_USAGE,
        )
    return known.get(named[0])


def request_of(given: argparse.Namespace, profile: Profile) -> build.BuildRequest:
    """What these options ask to be built. LabError (usage) for a certificate that is not there."""
    certificate = Path(given.ca).expanduser() if given.ca else None
    if certificate is not None and not certificate.is_file():
        raise LabError("a certificate file", f"no such file: {given.ca}", "give a file in PEM form", "--ca", EXIT_USAGE)
    options = index_settings.IndexOptions(given.index_url, given.torch_index, tuple(given.find_links))
    return build.BuildRequest(
        profile=profile,
        settings=index_settings.resolve(options, os.environ),
        base_image=given.base_image,
        certificate=certificate,
        network=given.network,
        target=given.target,
        user=given.user,
        system_packages=given.system_packages,
        no_cache=given.no_cache,
    )


def _build(
    given: argparse.Namespace, profile: Profile, known: Registry, client: engine.Client, say: Narrator
) -> build.Built:
    request = request_of(given, profile)
    say.line(head(profile))
    built = build.build(request, known, client, say, os.environ, commit_of(ROOT))
    say.line(f"image    {built.tag or 'stage ' + given.target} · {built.image} · {built.seconds:.0f} s")
    if built.tag:
        say.line(f"next     invoke image.smoke --profile {profile.id} · docker run --rm -it {built.tag}")
    return built


def commit_of(root: Path) -> str:
    """The commit of the checkout, with `-dirty` behind it where files differ; empty where there is no git."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(("git", "-C", str(root), *arguments), capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    return f"{commit}{'-dirty' if git('status', '--porcelain') else ''}" if commit else ""


def _interrupt(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt

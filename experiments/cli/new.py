"""`new TOPIC/NAME --kind KIND`: a small experiment that runs, with its test, from the template of its kind.

Needs no torch and imports no experiment. Everything is judged first; then all of it is written, or nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from experiments.cli import new_files, new_place, templates
from experiments.cli.printing import say
from experiments.cli.templates import ExperimentTemplate
from tools.environments import strict_json
from tools.environments.errors import EXIT_OK, EXIT_USAGE, LabError, unreadable
from tools.environments.installed import stamp
from tools.environments.layout import REGISTRY_PATH, ROOT
from tools.environments.registry import entry_text, registry
from tools.environments.registry.registry import Registry

REGISTRY = REGISTRY_PATH.relative_to(ROOT).as_posix()
LINE = 120  # pyproject.toml's: where the formatter would break a line


def add_parser(subparsers: Any) -> None:
    """The command and its options."""
    parser = subparsers.add_parser(
        "new",
        help="a new experiment that runs, with its test",
        description="Write a small experiment that runs, with its test, and name it in the registry.",
        epilog="CONTRIBUTING.md, Add an experiment, goes through what it writes.",
    )
    parser.add_argument("place", metavar="TOPIC/NAME", help="a topic that is there or new, and the experiment's name")
    parser.add_argument("--kind", required=True, help=f"what is measured: {', '.join(templates.having_one())}")
    parser.add_argument(
        "--profile",
        metavar="ID",
        action="append",
        default=[],
        help="a profile that runs it, may be repeated; by default this environment's, where it can",
    )


def run(args: argparse.Namespace) -> int:
    """Write it and say what was written; returns the exit code."""
    say(create(args.place, args.kind, args.profile))
    return EXIT_OK


def create(place: str, kind: str, profiles: Sequence[str], root: Path = ROOT) -> str:
    """Write the experiment into the checkout at `root`; what to tell. LabError, and nothing is changed then."""
    topic, name = new_place.split(place)
    _refuse_part_of_a_checkout(root)
    known = registry.load(root)
    template = templates.find(kind, root)
    files = dict(template.files(topic, name))
    refuse_long(files)
    new = _topic_package(topic, root) | files
    new_place.refuse_taken(topic, name, known, root)
    chosen = _profiles(template, profiles, known)
    before = _read(root / REGISTRY)
    after = _registered(before, name, chosen, known, root)
    new_files.write(root, new, REGISTRY, before, after)
    return _told(new, chosen, name, templates.test_of(topic, name))


def _topic_package(topic: str, root: Path) -> dict[str, str]:
    """The `__init__.py` of a topic that is new: path -> text."""
    path, words = f"experiments/{topic}/__init__.py", topic.replace("_", " ")
    return {} if (root / path).is_file() else {path: f'"""The experiments on {words}. One folder each."""\n'}


def _refuse_part_of_a_checkout(root: Path) -> None:
    for part in (REGISTRY, "experiments", "tests", "pyproject.toml"):
        if not (root / part).exists():
            raise LabError(
                wanted="a checkout of the lab with its tests: the experiment and its test are written into it",
                found=f"no {part} beside the package that runs",
                next="git clone the repository, and run this from its root",
                where="experiments",
            )


def _profiles(template: ExperimentTemplate, given: Sequence[str], known: Registry) -> list[str]:
    """The profiles it is registered with, one without a card among them. LabError (usage) for one that cannot."""
    for one in given:
        reason = template.lacks(known.get(one)) or _companion(known, one)
        if reason:
            able = [p.id for p in known.profiles.values() if not template.lacks(p) and not p.companion_of]
            _refuse(f"a profile that can run {template.kind}: {', '.join(able)}", reason, "give --profile one of these")
    chosen = list(dict.fromkeys(given)) or _of_this_environment(template, known)
    if all(known.get(one).gpu is not None for one in chosen):
        chosen.append(template.profile)  # its test runs on a machine without a card
    return chosen


def _companion(known: Registry, profile: str) -> str:
    parent = known.get(profile).companion_of
    return f"{profile} has no entry of its own: it has the experiments of {parent}" if parent else ""


def _of_this_environment(template: ExperimentTemplate, known: Registry) -> list[str]:
    """The profile this environment was made for, where it can run it: `run` then needs no --profile here."""
    try:
        found = stamp.read(Path(sys.prefix))
    except LabError:
        return []  # a torn stamp is preflight's finding
    here = None if found is None else known.profiles.get(found.profile)
    if here is None or template.lacks(here):
        return []
    return [here.companion_of or here.id]


def _registered(text: str, name: str, profiles: Sequence[str], known: Registry, root: Path) -> str:
    """The registry's text with the name in each profile. LabError (usage) where the registry would then be refused."""
    for one in profiles:
        text = entry_text.with_experiment(text, one, name, known.get(one).experiments)
    try:
        registry.build(strict_json.loads(text.encode("utf-8"), REGISTRY), root)
    except LabError as error:
        _refuse(error.wanted, error.found, f"choose other profiles: {error.next}")
    return text


def _refuse(wanted: str, found: str, next: str) -> NoReturn:
    raise LabError(wanted, found, next, where="--profile", code=EXIT_USAGE)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise unreadable(error, REGISTRY) from None


def refuse_long(new: dict[str, str]) -> None:
    """LabError (usage) for names with which a line would be longer than the formatter leaves one."""
    longest = max(len(line) for text in new.values() for line in text.splitlines())
    if longest > LINE:
        raise LabError(
            wanted=f"names with which no line of its files is longer than {LINE}",
            found=f"one of {longest}",
            next=f"shorten topic or name by {longest - LINE} characters in all",
            where="TOPIC/NAME",
            code=EXIT_USAGE,
        )


def _told(new: dict[str, str], profiles: Sequence[str], name: str, test: str) -> str:
    lines = [f"wrote     {path}" for path in new]
    lines.append(f"changed   {REGISTRY}: {', '.join(profiles)}")
    lines += [
        "",
        f"→ python -m experiments run {name}",
        f"→ python3 tools/bootstrap.py nox -s tests -- {test}",
        "→ python3 tools/bootstrap.py invoke assets.sync   # what lists a profile's experiments, or names the registry",
    ]
    return "\n".join(lines)

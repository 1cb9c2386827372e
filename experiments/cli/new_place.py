"""Where a new experiment may be: TOPIC/NAME as the command line has it, judged before anything is written."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import NoReturn

from experiments.cli import discovery, templates
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.profile_session import OWN_COMMANDS
from tools.environments.registry.registry import Registry

WORD = re.compile(r"[a-z][a-z0-9_]*")
# Folders of experiments/ that are no topics; pyproject.toml's contracts name those that hold code.
ROOMS = (
    "cli",
    "conformance",
    "evidence",
    "harness",
    "judgements",
    "kinds",
    "mechanisms",
    "models",
    "notebooks",
    "results",
)
PARTS = ("conformance", "notebooks", "shared")  # folders of a topic that are no experiments


def split(given: str) -> tuple[str, str]:
    """Topic and name of `TOPIC/NAME`. LabError (usage) for words that cannot be a folder and a module there."""
    topic, slash, name = given.partition("/")
    if not slash or "/" in name:
        _refuse("TOPIC/NAME, such as quantization/my_first", ascii(given)[:80], "give both, with one slash between")
    for what, word, taken in (("topic", topic, (*ROOMS, *PARTS)), ("experiment", name, PARTS)):
        if not WORD.fullmatch(word) or keyword.iskeyword(word):
            found = f"{ascii(word)[:80]}, a keyword of Python" if keyword.iskeyword(word) else ascii(word)[:80]
            wanted = f"a name of the {what} in small letters, digits and _, a letter first"
            _refuse(wanted, found, "choose another name: it will be a folder and a module")
        if word in taken:
            _refuse(
                f"a name for the {what} that no part of the lab has", word, f"choose another than {', '.join(taken)}"
            )
    return topic, name


def refuse_taken(topic: str, name: str, known: Registry, root: Path) -> None:
    """LabError (usage) where the name is an experiment's already, whatever its topic, or the place is not free."""
    wanted = "a name that no experiment has, whatever its topic"
    for there in sorted((root / "experiments").glob(f"*/{name}/{discovery.MODULE}.py")):
        _refuse(wanted, f"{there.parent.relative_to(root).as_posix()} is there", "choose another name")
    if name in OWN_COMMANDS:
        _refuse(wanted, f"{name}, a command of the lab's own", "choose another name")
    listing = [one.id for one in known.profiles.values() if name in (*one.experiments, *one.judgements)]
    if listing:
        _refuse(wanted, f"{listing[0]} lists it already", "choose another name, or take it out of the registry first")
    folder, tests = root / "experiments" / topic / name, root / "tests" / topic
    if folder.exists() and (not folder.is_dir() or any(one.name != "__pycache__" for one in folder.iterdir())):
        _refuse("a place where nothing is", f"something at experiments/{topic}/{name}", "choose another name, or look")
    if tests.exists() and not (root / "experiments" / topic / "__init__.py").exists():
        _refuse("a topic whose tests have a folder of their own", f"tests/{topic}, of something else", "choose another")
    test = Path(templates.test_of(topic, name)).name
    for path in (root / "tests").rglob(test):
        found = f"{path.relative_to(root).as_posix()} is there"
        _refuse(f"a name for its test, {test}, that is used once", found, "choose another name")


def _refuse(wanted: str, found: str, next: str) -> NoReturn:
    raise LabError(wanted, found, next, where="TOPIC/NAME", code=EXIT_USAGE)

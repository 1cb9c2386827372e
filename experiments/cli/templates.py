"""The templates that experiments begin from: one small experiment for each kind of measurement, in the kind's folder.

`experiments/kinds/<word>/template/` is a package like that of any experiment, so that lint and types are checked where
it lies. `new` writes it under another name; `test.py` of it goes into tests/, and `template.toml` says which profiles
can run it. Only folders are looked at: no kind is imported.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import ROOT
from tools.environments.model import Profile

KINDS, FOLDER, ABOUT, TEST = "experiments/kinds", "template", "template.toml", "test.py"
OWN_IMPORTS = re.compile(r"(?:^from (?:experiments|tools)\.\S+ import (?:[^(\n]+|\([^)]*\))\n)+", re.MULTILINE)
ONE_IMPORT = re.compile(r"^from (\S+) import (?:[^(\n]+|\([^)]*\))\n", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentTemplate:
    """One kind's template. `profile`: without a card, where its test runs unless another such profile is named."""

    kind: str
    folder: Path
    profile: str
    modules: tuple[str, ...]  # what a profile has to require
    cards: int = 1  # fewest of a profile that has any

    def lacks(self, profile: Profile) -> str:
        """Why the profile cannot run it; empty where it can."""
        missing = [name for name in self.modules if name not in profile.required_modules]
        if missing:
            return f"{profile.id} does not require {', '.join(missing)}"
        cards = 0 if profile.gpu is None else profile.gpu.count
        return f"{profile.id} has {cards} card, {self.kind} needs {self.cards}" if 0 < cards < self.cards else ""

    def files(self, topic: str, name: str) -> Iterator[tuple[str, str]]:
        """Path in the checkout and text of each file of `experiments/<topic>/<name>`, its test last."""
        own = f"{KINDS}/{self.kind}/{FOLDER}".replace("/", ".")
        for path in sorted(self.folder.glob("*.py"), key=lambda path: (path.name == TEST, path.name)):
            text = path.read_text(encoding="utf-8")
            text = text.replace(own, f"experiments.{topic}.{name}").replace(f'"{FOLDER}"', f'"{name}"')
            text = OWN_IMPORTS.sub(lambda block: _in_order(block[0]), text)
            yield (test_of(topic, name) if path.name == TEST else f"experiments/{topic}/{name}/{path.name}"), text


def test_of(topic: str, name: str) -> str:
    """Where the test of an experiment is; its name says that it runs one."""
    return f"tests/{topic}/test_run_{name}.py"


def _in_order(imports: str) -> str:
    """Imports in the order of their modules: where the experiment's own stand hangs on the name of its topic."""
    return "".join(one[0] for one in sorted(ONE_IMPORT.finditer(imports), key=lambda one: one[1]))


def having_one(root: Path = ROOT) -> list[str]:
    """The words of the kinds that have a template."""
    return sorted(path.parts[-3] for path in (root / KINDS).glob(f"*/{FOLDER}/{ABOUT}"))


def find(kind: str, root: Path = ROOT) -> ExperimentTemplate:
    """The template of a kind. LabError (usage) for a kind that has none, or is none; LabError for a broken one."""
    known = having_one(root)
    if kind not in known:
        bare = kind in {path.parent.name for path in (root / KINDS).glob("*/kind.py")}
        raise LabError(
            wanted=f"a kind of measurement that has a template: {', '.join(known)}",
            found=f"{kind}, which has none" if bare else f"{ascii(kind)[:80]}, no kind of this checkout",
            next="give --kind one of these; how a kind gets one: CONTRIBUTING.md, Add a kind of measurement",
            where="--kind",
            code=EXIT_USAGE,
        )
    folder = root / KINDS / kind / FOLDER
    try:
        about = tomllib.loads((folder / ABOUT).read_text(encoding="utf-8"))
        modules = tuple(map(str, about.pop("modules")))
        return ExperimentTemplate(kind=kind, folder=folder, modules=modules, **about)
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise LabError(
            wanted="the profile, the modules and perhaps the cards that an experiment of this kind needs",
            found=f"{type(error).__name__}: {str(error)[:80]}",
            next="write them as the other kinds do",
            where=f"{KINDS}/{kind}/{FOLDER}/{ABOUT}",
        ) from None

"""The conformance pages there are: every folder experiments/<topic>/conformance/<page>/, but `shared`.

A page's id is its folder's name, and no other topic has it. Readers see the pages in the order that each page's own
page.toml gives it in its topic. All of this is known without torch; a page's checks are imported only when asked for.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import experiments
from experiments.conformance import page_files
from experiments.conformance.page import Mutant
from tools.environments.errors import EXIT_USAGE, LabError

if TYPE_CHECKING:
    from experiments.conformance.page import Page

SHARED = "shared"  # the folder beside the pages that holds what several of them use


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A page before it is loaded. `part` is its place in the tutorial where it has a number of its own."""

    id: str
    topic: str
    folder: Path
    order: int
    title: str
    title_zh: str
    part: str | None = None

    @property
    def module(self) -> str:
        """The module that has its PAGE."""
        return f"experiments.{self.topic}.conformance.{self.id}"


@dataclass(frozen=True, slots=True)
class PageTopic:
    """A topic that has pages. `part` and `workload` are what records call a run of all of them."""

    name: str
    part: str
    workload: str
    frameworks: tuple[str, ...] = ()  # those that serve as oracles beside torch
    import_ahead: tuple[str, ...] = ()  # modules that most pages come to need: imported once, before the forks


def topics() -> tuple[PageTopic, ...]:
    """Every topic that has a page, in order of name."""
    found = {folder.parent.parent.name: folder.parent for folder in _folders()}
    return tuple(_topic(name, found[name]) for name in sorted(found))


def entries(topic: str | None = None) -> tuple[PageEntry, ...]:
    """The pages of one topic, or of all, topic by topic, in the order that readers see. LabError for a broken one."""
    found = sorted((_entry(folder) for folder in _folders()), key=lambda one: (one.topic, one.order, one.id))
    seen: dict[str, PageEntry] = {}
    for one in found:
        first = seen.setdefault(one.id, one)
        if first is not one:
            where = page_files.shown(one.folder)
            raise LabError(
                "a page id that no other topic has", f"{first.topic} has {one.id}", "rename the folder", where
            )
    return tuple(one for one in found if topic in (None, one.topic))


def ids(topic: str | None = None) -> tuple[str, ...]:
    """The ids of `entries`."""
    return tuple(one.id for one in entries(topic))


def find_topic(name: str) -> PageTopic:
    """The topic of that name. Raises LabError (usage) for one that has no pages, with those that do."""
    known = {topic.name: topic for topic in topics()}
    if name not in known:
        raise LabError(
            "a topic that has pages", ascii(name)[:60], _offer("--topic", name, [*known]), "--topic", EXIT_USAGE
        )
    return known[name]


def find(page: str) -> PageEntry:
    """The entry of one page id. Raises LabError (usage) that offers the nearest ids."""
    known = {entry.id: entry for entry in entries()}
    if page not in known:
        raise LabError("a conformance page", ascii(page)[:60], _offer("--page", page, [*known]), "--page", EXIT_USAGE)
    return known[page]


def mutants(page: str) -> tuple[Mutant, ...]:
    """The faults of one page, from its mutants.toml: a table per fault, its name the table's."""
    return page_files.mutants(find(page).folder)


def load(page: str) -> Page:
    """The page's checks; this imports torch. Raises LabError for a page whose code does not import."""
    entry = find(page)
    try:
        loaded: Page = importlib.import_module(entry.module).PAGE
        if loaded.id != entry.id:
            raise ValueError(f"PAGE is named {loaded.id!r}, its folder {entry.id!r}")
    except Exception as error:  # whatever somebody's page does when it is imported
        raise LabError(
            wanted="a page that imports and exposes PAGE, named as its folder is",
            found=" ".join(f"{type(error).__name__}: {error}".split())[:160],
            next=f"the whole traceback: python -c 'import {entry.module}'",
            where=page_files.shown(entry.folder),
        ) from error
    return loaded


def _folders() -> Iterator[Path]:
    """The folder of every page. One that holds no file of a page's is a left-over, of a checkout say."""
    for root in experiments.__path__:
        for folder in sorted(Path(root).glob("*/conformance/*")):
            named = folder.name != SHARED and folder.name.isidentifier() and not folder.name.startswith("_")
            if named and folder.is_dir() and any([*folder.glob("*.toml"), *folder.glob("*.py")]):
                yield folder


def _entry(folder: Path) -> PageEntry:
    return PageEntry(folder.name, folder.parent.parent.name, folder, **page_files.page(folder))


def _topic(name: str, folder: Path) -> PageTopic:
    said = page_files.topic(folder)
    return PageTopic(
        name=name,
        part=said.get("part", name.replace("_", " ")),
        workload=said.get("workload", name),
        frameworks=tuple(said.get("frameworks", ())),
        import_ahead=tuple(said.get("import_ahead", ())),
    )


def _offer(option: str, wrong: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(wrong, known, n=3, cutoff=0.4) or known
    return f"{option} {' | '.join(near)}" if near else "write one: experiments/<topic>/conformance/<page>/"

"""What a command line asks for: the pages of one topic, and the profile that they are registered for.

One run has one topic, since a record of it rests on that topic's sources. It is the one that --topic names, else that
of the pages named, else that of the profile named where it has pages, else the only one that has any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.conformance import catalogue
from experiments.conformance.catalogue import PageTopic
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import ROOT
from tools.environments.model import Profile
from tools.environments.registry import requirement_text
from tools.environments.registry.registry import Registry

NAME = "conformance"  # what a profile lists among its experiments when it runs its topic's pages


@dataclass(frozen=True, slots=True)
class PageChoice:
    """The pages of one run, in order, each once; the profile is None where none was named and none is the topic's."""

    topic: PageTopic
    pages: tuple[str, ...]
    profile: Profile | None


def choose(registry: Registry, topic: str | None, pages: Sequence[str], profile: str | None) -> PageChoice:
    """What was asked for; no page means all of the topic. Raises LabError (usage) for a name that is none."""
    asked = None if profile is None else registry.get(profile)
    named = [catalogue.find(page) for page in pages]
    if topic is None:
        chosen = _topic({one.topic for one in named}, asked)
    else:
        chosen = catalogue.find_topic(topic)
    for one in named:
        if one.topic != chosen.name:
            offer = f"a run has one topic: --topic {one.topic} --page {one.id}"
            raise LabError(f"a page of {chosen.name}", f"{one.id}, of {one.topic}", offer, "--page", EXIT_USAGE)
    ids = tuple(dict.fromkeys(one.id for one in named)) or catalogue.ids(chosen.name)
    return PageChoice(chosen, ids, asked or home(registry, chosen.name))


def home(registry: Registry, topic: str) -> Profile | None:
    """The profile that a topic's pages are registered for: its first that lists them. None where no profile does."""
    return next((profile for profile in registry.having(NAME) if profile.topic == topic), None)


def need_profile(choice: PageChoice) -> Profile:
    """The profile to run in. Raises LabError (usage) where there is none."""
    if choice.profile is None:
        found = f"none is named, and no profile of {choice.topic.name} lists {NAME}"
        next = "name the one this environment was made for, or leave no record: --try-here"
        raise LabError("a profile to run these pages in", found, next, "--profile", EXIT_USAGE)
    return choice.profile


def registered_ranges(registry: Registry, topic: str, profile: Profile, root: Path = ROOT) -> Mapping[str, str]:
    """Framework -> the specifier that a topic's pages are registered under: its home's, else that of `profile`."""
    profile = home(registry, topic) or profile
    found = {
        line.requirement.name: str(line.requirement.specifier)
        for line in requirement_text.flatten(profile, root)
        if line.kind == "requirement"
    }
    if profile.torch is not None:
        found["torch"] = profile.torch.specifier
    return found


def _topic(of_pages: set[str], profile: Profile | None) -> PageTopic:
    """The topic where none was named."""
    if of_pages:
        return catalogue.find_topic(min(of_pages))
    known = {topic.name: topic for topic in catalogue.topics()}
    if profile is not None and profile.topic in known:
        return known[profile.topic]
    if len(known) == 1:
        return next(iter(known.values()))
    if not known:
        return catalogue.find_topic("")  # it says that there are none, and how to write one
    offer = f"--topic {' | '.join(known)}"
    raise LabError(f"one of the {len(known)} topics that have pages", "none is named", offer, "--topic", EXIT_USAGE)

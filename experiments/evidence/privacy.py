"""Nothing private goes into a record: no user or host name, home path, token, endpoint or proxy credential.

Two nets. The first knows this machine: its user, host, home, checkout, and the values of variables that hold secrets.
The second knows shapes: tokens, credentials in URLs, home folders, addresses. `clean` sends every free text of a
record through both before it is written; `findings` looks through a record somebody else wrote.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from experiments.evidence.codec import hints
from experiments.evidence.digests import digest_of
from experiments.evidence.private_shapes import clean_shapes
from experiments.evidence.record import Record
from experiments.evidence.sentences import CLAUSE
from experiments.evidence.vocabulary import NAME_PATTERN, Pattern
from tools.environments.layout import ROOT

# Names everybody has: replacing them would only garble the text.
COMMON_NAMES = frozenset(
    {"root", "user", "users", "admin", "ubuntu", "debian", "runner", "docker", "localhost", "none"}
)
SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE|PROXY|ENDPOINT|AUTH", re.IGNORECASE
)
# Identifiers this repository gives: a user who happens to be called "torch" must not garble them.
IDENTIFIERS = frozenset({("Check", "id"), ("Report", "profile"), ("Report", "registry_digest"), ("Report", "accepted")})
IDENTIFIERS |= {("Source", "scope"), ("Backend", "name"), ("Workload", "name"), ("Workload", "dtype")}
# Texts made of this repository's templates and of arguments: where these hold no name, neither do the texts.
SAID = frozenset({("Claim", "statement"), ("Decision", "sentence"), ("Limit", "reason"), ("Limit", "lift")})


@dataclass(frozen=True, slots=True)
class Known:
    """What is private about this machine, as literal texts. Only used to look for, never written anywhere."""

    root: str = ""
    home: str = ""
    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def known_here(environ: Mapping[str, str] | None = None) -> Known:
    """Gather what is private here. Never fails: what cannot be told is left out."""
    environment = os.environ if environ is None else environ
    home = os.path.expanduser("~") if environ is None else environment.get("HOME", "")
    users = {environment.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")} | {Path(home).name}
    hosts = {environment.get("HOSTNAME", "")}
    if environ is None:
        with contextlib.suppress(Exception):  # no entry in the user database, no host name: nothing to hide then
            import getpass
            import socket

            users.add(getpass.getuser())
            hosts.add(socket.gethostname())
    hosts |= {host.split(".")[0] for host in hosts}
    secrets = {value for name, value in environment.items() if SECRET_NAME.search(name) and len(value) >= 6}
    return Known(str(ROOT), home, _telling(users), _telling(hosts), tuple(sorted(secrets, key=len, reverse=True)))


def clean_text(text: str, known: Known, *, names: bool = True) -> str:
    """The text with everything private replaced by a word in angle brackets, or by `~` for a home folder.

    With `names` false, user and host names are left: for identifiers that this repository gives.
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate cannot be written
    for secret in known.secrets:
        text = text.replace(secret, "<secret>")
    if len(known.root) > 1:
        text = re.sub(re.escape(known.root) + r"(?=[/\\\s\"':,;)]|$)", ".", text)
    if len(known.home) > 1:
        text = re.sub(re.escape(known.home) + r"(?=[/\\\s\"':,;)]|$)", "~", text)
    text = clean_shapes(text)
    for private, word in ((known.users, "<user>"), (known.hosts, "<host>")) if names else ():
        for name in private:
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", word, text, flags=re.IGNORECASE)
    return text


def clean(record: Record, known: Known) -> Record:
    """The record with every free text cleaned. Enumerations and patterned fields are as they were."""
    cleaned: Record = _clean_value(record, known)
    if cleaned.workload.knobs != record.workload.knobs:
        cleaned = replace(cleaned, workload=replace(cleaned.workload, digest=digest_of(cleaned.workload.knobs)))
    return cleaned


def findings(record: Record) -> list[str]:
    """Paths of free texts that still look private by their shape, whoever wrote them."""
    return [path for path, text in _texts(record, "record") if clean_shapes(text) != text]


def _clean_value(value: Any, known: Known, names: bool = True) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        changed = {
            name: _clean_value(getattr(value, name), known, names and (kind.__name__, name) not in IDENTIFIERS)
            for name, annotation in hints(kind).items()
            if not _closed(annotation)
        }
        if changed.get("said") is not None and changed["said"] == getattr(value, "said", None):
            texts = (name for name in changed if (kind.__name__, name) in SAID)
            changed |= {name: _clean_value(getattr(value, name), known, names=False) for name in texts}
        return replace(value, **changed)
    if isinstance(value, str):
        return clean_text(value, known, names=names)
    if isinstance(value, Mapping):
        ours = {"code"} if value.keys() == CLAUSE else set()
        return {key: _clean_value(item, known, names and key not in ours) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return tuple(_clean_value(item, known, names) for item in value)
    return value


def _texts(value: Any, where: str) -> Iterable[tuple[str, str]]:
    if is_dataclass(value) and not isinstance(value, type):
        for name, annotation in hints(type(value)).items():
            if not _closed(annotation):
                yield from _texts(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, f"{where}.{key}")
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{where}[{index}]")


def _closed(kind: Any) -> bool:
    """Whether a field can only hold what its type lists or its pattern lets through (digests, labels, moments)."""
    if get_origin(kind) is Literal:
        return True
    if hasattr(kind, "__metadata__"):
        tight = any(isinstance(extra, Pattern) and extra.expression != NAME_PATTERN for extra in kind.__metadata__)
        return tight or _closed(get_args(kind)[0])
    parts = [part for part in get_args(kind) if part not in (type(None), ...)]
    return len(parts) == 1 and _closed(parts[0])


def _telling(names: Iterable[str]) -> tuple[str, ...]:
    telling = {name for name in names if len(name) >= 3 and name.lower() not in COMMON_NAMES}
    return tuple(sorted(telling, key=lambda name: (-len(name), name)))

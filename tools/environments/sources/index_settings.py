"""Where packages may come from: the options, their environment variables, and what the user's own pip and uv files say.

The installer decides this once and hands it to pip or uv explicitly, because the two tools read different files and a
preset index must not decide which build of torch is taken. Of the user's own settings the main index, wheel folders,
proxy and certificates are honoured; extra indexes are not. Addresses may hold credentials: show `public()` only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.environments.errors import EXIT_USAGE, LabError

TRUE = ("1", "true", "yes", "on", "y")
FALSE = ("0", "false", "no", "off", "n", "")
# From pip's own file only what reaches the network; everything else there could change what is installed, or where.
CARRIED_FROM_PIP = ("proxy", "cert", "client-cert", "trusted-host", "timeout", "retries", "cache-dir")
NEXT_STEP = "--index-url URL (TMLAB_INDEX_URL) takes a mirror; --find-links DIR --offline takes a folder of wheels"


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """What the command line gave; None or empty where it gave nothing."""

    index_url: str | None = None
    torch_index: str | None = None
    find_links: tuple[str, ...] = ()
    offline: bool = False


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The settings in force. `index_url` None: the tools' default. `torch_index` None: the registry's."""

    index_url: str | None = None
    torch_index: str | None = None
    find_links: tuple[str, ...] = ()  # absolute folders, or addresses of pages that list wheels
    offline: bool = False
    origin: Mapping[str, str] = field(default_factory=dict)  # setting -> where it was given
    network: Mapping[str, str] = field(default_factory=dict)  # PIP_* variables that carry what pip's own file says
    ignored: tuple[str, ...] = ()  # settings of the user that are not followed, to be said once

    def folders(self) -> tuple[Path, ...]:
        """The wheel folders among `find_links`."""
        return tuple(Path(place) for place in self.find_links if not is_address(place))

    def public(self) -> dict[str, object]:
        """What the stamp records: no credentials."""
        return {
            "index_url": without_credentials(self.index_url) if self.index_url else None,
            "torch_index": without_credentials(self.torch_index) if self.torch_index else None,
            "find_links": [without_credentials(place) for place in self.find_links],
            "offline": self.offline,
            "origin": dict(self.origin),
        }


def resolve(
    options: IndexOptions,
    environ: Mapping[str, str],
    *,
    pip_files: Sequence[Path] | None = None,
    uv_files: Sequence[Path] | None = None,
) -> IndexSettings:
    """Option, then TMLAB_* variable, then the user's own PIP_* and UV_* variables, then pip's and uv's files.

    LabError (usage) for --offline without a wheel folder, for a folder that was named and does not exist, or for a
    TMLAB_OFFLINE that says neither yes nor no.
    """
    pip = _pip_values(pip_config_files(environ) if pip_files is None else pip_files)
    uv_index = _uv_index(uv_config_files(environ) if uv_files is None else uv_files)
    origin: dict[str, str] = {}

    def first(setting: str, *candidates: tuple[str, str | None]) -> str | None:
        for place, value in candidates:
            if value:
                origin[setting] = place
                return _checked(place, value.strip())
        return None

    index_url = first(
        "index_url",
        ("--index-url", options.index_url),
        *(
            (name, environ.get(name))
            for name in ("TMLAB_INDEX_URL", "PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
        ),
        ("pip's configuration", pip.get("index-url")),
        ("uv's configuration", uv_index),
    )
    torch_index = first(
        "torch_index", ("--torch-index", options.torch_index), ("TMLAB_TORCH_INDEX", environ.get("TMLAB_TORCH_INDEX"))
    )
    find_links = _find_links(options, environ, pip, origin)
    offline = _switch("TMLAB_OFFLINE", environ) or options.offline
    if offline and not find_links:
        raise LabError(
            wanted="a folder of wheels, as no network may be used",
            found="--offline (or TMLAB_OFFLINE) without one",
            next="--find-links DIR; to fill DIR on a machine with network: python -m pip download -d DIR pip -r FILE",
            where="--offline",
            code=EXIT_USAGE,
        )
    ignored = tuple(
        name for name in ("PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_INDEX") if environ.get(name, "").strip()
    ) + (("extra-index-url in pip's configuration",) if pip.get("extra-index-url") else ())
    return IndexSettings(index_url, torch_index, find_links, offline, origin, _carried(pip, environ), ignored)


def is_address(place: str) -> bool:
    """True for https://..., False for a folder."""
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+://", place) is not None


def without_credentials(text: str) -> str:
    """A text in which every address has its user and password replaced: for screens, logs and records."""
    return re.sub(r"://[^/\s@]+@", "://***@", text)


def pip_config_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where pip reads its settings, weakest first. PIP_CONFIG_FILE may name one more, or /dev/null for none at all."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return ()
    home = Path(environ.get("HOME") or "/nonexistent")
    settings = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    system = (Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"))
    user = (home / ".pip/pip.conf", settings / "pip/pip.conf", home / "Library/Application Support/pip/pip.conf")
    return (*system, *user, *((Path(named),) if named else ()))


def uv_config_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where uv reads its settings, strongest first; only the file UV_CONFIG_FILE names, where it names one."""
    if environ.get("UV_NO_CONFIG", "").lower() in TRUE:
        return ()
    if named := environ.get("UV_CONFIG_FILE"):
        return (Path(named),)
    home = Path(environ.get("HOME") or "/nonexistent")
    return (Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv/uv.toml", Path("/etc/uv/uv.toml"))


def _switch(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a variable says yes. A word that says neither must not stand for one of the two."""
    said = environ.get(name, "").strip().lower()
    if said in TRUE or said in FALSE:
        return said in TRUE
    raise LabError(
        wanted=f"one of {', '.join(TRUE)} or {', '.join(filter(None, FALSE))}",
        found=f"{environ[name]!a}"[:80],
        next=f"set {name}=1 to use no network at all, or unset it",
        where=name,
        code=EXIT_USAGE,
    )


def _checked(place: str, address: str) -> str:
    if re.fullmatch(r"(?:https?://|file:///)[^\s\[\]]+", address):
        return address
    raise LabError(
        wanted="an index as http(s)://... or file:///...",
        found=without_credentials(address)[:80],
        next="give a whole address, such as https://mirror.example/simple",
        where=place,
        code=EXIT_USAGE,
    )


def _find_links(
    options: IndexOptions, environ: Mapping[str, str], pip: Mapping[str, str], origin: dict[str, str]
) -> tuple[str, ...]:
    explicit = [("--find-links", place) for place in options.find_links]
    explicit = explicit or [("TMLAB_FIND_LINKS", place) for place in _places(environ.get("TMLAB_FIND_LINKS", ""))]
    for name, place in explicit:
        if not is_address(place) and not Path(place).expanduser().is_dir():
            raise LabError("a folder of wheels", f"no such folder: {place}", "name one that exists", name, EXIT_USAGE)
    preset = [(name, place) for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS") for place in _places(environ.get(name, ""))]
    preset += [("pip's configuration", place) for place in _places(pip.get("find-links", ""))]
    kept: dict[str, str] = {}
    for name, place in explicit or preset:
        where = place if is_address(place) else str(Path(place).expanduser().absolute())
        if is_address(place) or Path(where).is_dir():  # a preset folder that is gone is no reason to stop
            kept.setdefault(where, name)
    if kept:
        origin["find_links"] = ", ".join(dict.fromkeys(kept.values()))
    return tuple(kept)


def _places(value: str) -> list[str]:
    """One folder whose name may hold spaces, else a list parted by spaces (pip) or commas (uv)."""
    value = value.strip()
    return [value] if value and Path(value).is_dir() else [part for part in re.split(r"[,\s]+", value) if part]


def _pip_values(files: Sequence[Path]) -> dict[str, str]:
    """pip's settings, a later file and `[install]` winning. What cannot be read is pip's to complain about."""
    present = [path for path in files if path.is_file()]
    if not present:
        return {}
    import configparser  # only where there is such a file: it costs milliseconds at each start

    values: dict[str, str] = {}
    for path in present:
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, configparser.Error):
            continue
        for section in ("global", "install"):
            if parser.has_section(section):
                values.update({key.replace("_", "-"): value for key, value in parser.items(section)})
    return values


def _uv_index(files: Sequence[Path]) -> str | None:
    for path in files:
        if not path.is_file():
            continue
        import tomllib

        try:
            settings = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        listed = settings.get("index")
        entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        defaults = [entry for entry in entries if entry.get("default")]
        pip = settings.get("pip")
        found = (
            (defaults[0].get("url") if defaults else None)
            or settings.get("index-url")
            or (pip.get("index-url") if isinstance(pip, dict) else None)
        )
        if isinstance(found, str):
            return found
    return None


def _carried(pip: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    names = {key: "PIP_" + key.upper().replace("-", "_") for key in CARRIED_FROM_PIP}
    return {names[key]: " ".join(pip[key].split()) for key in names if pip.get(key) and names[key] not in environ}

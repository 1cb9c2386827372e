"""Proxy variables, and what a run that downloads a model will meet: the hub, the local cache, and room for it.

Addresses may be private: only variable names, schemes and answers leave this module, never a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.machine import host_facts
from tools.environments.machine.host_facts import Disk
from tools.environments.sources import index_settings

DEFAULT_MODEL = "Qwen/Qwen2.5-0.5B"
DEFAULT_ENDPOINT = "https://huggingface.co"
PROXY_VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "TMLAB_OFFLINE")
TRUE = ("1", "ON", "YES", "TRUE")
WEIGHTS = "model.safetensors"
MODEL_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*(@\w[\w./-]*)?", re.ASCII)
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class Proxy:
    """One proxy variable that is set: its name as found, and the scheme of its value ("" where it has none)."""

    variable: str
    scheme: str


@dataclass(frozen=True, slots=True)
class HubFacts:
    """Asked only when a run would download. `answer` is None when the hub was not asked; `reached` when it answered."""

    model: str  # "Qwen/Qwen2.5-0.5B"
    endpoint: str  # "the hub", or the name of the variable that names another
    offline: str | None  # the variable that forbids the network
    cached: bool  # everything a run needs is in the local cache
    reached: bool
    answer: str | None
    cache: Disk


def model_name(text: str) -> str:
    """The name of a model on the hub itself, ORG/NAME or ORG/NAME@REV. LabError (usage) for any other text."""
    if not MODEL_NAME.fullmatch(text) or ".." in text:
        raise LabError("ORG/NAME or ORG/NAME@REV", ascii(text)[:80], f"--model {DEFAULT_MODEL}", "--model", EXIT_USAGE)
    return text


def proxies(environ: Mapping[str, str]) -> tuple[Proxy, ...]:
    """Proxy variables that are set, upper and lower case; the lower-case one of a pair wins, as in curl and httpx."""
    found = []
    for name in PROXY_VARIABLES:
        variable = next((spelled for spelled in (name.lower(), name) if environ.get(spelled)), None)
        if variable:
            scheme, mark, _ = environ[variable].partition("://")
            found.append(Proxy(variable, scheme.lower() if mark else ""))
    return tuple(found)


def hub(model: str, environ: Mapping[str, str], *, time_limit_s: float = 5.0) -> HubFacts:
    """Look into the cache first; the hub is asked only for what is not there, once, for at most `time_limit_s`."""
    name, _, revision = model.partition("@")
    folder = cache_folder(environ)
    cached = is_cached(folder, name, revision or "main")
    offline = next((variable for variable in OFFLINE_VARIABLES if _says_yes(variable, environ)), None)
    reached, answer = False, None
    if not cached and offline is None:
        reached, answer = _ask(environ, name, revision or "main", time_limit_s)
    endpoint = "HF_ENDPOINT" if environ.get("HF_ENDPOINT") else "the hub"
    return HubFacts(model, endpoint, offline, cached, reached, answer, host_facts.disk(folder))


def _says_yes(variable: str, environ: Mapping[str, str]) -> bool:
    """By the words that its reader takes: the hub's library, or this project for its own variable."""
    said = environ.get(variable, "")
    return said.strip().lower() in index_settings.TRUE if variable.startswith("TMLAB_") else said.upper() in TRUE


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps downloads, by its own order of variables."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environ.get(variable):
            return Path(environ[variable]).expanduser()
    home = environ.get("HF_HOME")
    if home:
        return Path(home).expanduser() / "hub"
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


def is_cached(folder: Path, model: str, revision: str) -> bool:
    """Whether configuration, tokenizer and all weights of that revision are there, with no link that leads nowhere."""
    place = folder / f"models--{model.replace('/', '--')}"
    try:
        reference = place / "refs" / revision
        commit = reference.read_text().strip() if reference.is_file() else revision
        snapshot = place / "snapshots" / commit
        wanted = ["config.json", *_weights(snapshot)]
        return all((snapshot / name).is_file() for name in wanted) and any(
            (snapshot / name).is_file() for name in TOKENIZERS
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def _weights(snapshot: Path) -> list[str]:
    index = snapshot / f"{WEIGHTS}.index.json"
    if not index.is_file():
        return [WEIGHTS]
    return sorted({str(name) for name in json.loads(index.read_text())["weight_map"].values()})


def _ask(environ: Mapping[str, str], model: str, revision: str, time_limit_s: float) -> tuple[bool, str]:
    """Whether the hub answers for this model, and what it said, in words without any address."""
    through = next((proxy for proxy in proxies(environ) if proxy.scheme.startswith("socks")), None)
    if through:
        return _ask_socks(environ[through.variable], through.variable, time_limit_s)
    import http.client
    import urllib.error
    import urllib.parse
    import urllib.request

    endpoint = (environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
    path = f"/api/models/{urllib.parse.quote(model)}/revision/{urllib.parse.quote(revision, safe='')}"
    try:
        with urllib.request.urlopen(endpoint + path, timeout=time_limit_s) as response:
            return True, f"answers {response.status}"
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            return True, f"answers {error.code}: this model needs a token (hf auth login)"
        return False, f"answers {error.code}" + (" (no such model or revision)" if error.code == 404 else "")
    except urllib.error.URLError as error:
        return False, f"does not answer ({type(error.reason).__name__})"
    except (OSError, ValueError, http.client.HTTPException) as error:  # a time limit while reading, an odd address
        return False, f"does not answer ({type(error).__name__})"


def _ask_socks(value: str, variable: str, time_limit_s: float) -> tuple[bool, str]:
    """The standard library speaks no SOCKS: only whether the proxy itself takes a connection."""
    import socket
    import urllib.parse

    try:
        parts = urllib.parse.urlsplit(value)
        with socket.create_connection((parts.hostname or "", parts.port or 1080), timeout=time_limit_s):
            return True, f"the SOCKS proxy of {variable} takes connections"
    except (OSError, ValueError) as error:
        return False, f"the SOCKS proxy of {variable} does not answer ({type(error).__name__})"

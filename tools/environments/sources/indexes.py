"""Reading a package index with the standard library: what a project's page offers, and one verified download.

Needed where there is no pip yet (a bare Debian has none, and no ensurepip to make one), and to ask an index whether it
answers at all before a client spends minutes on retries. Any index that serves the simple HTML pages will do, mirrors
included. Credentials in an address are sent, never shown.
"""

from __future__ import annotations

import base64
import glob
import hashlib
import http.client
import os
import ssl
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple, TypeVar

from tools.environments.command_line import LEFT_BEHIND
from tools.environments.errors import LabError
from tools.environments.sources.index_settings import IndexSettings, without_credentials

T = TypeVar("T")
# Put together here and nowhere else, so that a place which mirrors everything has one line to change.
DEFAULT_INDEX = "https://" + ".".join(("pypi", "org")) + "/simple"
INDEX_NAME = "PyPI"
NEXT_STEP = (
    "check the network or the proxy variables; for a mirror set TMLAB_INDEX_URL, and for a folder of wheels "
    "TMLAB_FIND_LINKS=DIR with TMLAB_OFFLINE=1"
)


class Link(NamedTuple):
    """One file that an index offers: its name, its address, and its SHA-256 where the page gives one."""

    filename: str
    url: str
    sha256: str | None


class _Page(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.links: list[Link] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Collect an anchor; one that is yanked is not offered."""
        given = dict(attributes)
        target = given.get("href")
        if tag != "a" or not target or "data-yanked" in given:
            return
        url, _, fragment = urllib.parse.urljoin(self.base, target).partition("#")
        digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None
        self.links.append(Link(os.path.basename(urllib.parse.unquote(url)), url, digest))


def shown(url: str) -> str:
    """What messages call an index: the default one by its name, any other by its address."""
    return INDEX_NAME if url.rstrip("/") == DEFAULT_INDEX else without_credentials(url)


def links(index: str, project: str, *, timeout_s: float = 5.0) -> tuple[Link, ...]:
    """What a project's page offers. LabError where the index cannot be reached or lacks the project."""
    base = f"{index.rstrip('/')}/{project}/"
    page = _Page(base)
    page.feed(_fetch(base, index, timeout_s).decode("utf-8", "replace"))
    return tuple(page.links)


def file_names(address: str, *, limit_s: float) -> tuple[str, ...]:
    """The files that one page lists, read within `limit_s` seconds on the clock. LabError where it does not answer."""

    def read() -> tuple[str, ...]:
        folder = _folder(address)
        if folder is not None:
            return tuple(entry.name for entry in folder.iterdir())
        page = _Page(address)
        page.feed(_fetch(address, address, limit_s).decode("utf-8", "replace"))
        return tuple(link.filename for link in page.links)

    return _within(limit_s, address, read)


def answers(index: str, *, limit_s: float = 5.0) -> LabError | None:
    """None when the index answers for pip's own page, else the finding. Asked before a client spends minutes on it."""
    if _folder(index) is not None:
        return None
    try:
        _within(limit_s, index, lambda: _fetch(f"{index.rstrip('/')}/pip/", index, limit_s, at_most=1))
    except LabError as error:
        return error
    return None


def _folder(address: str) -> Path | None:
    """The folder of a file:// address, which pip and uv read as an index too; None for any other."""
    if not address.startswith("file://"):
        return None
    folder = Path(urllib.parse.unquote(urllib.parse.urlsplit(address).path))
    return folder if folder.is_dir() else None


def cannot_judge(error: LabError, environ: Mapping[str, str] = os.environ) -> bool:
    """True where pip and uv may get through although this module does not.

    They speak SOCKS, and they bring certificates along where a Python has none of its own.
    """
    proxies = [environ.get(name, "") for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")]
    return "CERTIFICATE_VERIFY_FAILED" in error.found or any(proxy.startswith("socks") for proxy in proxies)


def download(link: Link, folder: Path, *, timeout_s: float = 30.0) -> Path:
    """Fetch one file whole into `folder`, or not at all. LabError where its SHA-256 is not what the page said."""
    data = _fetch(link.url, link.url, timeout_s)
    digest = hashlib.sha256(data).hexdigest()
    if link.sha256 is not None and digest != link.sha256:
        raise LabError(
            wanted=f"{link.filename} with SHA-256 {link.sha256}",
            found=f"SHA-256 {digest}",
            next="run it again; if it stays so, the index or a proxy alters files: set another in TMLAB_INDEX_URL",
            where=without_credentials(link.url),
        )
    target = folder / link.filename
    handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
    with os.fdopen(handle, "wb") as part:
        part.write(data)
    os.replace(name, target)
    return target


def pip_wheel(folder: Path, settings: IndexSettings) -> Path:
    """A wheel of pip: from a wheel folder, else the one Python brings, else the index's newest (put in `folder`)."""
    places = [str(place) for place in settings.folders()]
    for place in (*places, *_places_of_python()):
        found = sorted(glob.glob(os.path.join(place, "pip-*-py3-none-any.whl")), key=release)
        if found:
            return Path(found[-1])
    if settings.offline:
        raise LabError(
            wanted="a wheel of pip, as no network may be used",
            found=f"none in {', '.join(places) or 'any wheel folder'}, and this Python brings none along",
            next="on a machine with network: python -m pip download pip -d DIR, then set TMLAB_FIND_LINKS=DIR",
        )
    index = settings.index_url or DEFAULT_INDEX
    offered = [
        link for link in links(index, "pip") if link.filename.endswith("-py3-none-any.whl") and release(link.filename)
    ]
    if not offered:
        raise LabError("a wheel of pip", "none on its page", NEXT_STEP, shown(index))
    folder.mkdir(parents=True, exist_ok=True)
    return download(max(offered, key=lambda link: release(link.filename)), folder)


def release(filename: str) -> tuple[int, ...]:
    """The release numbers in a wheel's file name; () for a pre-release or a name without a version."""
    numbers = os.path.basename(filename).partition("-")[2].partition("-")[0].split(".")
    return tuple(map(int, numbers)) if all(number.isdecimal() for number in numbers) else ()


def _places_of_python() -> tuple[str, ...]:
    """Where a Python keeps the pip wheel that its ensurepip would install: inside itself, or where Debian moves it."""
    try:
        import ensurepip
    except ImportError:
        return ()
    bundled = os.path.join(os.path.dirname(ensurepip.__file__), "_bundled")
    return (bundled, "/usr/share/python-wheels")


def _within(limit_s: float, place: str, ask: Callable[[], T]) -> T:
    """The answer, or LabError once the time is over: a silent name server or a slow drip knows no time-out."""
    answer: list[T] = []
    trouble: list[Exception] = []

    def run() -> None:
        try:
            answer.append(ask())
        except Exception as error:
            trouble.append(error)

    thread = threading.Thread(target=run, name=LEFT_BEHIND, daemon=True)  # when late: it ends with the process
    thread.start()
    thread.join(limit_s)
    if trouble:
        raise trouble[0]
    if not answer:
        raise LabError("an index that answers", f"no answer within {limit_s:g} s", NEXT_STEP, shown(place))
    return answer[0]


def _certificates() -> ssl.SSLContext | None:
    """The bundle that pip was given, where OpenSSL was told of none: behind a proxy that signs for everyone."""
    given = next(filter(None, map(os.environ.get, ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"))), None)
    if given is None or os.environ.get("SSL_CERT_FILE") or not os.path.isfile(given):
        return None
    return ssl.create_default_context(cafile=given)


def _fetch(url: str, place: str, timeout_s: float, *, at_most: int | None = None) -> bytes:
    try:
        parts = urllib.parse.urlsplit(url)
        bare = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        request = urllib.request.Request(bare, headers={"Accept": "text/html, */*;q=0.1"})
        if parts.username is not None:
            secret = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            request.add_header("Authorization", "Basic " + base64.b64encode(secret.encode()).decode())
        with urllib.request.urlopen(request, timeout=timeout_s, context=_certificates()) as answer:
            content: bytes = answer.read(at_most)
            return content
    except urllib.error.HTTPError as error:
        found = f"HTTP {error.code} for {without_credentials(url)}" if place != url else f"HTTP {error.code}"
        raise LabError("an index that has this file", found, NEXT_STEP, shown(place)) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise LabError("an index that answers", f"no answer ({reason})", NEXT_STEP, shown(place)) from None

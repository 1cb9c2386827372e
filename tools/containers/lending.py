"""Lending wheel folders of this machine to a build, over loopback, so that nothing of them stays in a layer.

A build sees its context and the network, and what it copies is in the image for good. So the folders are served while
the build runs, on an address of 127.0.0.0/8 that follows from the checkout: it is the same in every build, and an image
builder's cache, which compares commands and arguments, holds. The build has to share the host's network for it.
"""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from urllib.parse import quote, unquote

from tools.environments.errors import LabError
from tools.environments.layout import ROOT

PORT = 8765


def address(root: Path = ROOT) -> str:
    """A loopback address of this checkout's own."""
    parts = hashlib.sha256(str(root).encode()).digest()
    return f"127.{parts[0]}.{parts[1]}.{2 + parts[2] % 250}"


@contextmanager
def lent(folders: Sequence[Path], host: str | None = None, port: int = PORT) -> Iterator[str | None]:
    """Serve the wheels of these folders; the page's address, or None where there is nothing to lend.

    LabError where the address is taken: another build of this checkout runs.
    """
    if not folders:
        yield None
        return
    place = host or address()
    try:
        server = http.server.ThreadingHTTPServer((place, port), _handler(folders))
    except OSError as error:
        raise LabError(
            wanted=f"{place}:{port}, to lend the wheels of {', '.join(map(str, folders))} to the build",
            found=error.strerror or str(error),
            next="another build of this checkout runs: wait for it; or serve the folder yourself and give its address: "
            "--find-links URL (only Linux can lend a folder)",
            where="--find-links",
        ) from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{place}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def _handler(folders: Sequence[Path]) -> type[http.server.BaseHTTPRequestHandler]:
    def wheels() -> dict[str, Path]:
        return {path.name: path for folder in reversed(folders) for path in sorted(folder.glob("*.whl"))}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """The page of wheels, or one of them; nothing else of the folders."""
            name = unquote(self.path.lstrip("/"))
            if not name:
                links = "".join(f'<a href="{quote(wheel)}">{escape(wheel)}</a>\n' for wheel in sorted(wheels()))
                self._answer(f"<!doctype html>\n{links}".encode(), "text/html; charset=utf-8")
            elif path := wheels().get(name):
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(path.stat().st_size))
                self.end_headers()
                with open(path, "rb") as file:
                    while block := file.read(1 << 20):
                        self.wfile.write(block)
            else:
                self.send_error(404)

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """A build tells what it fetched; the server adds nothing."""

    return Handler

"""A small hub on loopback: the four calls the client makes, real HTTP, and the faults a network can have.

It serves models at commits, large files through a redirect to a second path as the real hub does, byte ranges, and the
hub's own error headers. It understands absolute request addresses too, so it can stand behind HTTP_PROXY, and a SOCKS5
door leads to it. Every request is noted, so a test can say what was asked for and what was not.
"""

from __future__ import annotations

import hashlib
import json
import socket
import socketserver
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Repository:
    """One model: files by commit, and what each branch or tag points to. `refuse` answers every call with an error."""

    commits: dict[str, dict[str, bytes]]
    refs: dict[str, str]
    refuse: tuple[int, str] | None = None  # status, X-Error-Code


@dataclass
class Faults:
    """What goes wrong on the way. Names are file names."""

    truncate: dict[str, int] = field(default_factory=dict)  # bytes sent before the connection closes
    stall: dict[str, int] = field(default_factory=dict)  # bytes sent before nothing more comes
    alter: set[str] = field(default_factory=set)  # same size, other content
    announce: dict[str, int] = field(default_factory=dict)  # size the listing claims
    gone: set[str] = field(default_factory=set)  # listed, but answers 404
    page: bool = False  # a login page in place of every answer
    no_digest: bool = False  # entity tags that are no digest of the content
    no_commit: bool = False  # answers for files do not say which commit they are of
    mute: bool = False  # connections about files are closed without an answer


@dataclass(frozen=True)
class Seen:
    """One request: method, path without its query, and whether it went to the content path or came with a token."""

    method: str
    path: str
    authorization: str | None


def git_blob(content: bytes) -> str:
    """The name git gives a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def is_large(name: str) -> bool:
    """Files the hub keeps outside git, as large ones."""
    return name.endswith(".safetensors")


class LoopbackHub:
    """Run with `with`: serves `repositories` on a port of its own."""

    def __init__(self, repositories: Mapping[str, Repository]) -> None:
        self.repositories = dict(repositories)
        self.faults = Faults()
        self.seen: list[Seen] = []
        self.stalled = threading.Event()  # a body is under way and stands still
        self.released = threading.Event()  # let those bodies go on
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> LoopbackHub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def bodies(self) -> list[str]:
        """Paths whose content was sent."""
        return [seen.path for seen in self.seen if seen.method == "GET" and not seen.path.startswith("/api/")]


class _Handler(BaseHTTPRequestHandler):
    hub: ClassVar[LoopbackHub]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output to itself."""

    def _answer(self) -> None:
        address = urlsplit(self.path)
        if address.path != "/api/agent-harnesses":  # some clients ask once which program drives them
            self.hub.seen.append(Seen(self.command, address.path, self.headers.get("Authorization")))
        parts = [unquote(part) for part in address.path.strip("/").split("/")]
        if self.hub.faults.page:
            self._send(200, b"<html>log in to this network</html>", {"Content-Type": "text/html"})
        elif parts[0] == "cdn":
            self._content(parts[1], parts[2])
        elif parts[:2] == ["api", "models"]:
            self._api(parts[2:], parse_qs(address.query))
        elif "resolve" in parts and self.hub.faults.mute:
            self.close_connection = True
        elif "resolve" in parts:
            at = parts.index("resolve")
            self._resolve("/".join(parts[:at]), parts[at + 1], "/".join(parts[at + 2 :]))
        else:
            self._fail(404, "")

    def _find(self, name: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        repository = self.hub.repositories.get(name)
        if repository is None:
            return self._fail(401, "RepoNotFound")
        if repository.refuse:
            return self._fail(*repository.refuse)
        commit = repository.refs.get(revision, revision)
        fitting = [known for known in repository.commits if known.startswith(commit) and len(commit) >= 7]
        if len(fitting) != 1:
            return self._fail(404, "RevisionNotFound")
        return fitting[0], repository.commits[fitting[0]]

    def _api(self, parts: list[str], query: dict[str, list[str]]) -> None:
        for verb in ("revision", "tree"):
            if verb in parts:
                at = parts.index(verb)
                name, revision = "/".join(parts[:at]), parts[at + 1]
                break
        else:
            verb, name, revision = "revision", "/".join(parts), "main"
        found = self._find(name, revision)
        if found is None:
            return
        commit, files = found
        if verb == "tree":
            self._json([{"type": "file", "path": path, **self._facts(path, body)} for path, body in files.items()])
            return
        blobs = "blobs" in query
        siblings = [{"rfilename": path, **(self._facts(path, body) if blobs else {})} for path, body in files.items()]
        self._json({"id": name, "sha": commit, "siblings": siblings})

    def _facts(self, path: str, body: bytes) -> dict[str, object]:
        size = self.hub.faults.announce.get(path, len(body))
        facts: dict[str, object] = {"size": size, "blobId": git_blob(body), "oid": git_blob(body)}
        if is_large(path):
            digest = hashlib.sha256(body).hexdigest()
            facts["lfs"] = {"size": size, "sha256": digest, "oid": digest, "pointerSize": 130}
        return facts

    def _resolve(self, name: str, revision: str, path: str) -> None:
        found = self._find(name, revision)
        if found is None:
            return
        commit, files = found
        if path not in files or path in self.hub.faults.gone:
            self._fail(404, "EntryNotFound", {"X-Repo-Commit": commit})
            return
        body = files[path]
        digest = hashlib.sha256(body).hexdigest() if is_large(path) else git_blob(body)
        if self.hub.faults.no_digest:
            digest = "tag-" + digest[:12]
        head = {"ETag": f'"{digest}"'} | ({} if self.hub.faults.no_commit else {"X-Repo-Commit": commit})
        if is_large(path):
            head |= {
                "X-Linked-Etag": f'"{digest}"',
                "X-Linked-Size": str(len(body)),
                "Location": f"http://{self._other_host()}/cdn/{commit}/{path}",
            }
            self._send(302, b"", head)
            return
        self._body(path, body, head)

    def _other_host(self) -> str:
        """Large files come from another host, or the client would follow the redirect when it asks for the facts."""
        host = self.headers["Host"]
        return host.replace("127.0.0.1", "localhost") if host.startswith("127.0.0.1") else "content.invalid"

    def _content(self, commit: str, path: str) -> None:
        for repository in self.hub.repositories.values():
            if path in repository.commits.get(commit, {}):
                self._body(path, repository.commits[commit][path], {})
                return
        self._fail(404, "EntryNotFound")

    def _body(self, path: str, body: bytes, head: dict[str, str]) -> None:
        faults = self.hub.faults
        if path in faults.alter:
            body = body[:-1] + bytes([body[-1] ^ 1])
        status, wanted = 200, self.headers.get("Range", "")
        if wanted.startswith("bytes="):
            start = int(wanted[6:].split("-")[0])
            status, head = 206, head | {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}
            body = body[start:]
        self._send(status, body, head, cut=faults.truncate.get(path), stall=faults.stall.get(path))

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _fail(self, status: int, code: str, head: Mapping[str, str] | None = None) -> None:
        self._send(status, b'{"error":"refused"}', {**(head or {}), **({"X-Error-Code": code} if code else {})})

    def _send(
        self, status: int, body: bytes, head: Mapping[str, str], cut: int | None = None, stall: int | None = None
    ) -> None:
        self.send_response(status)
        for key, value in {**head, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        begun = len(body) if cut is stall is None else min(size for size in (cut, stall) if size is not None)
        self.wfile.write(body[:begun])
        if stall is not None:
            self.wfile.flush()
            self.hub.stalled.set()
            self.hub.released.wait(timeout=60)
        self.close_connection = begun < len(body)


class SocksDoor:
    """A SOCKS5 proxy (RFC 1928, no authentication) that leads every connection to one port. Counts who came."""

    def __init__(self, port: int) -> None:
        self.visitors = 0
        door = self

        class Visitor(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                door.visitors += 1
                _socks_handshake(self.request)
                with socket.create_connection(("127.0.0.1", port)) as inner:
                    back = threading.Thread(target=_pump, args=(inner, self.request), daemon=True)
                    back.start()
                    _pump(self.request, inner)
                    back.join(timeout=5)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Visitor)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self) -> SocksDoor:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _socks_handshake(client: socket.socket) -> None:
    methods = client.recv(2)[1]
    client.recv(methods)
    client.sendall(b"\x05\x00")
    kind = client.recv(4)[3]
    client.recv({1: 4, 4: 16}.get(kind) or client.recv(1)[0])
    client.recv(2)
    client.sendall(b"\x05\x00\x00\x01" + socket.inet_aton("127.0.0.1") + struct.pack("!H", 0))


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while block := source.recv(65536):
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass

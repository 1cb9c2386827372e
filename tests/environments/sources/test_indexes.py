"""Reading an index over loopback: pages, time limits, digests, and no password on any screen."""

from __future__ import annotations

import base64
import hashlib
import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.environments.errors import LabError
from tools.environments.sources import indexes
from tools.environments.sources.index_settings import IndexSettings

WHEEL = b"not really a wheel"
DIGEST = hashlib.sha256(WHEEL).hexdigest()
PIP_PAGE = f"""<!DOCTYPE html><html><body>
<a href="../../files/pip-25.0-py3-none-any.whl#sha256={"0" * 64}">pip-25.0-py3-none-any.whl</a>
<a href="../../files/pip-26.1-py3-none-any.whl#sha256={DIGEST}">pip-26.1-py3-none-any.whl</a>
<a href="../../files/pip-26.9-py3-none-any.whl#sha256={DIGEST}" data-yanked="broken">pip-26.9-py3-none-any.whl</a>
<a href="../../files/pip-27.0rc1-py3-none-any.whl">pip-27.0rc1-py3-none-any.whl</a>
<a href="../../files/pip-26.2.tar.gz">pip-26.2.tar.gz</a></body></html>"""


class Handler(http.server.BaseHTTPRequestHandler):
    """A small index; what was asked, with which login, is kept on the server object."""

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("Authorization")))  # type: ignore[attr-defined]
        answers = {
            "/simple/pip/": PIP_PAGE.encode(),
            "/files/pip-26.1-py3-none-any.whl": WHEEL,
            "/altered/pip-26.1-py3-none-any.whl": b"altered",
            "/cut/torch/": None,
        }
        if self.path not in answers:
            self.send_error(404)
            return
        body = answers[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) if body is not None else 1000))
        self.end_headers()
        self.wfile.write(body if body is not None else b"<a href='x.whl'>")

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.seen = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture
def base(server: http.server.ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that accepts and never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


def test_a_page_lists_what_is_not_yanked(base: str) -> None:
    names = indexes.file_names(f"{base}/simple/pip/", limit_s=5)
    assert "pip-26.1-py3-none-any.whl" in names
    assert "pip-26.9-py3-none-any.whl" not in names


def test_an_index_that_answers(base: str) -> None:
    assert indexes.answers(f"{base}/simple") is None


def test_an_index_without_pip_is_no_index(base: str) -> None:
    trouble = indexes.answers(f"{base}/elsewhere")
    assert trouble is not None
    assert "HTTP 404" in trouble.found


def test_a_silent_index_is_told_in_time(silent: str) -> None:
    trouble = indexes.answers(silent, limit_s=0.3)
    assert trouble is not None
    assert "no answer" in trouble.found


def test_a_refusing_port_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    trouble = indexes.answers(f"http://127.0.0.1:{port}/simple")
    assert trouble is not None
    assert "refused" in trouble.found


def test_an_answer_cut_short_is_a_finding(base: str) -> None:
    with pytest.raises(LabError) as caught:
        indexes.file_names(f"{base}/cut/torch/", limit_s=0.5)
    assert "no answer" in caught.value.found


@pytest.mark.parametrize("address", ["nonsense", "http://[bad", "ftp://127.0.0.1:1/x"])
def test_an_address_that_is_none(address: str) -> None:
    assert indexes.answers(address) is not None


def test_a_login_is_sent_and_not_shown(server: http.server.ThreadingHTTPServer) -> None:
    address = f"http://me:s3%40cret@127.0.0.1:{server.server_port}"
    assert indexes.answers(f"{address}/simple") is None
    wanted = "Basic " + base64.b64encode(b"me:s3@cret").decode()
    assert server.seen[-1] == ("/simple/pip/", wanted)  # type: ignore[attr-defined]
    trouble = indexes.answers(f"{address}/none")
    assert trouble is not None
    assert "s3" not in str(trouble)


def test_pip_comes_newest_whole_and_checked(base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "_places_of_python", lambda: ())
    wheel = indexes.pip_wheel(tmp_path / "new", IndexSettings(index_url=f"{base}/simple"))
    assert wheel.name == "pip-26.1-py3-none-any.whl"
    assert wheel.read_bytes() == WHEEL


def test_offline_pip_comes_from_a_folder_or_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = IndexSettings(find_links=(str(tmp_path),), offline=True)
    (tmp_path / "bundled").mkdir()
    (tmp_path / "bundled" / "pip-25.0-py3-none-any.whl").touch()
    monkeypatch.setattr(indexes, "_places_of_python", lambda: (str(tmp_path / "bundled"),))
    assert indexes.pip_wheel(tmp_path / "new", settings).name.startswith("pip-")  # Python's own
    for version in ("9.0", "26.1"):
        (tmp_path / f"pip-{version}-py3-none-any.whl").touch()
    assert indexes.pip_wheel(tmp_path / "new", settings).name == "pip-26.1-py3-none-any.whl"
    monkeypatch.setattr(indexes, "_places_of_python", lambda: ())
    for wheel in tmp_path.glob("pip-*"):
        wheel.unlink()
    with pytest.raises(LabError) as caught:
        indexes.pip_wheel(tmp_path / "new", settings)
    assert "pip download pip" in caught.value.next


def test_an_index_whose_pip_has_no_wheel(base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "_places_of_python", lambda: ())
    monkeypatch.setattr(indexes, "links", lambda index, project: ())
    with pytest.raises(LabError) as caught:
        indexes.pip_wheel(tmp_path / "new", IndexSettings(index_url=f"{base}/simple"))
    assert caught.value.found == "none on its page"


def test_the_bundle_that_pip_was_given_is_used_here_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert indexes._certificates() is None
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "gone.pem"))
    assert indexes._certificates() is None
    here = ssl.get_default_verify_paths().cafile
    if here is None:
        pytest.skip("this Python knows no bundle of its own")
    monkeypatch.setenv("PIP_CERT", here)
    assert indexes._certificates() is not None
    monkeypatch.setenv("SSL_CERT_FILE", here)
    assert indexes._certificates() is None


def test_altered_content_is_refused(base: str, tmp_path: Path) -> None:
    link = indexes.Link("pip-26.1-py3-none-any.whl", f"{base}/altered/pip-26.1-py3-none-any.whl", DIGEST)
    with pytest.raises(LabError) as caught:
        indexes.download(link, tmp_path)
    assert DIGEST in caught.value.wanted
    assert list(tmp_path.iterdir()) == []


def test_a_folder_given_as_an_address(tmp_path: Path) -> None:
    (tmp_path / "torch-1.whl").touch()
    assert indexes.answers(tmp_path.as_uri()) is None
    assert indexes.file_names(tmp_path.as_uri(), limit_s=1) == ("torch-1.whl",)


def test_what_pip_may_manage_although_this_cannot() -> None:
    refused = LabError("", "no answer (refused)", "")
    assert not indexes.cannot_judge(refused, {})
    assert indexes.cannot_judge(refused, {"ALL_PROXY": "socks5h://127.0.0.1:1080"})
    assert indexes.cannot_judge(LabError("", "no answer (CERTIFICATE_VERIFY_FAILED)", ""), {})

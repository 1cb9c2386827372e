"""Proxies, the hub and its cache: a real hub on loopback, real folders, and no address in any answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.machine import network_facts
from tools.environments.machine.network_facts import Proxy

MODEL = "Qwen/Qwen2.5-0.5B"


RELEASE = threading.Event()  # what a hub that never answers waits for, until the test is over


class Hub(BaseHTTPRequestHandler):
    """Knows one model; another needs a token, a third never gets an answer."""

    def do_GET(self) -> None:
        if "slow" in self.path:
            RELEASE.wait()
        known = self.path == f"/api/models/{MODEL}/revision/main"
        self.send_response(200 if known else 401 if "gated" in self.path else 404)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    RELEASE.clear()
    server = HTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    RELEASE.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_proxy_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def cached(folder: Path, *files: str, revision: str = "main", commit: str = "c" * 40) -> Path:
    """A cache with these files of the model at that commit."""
    place = folder / "models--Qwen--Qwen2.5-0.5B"
    (place / "refs").mkdir(parents=True, exist_ok=True)
    (place / "refs" / revision).write_text(commit)
    snapshot = place / "snapshots" / commit
    snapshot.mkdir(parents=True, exist_ok=True)
    for name in files:
        (snapshot / name).write_text("{}")
    return snapshot


def test_reachable_hub(endpoint: str, tmp_path: Path) -> None:
    facts = network_facts.hub(MODEL, {"HF_ENDPOINT": endpoint + "/", "HF_HOME": str(tmp_path)})
    assert (facts.cached, facts.reached, facts.answer, facts.endpoint) == (False, True, "answers 200", "HF_ENDPOINT")
    assert facts.cache.path == str(tmp_path / "hub")


@pytest.mark.parametrize(
    ("model", "reached", "words"),
    [("x/gated", True, "needs a token"), ("x/absent", False, "no such model"), (f"{MODEL}@v9", False, "404")],
)
def test_hub_that_answers_otherwise(endpoint: str, tmp_path: Path, model: str, reached: bool, words: str) -> None:
    facts = network_facts.hub(model, {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path)})
    assert (facts.reached, words in str(facts.answer)) == (reached, True)


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9", "not an address", "ftp://127.0.0.1:9", "http://[::1", "http://127.0.0.1:x"]
)
def test_unreachable_hub_is_told_without_its_address(tmp_path: Path, address: str) -> None:
    facts = network_facts.hub(MODEL, {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path)})
    assert (facts.reached, "127.0.0.1" in str(facts.answer)) == (False, False)
    assert "does not answer" in str(facts.answer)


def test_hub_that_never_answers_costs_the_time_limit(endpoint: str, tmp_path: Path) -> None:
    facts = network_facts.hub("x/slow", {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path)}, time_limit_s=0.3)
    assert (facts.reached, "does not answer" in str(facts.answer)) == (False, True)


def test_complete_cache_asks_nobody(tmp_path: Path) -> None:
    cached(tmp_path, "config.json", "tokenizer.json", "model.safetensors")
    facts = network_facts.hub(MODEL, {"HF_HUB_CACHE": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"})
    assert (facts.cached, facts.answer) == (True, None)


def test_our_own_word_for_offline_is_read_as_the_installer_reads_it(tmp_path: Path) -> None:
    for said, named in (("y", "TMLAB_OFFLINE"), (" On ", "TMLAB_OFFLINE")):
        facts = network_facts.hub("lab/tiny", {"HF_HOME": str(tmp_path), "TMLAB_OFFLINE": said})
        assert facts.offline == named


def test_offline_with_an_incomplete_cache_names_the_variable(tmp_path: Path) -> None:
    facts = network_facts.hub(MODEL, {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"})
    assert (facts.offline, facts.cached, facts.answer) == ("HF_HUB_OFFLINE", False, None)


@pytest.mark.parametrize(
    ("files", "complete"),
    [
        (("config.json", "tokenizer.json", "model.safetensors"), True),
        (("config.json", "tokenizer_config.json", "model.safetensors"), True),
        (("config.json", "model.safetensors"), False),
        (("config.json", "tokenizer.json"), False),
        (("tokenizer.json", "model.safetensors"), False),
    ],
)
def test_what_makes_a_cache_complete(tmp_path: Path, files: tuple[str, ...], complete: bool) -> None:
    cached(tmp_path, *files)
    assert network_facts.is_cached(tmp_path, MODEL, "main") == complete
    assert network_facts.is_cached(tmp_path, MODEL, "c" * 40) == complete
    assert not network_facts.is_cached(tmp_path, MODEL, "other")


def test_every_shard_counts_and_no_link_may_dangle(tmp_path: Path) -> None:
    snapshot = cached(tmp_path, "config.json", "tokenizer.json")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    (snapshot / "model-1.safetensors").write_text("x")
    (snapshot / "model-2.safetensors").symlink_to(tmp_path / "blob")
    assert not network_facts.is_cached(tmp_path, MODEL, "main")
    (tmp_path / "blob").write_text("x")
    assert network_facts.is_cached(tmp_path, MODEL, "main")


@pytest.mark.parametrize("text", ["{", "[]", '{"weight_map": 3}', "{}"])
def test_garbled_index_is_an_incomplete_cache(tmp_path: Path, text: str) -> None:
    snapshot = cached(tmp_path, "config.json", "tokenizer.json")
    (snapshot / "model.safetensors.index.json").write_text(text)
    assert not network_facts.is_cached(tmp_path, MODEL, "main")


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HUGGINGFACE_HUB_CACHE": "/a"}, "/a"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({}, str(Path("~/.cache/huggingface/hub").expanduser())),
    ],
)
def test_cache_folder_follows_the_clients_own_order(environ: dict[str, str], folder: str) -> None:
    assert str(network_facts.cache_folder(environ)) == folder


def test_proxies_tell_name_and_scheme_only() -> None:
    environ = {
        "HTTPS_PROXY": "socks5://u:secret@h:1",
        "https_proxy": "http://h:1",
        "ALL_PROXY": "h:3128",
        "HTTP_PROXY": "",
    }
    assert network_facts.proxies(environ) == (Proxy("https_proxy", "http"), Proxy("ALL_PROXY", ""))


def test_through_a_socks_proxy_only_the_proxy_is_asked(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        value = f"socks5h://user:secret@127.0.0.1:{server.getsockname()[1]}"
        facts = network_facts.hub(MODEL, {"ALL_PROXY": value, "HF_HOME": str(tmp_path)})
        assert (facts.reached, facts.answer) == (True, "the SOCKS proxy of ALL_PROXY takes connections")
    for broken in (value, "socks5://127.0.0.1:port"):
        facts = network_facts.hub(MODEL, {"ALL_PROXY": broken, "HF_HOME": str(tmp_path)})
        assert (facts.reached, "secret" in str(facts.answer)) == (False, False)


@pytest.mark.parametrize("name", [MODEL, "a/b@main", "a/b@refs/pr/1", "Org-x/n_m.1@0a1b2c"])
def test_the_name_of_a_model_is_taken_as_it_stands(name: str) -> None:
    assert network_facts.model_name(name) == name


@pytest.mark.parametrize(
    "text", ["", "foo", "a/b@", "@main", "/b", "a/", "a/b/c", "../../etc/passwd", "./b", "a/b@x..y", "a b/c", "a/b\n"]
)
def test_what_names_no_model_is_wrong_usage(text: str) -> None:
    with pytest.raises(LabError, match="wanted ORG/NAME") as refused:
        network_facts.model_name(text)
    assert (refused.value.where, refused.value.code) == ("--model", EXIT_USAGE)

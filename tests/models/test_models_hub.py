"""The hub as a model source, through its own client in processes of their own, against a small hub on loopback."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hub_client_child import MODEL, SECRET, Client, save_models
from loopback_hub import LoopbackHub, Repository, SocksDoor
from stages import few

from experiments.models import hub_cache, model_source, registered_config
from tools.environments.errors import LabError

FIRST, SECOND, PARTS, PICKLED, BARE = ("1" * 40, "2" * 40, "3" * 40, "4" * 40, "5" * 40)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("saved")
    save_models(root)
    return root


@pytest.fixture(scope="module")
def repository(saved: Path) -> Repository:
    whole, parts = (
        {path.name: path.read_bytes() for path in sorted((saved / name).iterdir())} for name in ("whole", "parts")
    )
    assert len([name for name in parts if name.endswith(".safetensors")]) > 1
    pickled = {name: body for name, body in whole.items() if name != "model.safetensors"} | {
        "pytorch_model.bin": b"\x80\x04."
    }
    bare = {name: body for name, body in whole.items() if name != "tokenizer.json"}
    return Repository(
        commits={
            FIRST: whole | {"README.md": b"not needed"},
            SECOND: whole,
            PARTS: parts,
            PICKLED: pickled,
            BARE: bare,
        },
        refs={"main": FIRST, "v2": SECOND, "parts": PARTS, "pickled": PICKLED, "refs/pr/1": BARE},
    )


@pytest.fixture
def client(tmp_path: Path, repository: Repository) -> Iterator[Client]:
    with LoopbackHub({MODEL: replace(repository, refs=dict(repository.refs))}) as hub:
        yield Client(tmp_path / "home", hub)


def test_hub_resolves_downloads_and_then_asks_for_no_content(client: Client) -> None:
    first = client.resolve(env={"HF_TOKEN": SECRET})
    assert first.identity["resolved_commit"] == FIRST
    assert first.identity["requested_revision"] == "main"
    assert first.identity["weights_source"] == "hub"
    assert first.identity["tokenizer"]["commit"] == FIRST
    sizes = registered_config.shape(registered_config.config("tiny-qwen2"))
    assert first.identity["parameter_count"] == sizes.parameters
    assert sorted(Path(path).name for path in first.value["files"]) == [
        "model.safetensors",
        "tokenizer.json",
    ]
    assert not any(path.endswith("README.md") for path in client.hub.bodies())
    assert any(path.startswith("/cdn/") for path in client.hub.bodies()), "large files come through the redirect"

    client.hub.seen.clear()
    again = client.resolve()
    assert again.identity == first.identity
    assert [seen.path for seen in client.hub.seen] == [f"/api/models/{MODEL}/revision/main"]

    client.hub.seen.clear()
    assert client.resolve(revision=FIRST).identity["resolved_commit"] == FIRST
    assert client.hub.seen == [], "a whole commit that is complete in the cache needs no hub"


def test_loaded_files_give_the_model_that_was_saved(client: Client, saved: Path) -> None:
    import torch
    from safetensors.torch import load_file
    from transformers import Qwen2Config, Qwen2ForCausalLM

    files = client.resolve(revision="v2").value["files"]
    weights = [Path(path) for path in files if path.endswith(".safetensors")]
    config = json.loads((weights[0].parent / "config.json").read_text())
    model = Qwen2ForCausalLM(Qwen2Config(**config))
    model.load_state_dict(load_file(weights[0]), strict=False)
    model.tie_weights()
    ids = torch.arange(12).reshape(2, 6)
    with torch.no_grad():
        expected = Qwen2ForCausalLM.from_pretrained(saved / "whole")(ids).logits
        assert torch.equal(model(ids).logits, expected)


def test_offline_re_run_uses_the_cache_alone(client: Client) -> None:
    online = client.resolve()
    client.hub.seen.clear()
    for request, env in (
        ({"local_files_only": True}, {}),
        ({}, {"HF_HUB_OFFLINE": "1"}),
        ({"local_files_only": True, "revision": FIRST[:10]}, {}),
    ):
        answer = client.resolve(env=env, **request)
        assert answer.identity | {"requested_revision": "main"} == online.identity
        assert answer.value["notes"] == ["served from the local cache"]
    assert client.hub.seen == []


def test_branch_that_moved_is_seen_online_and_a_resumed_run_stops(client: Client) -> None:
    before = client.resolve()
    client.hub.repositories[MODEL].refs["main"] = SECOND
    after = client.resolve()
    assert (before.identity["resolved_commit"], after.identity["resolved_commit"]) == (FIRST, SECOND)
    assert client.resolve(local_files_only=True).identity["resolved_commit"] == SECOND

    begun = registered_config.asset("tiny-qwen2")
    moved = replace(begun, identity=replace(begun.identity, resolved_commit=SECOND))
    with pytest.raises(LabError) as stopped:
        model_source.same_commit(replace(begun.identity, resolved_commit=FIRST), moved)
    assert FIRST in stopped.value.wanted
    assert SECOND in stopped.value.found
    assert FIRST in stopped.value.next
    model_source.same_commit(moved.identity, moved)


def test_offline_with_an_incomplete_cache_says_what_is_missing(client: Client) -> None:
    assert "does not have it" in client.resolve(local_files_only=True).found
    client.resolve()
    (client.storage / "snapshots" / FIRST / "tokenizer.json").unlink()
    answer = client.resolve(local_files_only=True)
    assert "tokenizer.json" in answer.found
    assert "LOCAL_FILES_ONLY=False" in answer.next
    assert client.resolve().identity["resolved_commit"] == FIRST, "online the one missing file is fetched"
    hub_cache.discard(client.storage / "snapshots" / FIRST / "model.safetensors")
    assert "lacks its weights" in client.resolve(local_files_only=True).found


def test_weights_in_parts(client: Client) -> None:
    whole, parts = client.resolve(), client.resolve(revision="parts")
    assert parts.identity["parameter_count"] == whole.identity["parameter_count"]
    assert len(parts.value["files"]) > 2
    assert client.resolve(revision="parts", local_files_only=True).identity == parts.identity
    missing = next(Path(path) for path in parts.value["files"] if path.endswith(".safetensors"))
    hub_cache.discard(missing)
    assert missing.name in client.resolve(revision="parts", local_files_only=True).found


@pytest.mark.parametrize("name", few(1, ["model.safetensors", "config.json"]))
def test_altered_download_is_refused_and_not_kept(client: Client, name: str) -> None:
    client.hub.faults.alter = {name}
    answer = client.resolve()
    assert "other content" in answer.found
    assert name in answer.value["error"]["wanted"]
    assert client.left_over() == []
    assert not (client.storage / "refs").exists(), "a branch is noted only when its files are whole"
    assert "LOCAL_FILES_ONLY=False" in client.resolve(local_files_only=True).next
    client.hub.faults.alter = set()
    assert client.resolve().identity["resolved_commit"] == FIRST


def test_altered_cache_is_found_offline_and_mended_online(client: Client) -> None:
    weights = Path(next(path for path in client.resolve().value["files"] if path.endswith(".safetensors")))
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for revision in ("main", FIRST):
        assert "altered content" in client.resolve(local_files_only=True, revision=revision).found
    client.hub.seen.clear()
    assert client.resolve(revision=FIRST).identity["resolved_commit"] == FIRST
    assert [Path(path).name for path in client.hub.bodies()] == ["model.safetensors"], "the other files stay"
    assert weights.read_bytes() == content


def test_broken_download_leaves_nothing_half(client: Client) -> None:
    client.hub.faults.truncate = {"model.safetensors": 1000}
    answer = client.resolve(no_pause=True)
    assert "broke off" in answer.found
    assert client.left_over() == []
    assert not (client.storage / "snapshots" / FIRST / "model.safetensors").exists()
    client.hub.faults.truncate = {}
    assert client.resolve().identity["resolved_commit"] == FIRST


@pytest.mark.race
def test_killed_download_is_not_taken_for_whole(client: Client) -> None:
    client.hub.faults.stall = {"model.safetensors": 1000}
    child = client.begin(to_kill=True)
    assert client.hub.stalled.wait(timeout=60)
    child.kill()
    child.communicate()
    client.hub.released.set()
    client.hub.faults.stall = {}
    assert "lacks its weights" in client.resolve(local_files_only=True, revision=FIRST).found
    assert client.resolve().identity["resolved_commit"] == FIRST


@pytest.mark.parametrize(
    ("revision", "found"),
    few(
        2,
        [
            ("no-such", "no revision no-such"),
            ("9" * 40, "no revision 9999"),
            ("pickled", "pickled weights only: pytorch_model.bin"),
            ("refs/pr/1", "lacks tokenizer.json"),
            ("../../main", "../../main"),
        ],
    ),
)
def test_wrong_revision_or_missing_file(client: Client, revision: str, found: str) -> None:
    assert found in client.resolve(revision=revision).found


def test_file_that_is_listed_and_gone(client: Client) -> None:
    client.hub.faults.gone = {"tokenizer.json"}
    assert "no such file in that revision" in client.resolve().found


@pytest.mark.parametrize(
    ("refuse", "found"),
    few(
        2,
        [
            ((403, "GatedRepo"), "gated"),
            ((401, "GatedRepo"), "gated"),
            ((401, "RepoNotFound"), "no such model"),
            ((403, ""), "HTTP 403"),
            ((429, ""), "HTTP 429"),
            ((503, ""), "HTTP 503"),
            ((418, ""), "HTTP 418"),
        ],
    ),
)
def test_refusals(client: Client, refuse: tuple[int, str], found: str) -> None:
    client.hub.repositories[MODEL].refuse = refuse
    answer = client.resolve(env={"HF_TOKEN": SECRET})
    assert found in answer.found
    assert client.hub.seen[0].authorization == f"Bearer {SECRET}", "the client sends the user's token; nobody prints it"


def test_unreachable_hub_names_no_address(client: Client) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        port = taken.getsockname()[1]
        answer = client.resolve(env={"HF_ENDPOINT": f"http://user:{SECRET}@127.0.0.1:{port}"})
        assert "cannot be reached (ConnectError)" in answer.found
        assert str(port) not in json.dumps(answer.value)
        proxied = client.resolve(env={"HTTP_PROXY": f"http://user:{SECRET}@127.0.0.1:{port}"})
        assert "cannot be reached" in proxied.found or "proxy" in proxied.found
    assert "no address" in client.resolve(env={"HF_ENDPOINT": "mirror.invalid"}).found
    assert "proxy" in client.resolve(env={"ALL_PROXY": f"gopher://user:{SECRET}@127.0.0.1:1"}).found


def test_answer_that_is_not_a_hubs(client: Client) -> None:
    client.hub.faults.page = True
    assert "not a hub's" in client.resolve().found
    client.hub.faults.page, client.hub.faults.no_commit = False, True
    assert "not a hub's" in client.resolve().found


def test_hub_that_goes_away_after_the_listing(client: Client) -> None:
    client.hub.faults.mute = True
    answer = client.resolve(no_pause=True)
    assert "broke off" in answer.found
    assert client.left_over() == []


def test_http_proxy_is_honoured(client: Client) -> None:
    env = {"HF_ENDPOINT": "http://hub.invalid", "HTTP_PROXY": client.hub.endpoint}
    answer = client.resolve(env=env, revision="parts")
    # Large files are redirected to this machine's other name, which the same proxy variable covers.
    assert answer.identity["resolved_commit"] == PARTS


def test_socks_proxy_is_honoured_and_asks_for_its_package(client: Client) -> None:
    with SocksDoor(client.hub.port) as door:
        env = {"ALL_PROXY": f"socks5://127.0.0.1:{door.port}"}
        assert client.resolve(env=env).identity["resolved_commit"] == FIRST
        assert door.visitors > 0
        answer = client.resolve(env=env, absent=("socksio",))
    assert "socksio" in answer.found
    assert "ALL_PROXY" in answer.next


def test_full_disk_before_and_while_downloading(client: Client) -> None:
    client.hub.faults.announce = {"model.safetensors": 1 << 60}
    answer = client.resolve()
    assert "no weights were downloaded" in answer.found
    assert not any(path.endswith("model.safetensors") for path in client.hub.bodies())
    client.hub.faults.announce = {}
    answer = client.resolve(file_limit=100_000)
    assert "no room" in answer.found
    assert client.left_over() == []
    blocked = client.home / "blocked"
    blocked.write_text("a file where a folder should be")
    assert "cannot be used" in client.resolve(env={"HF_HUB_CACHE": str(blocked / "hub")}).found


def test_mirror_without_digests_is_taken_with_a_note(client: Client) -> None:
    client.hub.faults.no_digest = True
    answer = client.resolve()
    assert "names no digest" in answer.value["notes"][0]
    assert answer.identity["resolved_commit"] == FIRST


def test_client_that_is_not_installed(client: Client) -> None:
    assert "not installed" in client.resolve(absent=("huggingface_hub",)).found


@pytest.mark.parametrize("name", few(1, ["/a/folder", "a/b/c", "..", "spaced name"]))
def test_name_that_is_no_models(client: Client, name: str) -> None:
    answer = client.resolve(id=name)
    assert answer.value["error"]["code"] == 2
    assert "--model-source local" in answer.next
    assert client.hub.seen == []

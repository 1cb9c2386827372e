"""Local folders and registered configurations as model sources, and the readers all sources share."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hub_client_child import save_models
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback_hub import git_blob
from stages import count

from experiments.models import hub_cache, local, model_source, registered_config, safetensors_header
from experiments.models.source_types import ModelAsset, ModelRequest
from tools.environments.errors import LabError


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("saved")
    save_models(root)
    return root


@pytest.mark.parametrize("field", ["id", "weights_source", "weights_digest", "config_digest"])
def test_resumed_run_stops_for_any_other_model(field: str) -> None:
    asset = registered_config.asset("tiny-qwen2")
    with pytest.raises(LabError, match="new --run-label"):
        model_source.same_commit(replace(asset.identity, **{field: "another"}), asset)


def _local(path: Path) -> ModelAsset:
    return model_source.resolve(ModelRequest(id="anything", source="local", path=path))


def test_local_folder_is_known_by_its_content(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "private-name"
    shutil.copytree(saved / "whole", folder)
    asset = _local(folder)
    assert asset.identity.id == "local/qwen2"
    assert asset.identity.resolved_commit is None
    assert "private-name" not in repr(asset.identity)
    assert asset.identity == _local(saved / "whole").identity
    assert _local(saved / "parts").identity.parameter_count == asset.identity.parameter_count

    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(LabError, match="weights this run began with"):
        model_source.same_commit(asset.identity, _local(folder))
    (folder / "tokenizer.json").unlink()
    without = _local(folder)
    assert without.tokenizer_file is None
    assert "shipped here" in without.notes[0]


def test_wrong_local_folders(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no such folder"):
        _local(tmp_path / "absent")
    with pytest.raises(LabError, match="found  none given"):
        model_source.resolve(ModelRequest(id="x", source="local"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(LabError, match="an empty folder"):
        _local(tmp_path / "empty")
    with pytest.raises(LabError, match="a file"):
        _local(saved / "whole" / "config.json")

    folder = tmp_path / "model"
    shutil.copytree(saved / "parts", folder)
    part = next(folder.glob("model-*.safetensors"))
    content = part.read_bytes()
    part.unlink()
    with pytest.raises(LabError, match=part.name):
        _local(folder)
    part.write_bytes(content[: len(content) // 2])
    with pytest.raises(LabError, match="its header speaks of"):
        _local(folder)
    part.write_bytes(b"PK\x03\x04")
    with pytest.raises(LabError, match="hold no header"):
        _local(folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"x": "../outside.safetensors"}}')
    with pytest.raises(LabError, match="maps each tensor to a file beside it"):
        _local(folder)
    (folder / "config.json").write_text("[]")
    shutil.copy(saved / "whole" / "model.safetensors", folder)
    with pytest.raises(LabError, match="a JSON object"):
        _local(folder)
    larger = {**registered_config.config("tiny-qwen2"), "num_hidden_layers": 3}
    (folder / "config.json").write_text(json.dumps(larger))
    with pytest.raises(LabError, match="weights of the model"):
        _local(folder)
    (folder / "config.json").unlink()
    with pytest.raises(LabError, match=r"no config\.json among"):
        local.resolve(folder)


def test_registered_config_needs_nothing() -> None:
    assert model_source.resolve(ModelRequest(id="tiny-qwen2")).weight_files == ()


def test_safetensors_header_counts_a_tied_head_once(saved: Path) -> None:
    tensors = safetensors_header.read(saved / "whole" / "model.safetensors")
    embedding = tensors["model.embed_tokens.weight"]
    doubled = {**tensors, "lm_head.weight": embedding}
    assert safetensors_header.count(doubled, tied=True) == safetensors_header.count(tensors, tied=True)
    assert safetensors_header.count(doubled, tied=False) == safetensors_header.count(tensors, tied=True) + (
        embedding.elements
    )


@pytest.mark.parametrize("dtype", ["I8", "U8", "BOOL", "F8_E4M3"])
def test_weights_that_are_no_plain_floats_are_refused(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "model.safetensors"
    for word in (dtype, "BF16"):
        header = json.dumps({"w": {"dtype": word, "shape": [1], "data_offsets": [0, 2]}}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(2))
        if word == dtype:
            with pytest.raises(LabError, match=f"'w' in '{dtype}'"):
                safetensors_header.read(path)
    assert list(safetensors_header.read(path)) == ["w"]


_NUMBERS = st.integers(min_value=-(2**70), max_value=2**70)
_ENTRY = st.dictionaries(
    st.sampled_from(["dtype", "shape", "data_offsets"]),
    st.one_of(st.none(), st.text(max_size=3), st.booleans(), st.lists(st.one_of(_NUMBERS, st.text(max_size=2)))),
)
_HEADER = st.one_of(
    st.binary(max_size=40),
    st.dictionaries(st.text(max_size=3), st.one_of(_ENTRY, st.none(), _NUMBERS)).map(
        lambda value: json.dumps(value).encode()
    ),
)


@settings(max_examples=count(200), deadline=None)
@given(header=_HEADER, body=st.binary(max_size=20), length=st.one_of(st.none(), st.integers(0, 2**64 - 1)))
def test_any_bytes_are_a_file_or_a_finding(
    header: bytes, body: bytes, length: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    path.write_bytes((len(header) if length is None else length).to_bytes(8, "little") + header + body)
    with contextlib.suppress(LabError):
        assert all(tensor.elements >= 0 for tensor in safetensors_header.read(path).values())


def test_cache_layout_questions(tmp_path: Path) -> None:
    storage = hub_cache.folder(tmp_path, "a/b")
    for commit in ("ab" * 20, "ab" * 19 + "cd"):
        (storage / "snapshots" / commit).mkdir(parents=True)
    assert hub_cache.commit_of(storage, "main") is None
    with pytest.raises(LabError, match="give the whole commit"):
        hub_cache.commit_of(storage, "abababab")
    hub_cache.note_commit(storage, "main", "ab" * 20)
    hub_cache.note_commit(storage, "main", "ab" * 20)
    assert hub_cache.commit_of(storage, "main") == "ab" * 20
    assert [path.name for path in (storage / "refs").iterdir()] == ["main"]
    (storage / "refs" / "main").write_text("torn")
    assert hub_cache.commit_of(storage, "main") is None
    blob = tmp_path / "content"
    blob.write_bytes(b"text")
    assert hub_cache.content_digest(blob, git=True) == git_blob(b"text")

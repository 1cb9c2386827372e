"""Registered configurations: published sizes, counted parameters, and broken configs refused by field."""

from __future__ import annotations

import pytest
import torch

from experiments.evidence.digests import digest_of
from experiments.models import causal_lm, registered_config
from tools.environments.errors import LabError

TINY = registered_config.config("tiny-qwen2")


def test_qwen_has_its_published_parameters() -> None:
    shape = registered_config.shape(registered_config.config("Qwen/Qwen2.5-0.5B"))
    assert shape.parameters == 494_032_768
    assert shape.layer_parameters == 14_912_384
    assert shape.embedding_parameters == 136_134_656


@pytest.mark.parametrize("tied", [True, False])
def test_the_count_is_that_of_the_network_that_is_built(tied: bool) -> None:
    asset = registered_config.asset("tiny-qwen2")
    config = {**asset.config, "tie_word_embeddings": tied}
    network = causal_lm.build(type(asset)(identity=asset.identity, config=config), 0, torch.device("cpu"))
    counted = sum(value.numel() for value in network.parameters().values())
    assert counted == registered_config.shape(config).parameters


def test_the_identity_names_configuration_and_tokenizer() -> None:
    identity = registered_config.asset("tiny-qwen2").identity
    assert identity.weights_source == "random_init"
    assert identity.resolved_commit is None
    assert identity.config_digest == digest_of(TINY)
    assert identity.tokenizer.digest.startswith("sha256:")


def test_an_unknown_model_is_refused_with_the_nearest() -> None:
    with pytest.raises(LabError, match=r"Qwen/Qwen2\.5-0\.5B"):
        registered_config.asset("Qwen2.5-0.5b")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model_type": "llama"}, "model_type"),
        ({"hidden_size": "64"}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_attention_heads": 3}, "num_attention_heads"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"rms_norm_eps": -1}, "rms_norm_eps"),
        ({"rope_theta": "big"}, "rope_theta"),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, "rope_scaling"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling"),
        ({"rope_scaling": "linear"}, "rope_scaling"),
        ({"rope_parameters": {"rope_type": "linear", "rope_theta": 1e6, "factor": 4.0}}, "rope_parameters"),
        ({"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}, "use_sliding_window"),
        ({"use_sliding_window": True, "max_window_layers": 0}, "use_sliding_window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"hidden_act": "gelu"}, "hidden_act"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_by_field(change: dict[str, object], word: str) -> None:
    with pytest.raises(LabError, match=word):
        registered_config.shape({**TINY, **change})


@pytest.mark.parametrize(
    "published",
    [
        {"use_sliding_window": False, "sliding_window": 32768, "max_window_layers": 0},
        {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 2},
        {"use_sliding_window": True, "sliding_window": None, "max_window_layers": 0},
        {"use_sliding_window": False, "sliding_window": None, "layer_types": ["full_attention"] * 2},
        {"rope_scaling": None},
        {"rope_scaling": None, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    ],
)
def test_what_is_there_and_changes_nothing_is_accepted(published: dict[str, object]) -> None:
    assert registered_config.shape({**TINY, **published}) == registered_config.shape(TINY)


def test_rope_theta_is_read_where_newer_configurations_keep_it() -> None:
    newer = {key: value for key, value in TINY.items() if key != "rope_theta"}
    newer["rope_parameters"] = {"rope_type": "default", "rope_theta": 5e5}
    assert registered_config.shape(newer).rope_theta == 5e5


def test_the_same_seed_gives_the_same_weights() -> None:
    asset = registered_config.asset("tiny-qwen2")
    first, second, other = (causal_lm.build(asset, seed, torch.device("cpu")).parameters() for seed in (0, 0, 1))
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert not all(torch.equal(value, other[name]) for name, value in first.items())

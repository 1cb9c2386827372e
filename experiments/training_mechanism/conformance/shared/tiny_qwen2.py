"""The small Qwen2 the pages hold Transformers to: one or two layers, grouped heads, random weights from a seed."""

from __future__ import annotations

from typing import Any

import torch

HIDDEN, HEADS, KV_HEADS, MLP, VOCABULARY = 16, 4, 2, 24, 32

LAYER_ROUNDINGS = 2 * (HIDDEN + HIDDEN + MLP + HIDDEN + 64)
"""Roundings along one layer, forward and backward: its projections' dot products and 64 for norms, softmax and sums."""


def tiny_qwen2(seed: int = 0, layers: int = 1, **settings: Any) -> Any:
    """A fresh Qwen2ForCausalLM in fp32, eager attention unless told otherwise, training mode."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        **{
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "intermediate_size": MLP,
            "num_hidden_layers": layers,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "max_position_embeddings": 64,
            "attn_implementation": "eager",
            "use_cache": False,
            **settings,
        }
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config).train()

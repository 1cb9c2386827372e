"""A Qwen2 forward written out in float64 from end to end: the oracle that gradients are checked against.

Transformers' own `.double()` keeps the norm, the rotary angles and the loss in fp32, so its gradients are good to 1e-7
only. Here every operation is float64 and autograd supplies the backward. With hidden width h, head width d:

    norm(x)   = x / sqrt(mean(x^2) + eps) * w
    q, k, v   = x W^T + b, split into heads; k and v shared by groups of query heads
    rotary    : (a, b) -> (a cos - b sin, b cos + a sin) on the halves of a head, angle = position * theta^(-2i/d)
    attention = softmax(q k^T / sqrt(d) + causal mask) v, then W_o
    mlp(x)    = (silu(x W_gate^T) * (x W_up^T)) W_down^T
    x         = x + attention(norm(x));  x = x + mlp(norm(x))

Sources: the Qwen2 report (arXiv:2407.10671) and RoFormer (arXiv:2104.09864).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, silu


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the weights alone do not tell."""

    layers: int
    heads: int
    kv_heads: int
    rope_theta: float
    norm_epsilon: float


def loss(weights: Mapping[str, Tensor], sizes: Sizes, inputs: Tensor, targets: Tensor, divisor: int) -> Tensor:
    """Scalar float64 loss: summed token losses over `divisor`.

    `weights` are float64 tensors under Transformers' names; `inputs` and `targets` are ids [batch, sequence].
    """
    embedding = weights["model.embed_tokens.weight"]
    hidden = hidden_states(weights, sizes, inputs)
    logits = linear(hidden, weights.get("lm_head.weight", embedding))
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / divisor


def hidden_states(weights: Mapping[str, Tensor], sizes: Sizes, inputs: Tensor) -> Tensor:
    """Final hidden states [batch, sequence, hidden] in float64."""
    x = weights["model.embed_tokens.weight"][inputs]
    for number in range(sizes.layers):
        prefix = f"model.layers.{number}."
        layer = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        normed = _norm(x, layer["input_layernorm.weight"], sizes.norm_epsilon)
        x = x + _attention(normed, layer, sizes)
        normed = _norm(x, layer["post_attention_layernorm.weight"], sizes.norm_epsilon)
        gated = silu(linear(normed, layer["mlp.gate_proj.weight"])) * linear(normed, layer["mlp.up_proj.weight"])
        x = x + linear(gated, layer["mlp.down_proj.weight"])
    return _norm(x, weights["model.norm.weight"], sizes.norm_epsilon)


def _norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight


def _attention(x: Tensor, layer: Mapping[str, Tensor], sizes: Sizes) -> Tensor:
    batch, length, width = x.shape
    size = width // sizes.heads

    def projected(name: str, heads: int) -> Tensor:
        flat = linear(x, layer[f"self_attn.{name}_proj.weight"], layer[f"self_attn.{name}_proj.bias"])
        return flat.view(batch, length, heads, size).transpose(1, 2)

    query = _rotate(projected("q", sizes.heads), sizes.rope_theta)
    key = _rotate(projected("k", sizes.kv_heads), sizes.rope_theta)
    value = projected("v", sizes.kv_heads)
    shared = sizes.heads // sizes.kv_heads
    key, value = key.repeat_interleave(shared, dim=1), value.repeat_interleave(shared, dim=1)
    scores = query @ key.transpose(-1, -2) / math.sqrt(size)
    later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
    weights = scores.masked_fill(later, -math.inf).softmax(-1)
    mixed = (weights @ value).transpose(1, 2).reshape(batch, length, width)
    return linear(mixed, layer["self_attn.o_proj.weight"])


def _rotate(x: Tensor, theta: float) -> Tensor:
    length, size = x.shape[-2], x.shape[-1]
    half = torch.arange(0, size, 2, dtype=x.dtype, device=x.device)
    angles = torch.outer(torch.arange(length, dtype=x.dtype, device=x.device), theta ** (-half / size))
    cosine, sine = angles.cos(), angles.sin()
    first, second = x[..., : size // 2], x[..., size // 2 :]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)

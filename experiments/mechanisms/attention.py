"""Scaled dot-product attention with grouped key-value heads and a causal mask, forward and backward by hand.

For each query head, with keys K and values V of the key-value head its group shares, and c = 1 / sqrt(head width)

    S = c Q K^T,  masked to -inf        P = softmax(S)        O = P V

    dV = P^T dO
    dP = dO V^T
    dS = P * (dP - rowsum(P * dP))          and rowsum(P * dP) = rowsum(dO * O), which is cheaper
    dQ = c dS K          dK = c dS^T Q

K and V serve several query heads, so their gradients are summed over the group. A query that may see nothing gives 0
and no gradient. Sources: Vaswani et al. 2017 (arXiv:1706.03762); Ainslie et al. 2023 (arXiv:2305.13245) for grouped
heads; Dao et al. 2022 (arXiv:2205.14135) for the row-sum identity.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class SavedAttention(NamedTuple):
    """What the backward needs; shapes as in `attention`, probabilities [batch, heads, queries, keys]."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    probabilities: Tensor
    scale: float


def causal_mask(queries: int, keys: int, offset: int = 0) -> Tensor:
    """[queries, keys] bool: query i may see key j where j <= i + offset.

    With a cache of earlier keys the queries are the last positions: offset is then keys - queries.
    """
    return torch.arange(keys)[None, :] <= torch.arange(queries)[:, None] + offset


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, scale: float | None = None
) -> tuple[Tensor, SavedAttention]:
    """Output [batch, heads, queries, width] and what backward needs.

    query [batch, heads, queries, width]; key and value [batch, kv_heads, keys, width], heads a multiple of kv_heads;
    mask bool, True where a query may look, broadcast to [batch, heads, queries, keys].
    """
    group = query.shape[1] // key.shape[1]
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    keys, values = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)

    scores = query @ keys.transpose(-1, -2) * scale
    if mask is not None:
        scores = torch.where(mask.to(scores.device), scores, -math.inf)
    largest = scores.amax(dim=-1, keepdim=True)
    exponentials = torch.exp(scores - torch.where(largest == -math.inf, 0.0, largest))
    total = exponentials.sum(dim=-1, keepdim=True)
    probabilities = exponentials / torch.where(total == 0, 1.0, total)  # a row that sees nothing stays 0

    output = probabilities @ values
    return output, SavedAttention(query, key, value, output, probabilities, scale)


def attention_backward(grad: Tensor, saved: SavedAttention) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value for the output gradient [batch, heads, queries, width]."""
    group = saved.query.shape[1] // saved.key.shape[1]
    keys, values = saved.key.repeat_interleave(group, dim=1), saved.value.repeat_interleave(group, dim=1)

    grad_values = saved.probabilities.transpose(-1, -2) @ grad
    grad_probabilities = grad @ values.transpose(-1, -2)
    row = (grad * saved.output).sum(dim=-1, keepdim=True)
    grad_scores = saved.probabilities * (grad_probabilities - row) * saved.scale

    grad_query = grad_scores @ keys
    grad_keys = grad_scores.transpose(-1, -2) @ saved.query
    return grad_query, _sum_groups(grad_keys, group), _sum_groups(grad_values, group)


def _sum_groups(grad: Tensor, group: int) -> Tensor:
    """[batch, heads, ...] to [batch, kv_heads, ...]: neighbouring heads share a key-value head."""
    batch, heads, *rest = grad.shape
    return grad.reshape(batch, heads // group, group, *rest).sum(dim=2)

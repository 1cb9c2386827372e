"""Page 4: attention with grouped heads and masks against SDPA (float64) and Transformers' eager form (fp32 softmax)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.conformance.page import Page, PageCheck, Trial
from experiments.conformance.tolerance import Tolerance, dot, softmax

SDPA: Any = F.scaled_dot_product_attention
BOUND = 1.5  # |entry| of query, key, value and output gradient


class Heads(NamedTuple):
    """One drawn case: query and grad [batch, heads, S, width], key and value [batch, kv_heads, T, width]."""

    query: Tensor
    key: Tensor
    value: Tensor
    grad: Tensor


def draw_heads(trial: Trial, *, square: bool = False, dtype: torch.dtype = torch.float64) -> Heads:
    """Shapes and values; groups of 1 to 3 query heads share a key-value head."""
    case = trial.case
    batch, kv_heads, group = (
        case.integer(name, 1, high) for name, high in (("batch", 2), ("kv_heads", 2), ("group", 3))
    )
    width, queries = case.integer("width", 1, 6), case.integer("queries", 1, 7)
    keys = queries if square else case.integer("keys", 1, 7)
    query_shape, key_shape = (batch, kv_heads * group, queries, width), (batch, kv_heads, keys, width)
    return Heads(
        *(case.normal(*shape, dtype=dtype, bound=BOUND) for shape in (query_shape, key_shape, key_shape, query_shape))
    )


def tolerance(heads: Heads, scale: float, dtype: str, ours: str | None = None) -> Tolerance:
    """Roundings along scores, softmax, output and back: three dot products and a softmax each way."""
    width, queries, keys = heads.query.shape[-1], heads.query.shape[2], heads.key.shape[2]
    group = heads.query.shape[1] // heads.key.shape[1]
    scores = dot(width) + 1
    largest = scale * width * BOUND**2
    roundings = softmax(keys, scores, largest) + 2 * dot(keys) + 2 * dot(width) + dot(queries * group) + 4
    return Tolerance(dtype, roundings, "softmax of scaled dot products, dot products over keys, width, queries", ours)


def _hold(trial: Trial, heads: Heads, theirs: Tensor, leaves: list[Tensor], mask: Tensor | None, scale: float | None,
          dtype: str = "float64") -> None:  # fmt: skip
    """Output and all three gradients against an oracle's output that depends on `leaves`."""
    m = trial.mechanism("attention")
    wide = Heads(*(tensor.double() for tensor in heads))
    output, saved = m.attention(wide.query, wide.key, wide.value, mask, scale)
    others = torch.autograd.grad(theirs, leaves, heads.grad)
    used = heads.query.shape[-1] ** -0.5 if scale is None else scale
    allowed = tolerance(heads, used, dtype, "float64")
    trial.compare.agree("output", output, theirs, allowed, magnitude=BOUND)
    width, rows = heads.query.shape[-1], heads.query.shape[2] * heads.query.shape[1]
    score_gradient = 2 * width * BOUND**2  # |dP| and the row sum are dot products over the width
    sizes = (used * score_gradient * BOUND, used * rows * score_gradient * BOUND, rows * BOUND)
    for name, ours, other, size in zip(
        ("query", "key", "value"), m.attention_backward(wide.grad, saved), others, sizes, strict=True
    ):
        trial.compare.agree(f"gradient of {name}", ours, other, allowed, magnitude=size)


def _leaves(heads: Heads) -> list[Tensor]:
    return [tensor.clone().requires_grad_() for tensor in heads[:3]]


def causal(trial: Trial) -> None:
    """Grouped heads under SDPA's own causal mask, which starts in the first row and column for any shape."""
    m = trial.mechanism("attention")
    heads = draw_heads(trial)
    scale = trial.case.choice("scale", (None, 0.3, 1.0))
    leaves = _leaves(heads)
    theirs = SDPA(*leaves, is_causal=True, scale=scale, enable_gqa=True)
    _hold(trial, heads, theirs, leaves, m.causal_mask(heads.query.shape[2], heads.key.shape[2]), scale)


def unmasked(trial: Trial) -> None:
    """No mask at all: every query sees every key."""
    heads = draw_heads(trial)
    leaves = _leaves(heads)
    _hold(trial, heads, SDPA(*leaves, enable_gqa=True), leaves, None, None)


def padded(trial: Trial) -> None:
    """A bool mask per row of the batch: padding left out, and a query that may see nothing gives 0 and no gradient."""
    heads = draw_heads(trial)
    shape = (heads.query.shape[0], 1, heads.query.shape[2], heads.key.shape[2])
    mask = trial.case.integers(0, 3, *shape) > 0
    if trial.case.choice("blind query", (True, False)):
        mask[0, 0, 0] = False
    leaves = _leaves(heads)
    theirs = SDPA(*leaves, attn_mask=mask, enable_gqa=True)
    _hold(trial, heads, theirs, leaves, mask, None)


def written_out(trial: Trial) -> None:
    """The formula in torch's own operations, key-value heads repeated, with autograd for the backward."""
    m = trial.mechanism("attention")
    heads = draw_heads(trial, square=True)
    leaves = _leaves(heads)
    query, key, value = leaves
    group = query.shape[1] // key.shape[1]
    repeated = [tensor[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2) for tensor in (key, value)]
    later = torch.ones(query.shape[2], query.shape[2], dtype=torch.bool).triu(1)
    scores = torch.einsum("bhqd,bhkd->bhqk", query, repeated[0]) / math.sqrt(query.shape[-1])
    theirs = torch.einsum("bhqk,bhkd->bhqd", scores.masked_fill(later, -math.inf).softmax(-1), repeated[1])
    _hold(trial, heads, theirs, leaves, m.causal_mask(query.shape[2], query.shape[2]), None)


def large_scores(trial: Trial) -> None:
    """Scores in the hundreds: exp would overflow without the row's maximum taken out."""
    m = trial.mechanism("attention")
    heads = draw_heads(trial, square=True)
    leaves = _leaves(heads)
    theirs = SDPA(*leaves, is_causal=True, scale=500.0, enable_gqa=True)
    _hold(trial, heads, theirs, leaves, m.causal_mask(heads.query.shape[2], heads.key.shape[2]), 500.0)


def transformers_eager(trial: Trial) -> None:
    """Transformers' eager attention with its additive mask and cached keys; its softmax runs in fp32."""
    from types import SimpleNamespace

    from transformers.models.qwen2.modeling_qwen2 import eager_attention_forward

    m = trial.mechanism("attention")
    heads = draw_heads(trial, dtype=torch.float32)
    queries, keys = heads.query.shape[2], heads.key.shape[2]
    if queries > keys:  # queries are the last positions of what the keys cover
        heads = Heads(heads.query[:, :, :keys], heads.key, heads.value, heads.grad[:, :, :keys])
        queries = keys
    mask = m.causal_mask(queries, keys, keys - queries)
    seen = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    additive = torch.zeros(queries, keys).masked_fill(~seen, torch.finfo(torch.float32).min)
    leaves = _leaves(heads)
    module = SimpleNamespace(num_key_value_groups=heads.query.shape[1] // heads.key.shape[1], training=False)
    scaling = heads.query.shape[-1] ** -0.5
    theirs, _ = eager_attention_forward(module, *leaves, additive[None, None], scaling)
    _hold(trial, heads, theirs.transpose(1, 2), leaves, mask, None, "float32")


def transformers_layer(trial: Trial) -> None:
    """Qwen2's attention layer with SDPA inside: its output and the gradient of its input, projections included."""
    from experiments.training_mechanism.conformance.shared.tiny_qwen2 import HEADS, HIDDEN, KV_HEADS, tiny_qwen2

    m = trial.mechanism("attention")
    layer = tiny_qwen2(trial.case.integer("weights", 0, 3), attn_implementation="sdpa").model.layers[0].self_attn
    length = trial.case.integer("sequence", 1, 7)
    x = trial.case.normal(2, length, HIDDEN, dtype=torch.float32, bound=BOUND).requires_grad_()
    straight = torch.ones(1, length, HIDDEN // HEADS), torch.zeros(1, length, HIDDEN // HEADS)  # cos 1, sin 0
    theirs = layer(x, straight, None)[0]
    grad = trial.case.normal(*theirs.shape, dtype=torch.float32, bound=BOUND)
    (their_gradient,) = torch.autograd.grad(theirs, x, grad)

    weights = {name: value.detach().double() for name, value in layer.named_parameters()}
    heads = {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}
    wide = x.detach().double()
    flat = {name: wide @ weights[f"{name}_proj.weight"].T + weights[f"{name}_proj.bias"] for name in heads}
    split = {name: flat[name].view(2, length, count, -1).transpose(1, 2) for name, count in heads.items()}
    output, saved = m.attention(split["q"], split["k"], split["v"], m.causal_mask(length, length))
    ours = output.transpose(1, 2).flatten(2) @ weights["o_proj.weight"].T
    back = (grad.double() @ weights["o_proj.weight"]).view(2, length, HEADS, -1).transpose(1, 2)
    gradient = torch.zeros_like(wide)
    for name, part in zip(heads, m.attention_backward(back, saved), strict=True):
        gradient += part.transpose(1, 2).flatten(2) @ weights[f"{name}_proj.weight"]

    width = HIDDEN // HEADS
    largest = float(split["q"].abs().amax() * split["k"].abs().amax()) * width
    roundings = softmax(length, dot(HIDDEN) + dot(width) + 2, largest) + 2 * dot(length) + 4 * dot(HIDDEN)
    allowed = Tolerance("float32", roundings, "projections, softmax of dot products, sums over keys", "float64")
    through = max(
        float(weight.abs().sum(dim).amax()) for weight in weights.values() if weight.dim() == 2 for dim in (0, 1)
    )
    size = float(split["v"].abs().amax()) * through
    trial.compare.agree("output of the layer", ours, theirs, allowed, magnitude=size)
    size = 3 * length * width * BOUND * through**3  # three paths, each a sum over positions of products of such sums
    trial.compare.agree("gradient of the layer's input", gradient, their_gradient, allowed, magnitude=max(size, 1.0))


OURS, TORCH = "attention.attention", "torch.nn.functional.scaled_dot_product_attention"
EAGER = "transformers qwen2 eager_attention_forward"
CHECKS = (
    PageCheck("causal", causal, OURS, TORCH),
    PageCheck("unmasked", unmasked, OURS, TORCH, examples=8),
    PageCheck("padded", padded, OURS, TORCH),
    PageCheck("written_out", written_out, OURS, "torch.einsum and torch.autograd", examples=12),
    PageCheck("large_scores", large_scores, OURS, TORCH, examples=6),
    PageCheck("transformers_eager", transformers_eager, OURS, EAGER, ("transformers",), 15),
    PageCheck("transformers_layer", transformers_layer, OURS, "transformers Qwen2Attention", ("transformers",), 6),
)

PAGE = Page("attention", ("attention",), CHECKS)

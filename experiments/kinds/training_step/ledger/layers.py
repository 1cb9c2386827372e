"""Bytes of one decoder layer: what it saves, what its weight copies take, what it needs for a moment.

Counted from what autograd saves in Transformers' Qwen2 layer, tensor by tensor; the tests count the live tensors of a
real step and find the same bytes. Per token, with width h, MLP width f, key-value width c, H heads, sequence S:

  two norms      each saves its input and the normalised input, fp32: 8h, and one root each: 4
  their outputs  fp32 products share one fp32 tensor, 4h. Autocast casts it anew for every product: 2h for each of
                 q, k, v and of gate, up
  attention      flash: q, k, v, output and one log-sum per head. RoPE runs in fp32; q and k are cast after it
                 plain: q, scaled and in fp32, k and v the same and expanded to all heads, H S probabilities in fp32
                 (with dropout once more, and its mask), and the output
  MLP            gate, its SiLU, up, and their product: 4f numbers

Under bf16 with flash that is 30h + 8f + 4c + 4H + 8: 66,368 bytes for Qwen2.5-0.5B. The residual stream stays in
fp32, so a layer's input, counted in the first norm, is 4h.
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.kinds.training_step.ledger.ledger_settings import LedgerSettings
from experiments.models.registered_config import DecoderShape

FP32 = 4
LOW = 2
PLAIN_ATTENTION = 32  # bytes per unit of width: q, k, v scaled, expanded and laid out anew, all in fp32, at one time


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """All sizes in bytes for one layer and one micro-batch."""

    input: int  # its entry in the residual stream
    saved: int  # everything its forward saves, the input included
    kept: int  # what selective checkpointing keeps besides the input
    casts: int  # low-precision copies of its matrices, biases left out: saved with the products
    bias_casts: int  # copies of its biases: they live in autocast's cache only
    gradients: int  # of its parameters, fp32
    running_moment: int  # on top of its input and what it keeps, at the worst moment of a forward that saves nothing
    saving_moment: int  # on top of all it saves, at the worst moment of a forward that saves; mostly nothing
    backward_moment: int  # on top of what it saved and the gradient that came in, at the worst moment of its backward


def layer(shape: DecoderShape, settings: LedgerSettings) -> LayerBytes:
    """The bytes of each layer under these settings; all layers of this architecture are alike."""
    size = LOW if settings.low else FP32
    tokens, hidden, wide = settings.tokens, shape.hidden, shape.intermediate
    norm_outputs = 5 * LOW * hidden if settings.low else 2 * FP32 * hidden
    saved = 2 * (2 * FP32 * hidden + FP32) + norm_outputs + attention(shape, settings) + 4 * size * wide
    biases = hidden + 2 * key_value(shape)
    matrices = shape.layer_parameters - 2 * hidden - biases
    return LayerBytes(
        input=FP32 * hidden * tokens,
        saved=saved * tokens,
        kept=products(shape, settings) * tokens,
        casts=LOW * matrices if settings.low else 0,
        bias_casts=LOW * biases if settings.low else 0,
        gradients=FP32 * shape.layer_parameters,
        running_moment=running_moment(shape, settings) * tokens,
        saving_moment=saving_moment(shape, settings) * tokens,
        backward_moment=backward_moment(shape, settings),
    )


def key_value(shape: DecoderShape) -> int:
    """Width of keys, and of values."""
    return shape.kv_heads * shape.head_dim


def is_fused(shape: DecoderShape, settings: LedgerSettings) -> bool:
    """Whether attention runs as one kernel. On a card no fused kernel takes fp32 with grouped queries."""
    if settings.attention == "auto":
        return settings.low or shape.kv_heads == shape.heads
    return settings.attention == "flash"


def attention(shape: DecoderShape, settings: LedgerSettings) -> int:
    """Bytes per token that attention saves, its output (the input of the o product) included."""
    size = LOW if settings.low else FP32
    if is_fused(shape, settings):
        return 2 * size * shape.hidden + 2 * size * key_value(shape) + FP32 * shape.heads
    scores = shape.heads * settings.sequence
    probabilities = (2 * FP32 + 1) * scores if settings.dropout else FP32 * scores
    return 3 * FP32 * shape.hidden + probabilities + size * shape.hidden


def products(shape: DecoderShape, settings: LedgerSettings) -> int:
    """Bytes per token of the outputs of matrix products: q, k, v, o, gate, up, down; without flash also attention's."""
    size = LOW if settings.low else FP32
    linear = size * (3 * shape.hidden + 2 * key_value(shape) + 2 * shape.intermediate)
    if is_fused(shape, settings):
        return linear
    return linear + FP32 * (shape.heads * settings.sequence + shape.hidden)


def running_moment(shape: DecoderShape, settings: LedgerSettings) -> int:
    """Bytes per token while a layer runs without saving: SiLU, up and their product, or plain attention's scores.

    Beside them stand the residual and the norm's output in fp32, and in attention q, k and v in their several forms.
    """
    size = LOW if settings.low else FP32
    already = size * shape.intermediate if settings.checkpoint == "selective" else 0  # up is kept, so it stands there
    mlp = 3 * size * shape.intermediate + 2 * FP32 * shape.hidden - already
    if is_fused(shape, settings):
        return mlp
    return max(mlp, 2 * FP32 * shape.heads * settings.sequence + PLAIN_ATTENTION * shape.hidden)


def saving_moment(shape: DecoderShape, settings: LedgerSettings) -> int:
    """Bytes per token by which plain attention stands above what the whole layer saves, the MLP still to come."""
    if is_fused(shape, settings):
        return 0
    size = LOW if settings.low else FP32
    still_to_come = (2 * FP32 + 2 * size) * shape.hidden + 4 * size * shape.intermediate
    return max(0, FP32 * shape.heads * settings.sequence + PLAIN_ATTENTION * shape.hidden - still_to_come)


def backward_moment(shape: DecoderShape, settings: LedgerSettings) -> int:
    """Bytes at the worst moment of a layer's backward, beyond what it saved and the gradient that came in.

    In the MLP: the gradients of SiLU and of up beside that of their product, which has been freed, and one weight
    gradient in low precision beside its fp32 form. In plain attention: two gradients of the scores, the MLP being
    done.
    """
    size = LOW if settings.low else FP32
    mlp = 2 * size * shape.intermediate + size * shape.hidden
    if not is_fused(shape, settings):
        done = 4 * size * shape.intermediate
        mlp = max(mlp, 2 * FP32 * shape.heads * settings.sequence - done)
    weight = shape.hidden * shape.intermediate * ((FP32 + LOW) if settings.low else FP32)
    return mlp * settings.tokens + weight

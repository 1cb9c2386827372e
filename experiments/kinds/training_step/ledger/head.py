"""Bytes of the loss head, phase by phase: the logits tower that so often holds a step's peak.

For C tokens at a time and a vocabulary of V, all logits at once (`full`) or in chunks that are computed again in
backward (`chunked`):

  forward   the product's output (low precision: 2VC, and a copy of the head matrix), fp32 logits 4VC, log-softmax 4VC
  kept      full: log-softmax 4VC, the cast input and matrix of the product. Chunked: nothing but the hidden states
  backward  log-softmax, the gradient of the picked entries, the gradient of the logits: 12VC. Chunked, from the second
            chunk on: also the matrix's gradient so far and a fresh copy of the matrix

So Qwen2.5-0.5B's 607,744 bytes per token of fp32 logits stand three times at the peak.
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.kinds.training_step.ledger.layers import FP32, LOW
from experiments.kinds.training_step.ledger.ledger_settings import LedgerSettings
from experiments.models.registered_config import DecoderShape


@dataclass(frozen=True, slots=True)
class HeadBytes:
    """All sizes in bytes for one micro-batch, on top of everything the decoder holds."""

    forward: int  # at the highest moment of computing the loss
    kept: int  # from the loss to its backward
    backward: int  # at the highest moment of the head's backward, the kept part included
    gradient: int  # of the head matrix, fp32: held until the embedding's own gradient joins it
    gradient_cast: int  # the same in low precision, while it is being cast


def head(shape: DecoderShape, settings: LedgerSettings) -> HeadBytes:
    """The loss head's bytes under these settings."""
    tokens = settings.tokens
    chunks = 1 if settings.head == "full" else -(-tokens // settings.chunk_tokens)
    chunk = tokens if settings.head == "full" else min(settings.chunk_tokens, tokens)
    matrix = shape.vocabulary * shape.hidden
    logits = shape.vocabulary * chunk
    cast = LOW * (matrix + shape.hidden * chunk) if settings.low else 0
    forward = 2 * FP32 * logits + (LOW * logits + cast if settings.low else 0)
    size = LOW if settings.low else FP32
    tower = max(3 * FP32 * logits, size * (logits + matrix)) + cast  # log-softmax's backward, or the two products'
    gradient, gradient_cast = FP32 * matrix, LOW * matrix if settings.low else 0
    if settings.head == "full":
        return HeadBytes(forward, FP32 * logits + cast, tower, gradient, gradient_cast)
    so_far = size * matrix + FP32 * shape.hidden * tokens if chunks > 1 else 0
    return HeadBytes(forward, 0, tower + so_far, gradient, gradient_cast)

"""The loss head: from hidden states to the mean loss of a batch, with all logits at once or a chunk at a time.

With hidden states H [tokens, hidden], head matrix W [vocabulary, hidden] and targets y

    loss = sum_t (logsumexp(H_t W^T) - (H_t W^T)[y_t]) / divisor

The full form holds every logit: tokens x vocabulary in the compute dtype and again in fp32, and once more as their
gradient. For a large vocabulary that tower is the peak of the whole step. The chunked form goes through `chunk` tokens
at a time and lets each chunk's logits be computed again in backward (non-reentrant checkpointing), so only one chunk's
tower stands at any time. Both add the same per-token losses; only the order of the sum differs.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK_TOKENS = 1024


def full_loss(hidden: Tensor, head: Tensor, targets: Tensor, divisor: int) -> Tensor:
    """Scalar fp32 loss of hidden [batch, sequence, hidden] against targets [batch, sequence], sum over `divisor`.

    The product runs in whatever dtype autocast gives it; the softmax runs in fp32, as Transformers does it.
    """
    return _summed(hidden.flatten(0, 1), head, targets.flatten()) / divisor


def chunked_loss(hidden: Tensor, head: Tensor, targets: Tensor, divisor: int, chunk: int = CHUNK_TOKENS) -> Tensor:
    """The same scalar as `full_loss`, holding the logits of at most `chunk` tokens at a time."""
    rows, labels = hidden.flatten(0, 1), targets.flatten()
    total = torch.zeros((), dtype=torch.float32, device=hidden.device)
    for begin in range(0, rows.shape[0], chunk):
        part = slice(begin, begin + chunk)
        # nothing in here is random, and reading the card's random state would wait for it
        args = (rows[part], head, labels[part])
        total = total + checkpoint(_summed, *args, use_reentrant=False, preserve_rng_state=False)
    return total / divisor


def _summed(rows: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    logits = torch.nn.functional.linear(rows, head)
    return torch.nn.functional.cross_entropy(logits.float(), labels, reduction="sum")

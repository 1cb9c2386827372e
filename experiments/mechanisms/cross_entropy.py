"""Causal-LM cross-entropy, forward and backward by hand.

Position t of the input predicts token t + 1, so logits z_t meet the label y_{t+1}; the last position predicts nothing.
Over the valid positions V (label not `ignore_index`)

    l_t = logsumexp(z_t) - z_t[y]            L = sum_{t in V} l_t / N
    dL/dz_t = (softmax(z_t) - onehot(y)) / N     for t in V, and 0 elsewhere

N is |V| for one batch on its own. Where several micro-batches make one step, N is `num_items`, the number of valid
tokens of all of them: then the sum of the micro-batch losses is the loss of the whole batch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

IGNORE = -100


class SavedLogits(NamedTuple):
    """What the backward needs: probabilities [positions, vocabulary], targets [positions], validity, and N."""

    probabilities: Tensor
    targets: Tensor
    valid: Tensor
    items: Tensor
    shape: torch.Size


def shift_labels(labels: Tensor, ignore_index: int = IGNORE) -> Tensor:
    """[batch, sequence] labels moved one place to the left; the last position of each row has nothing to predict."""
    shifted = torch.full_like(labels, ignore_index)
    shifted[..., :-1] = labels[..., 1:]
    return shifted


def count_targets(labels: Tensor, ignore_index: int = IGNORE) -> int:
    """How many positions of [batch, sequence] labels have a next token to predict: the N this batch contributes."""
    return int((shift_labels(labels, ignore_index) != ignore_index).sum())


def causal_lm_loss(
    logits: Tensor, labels: Tensor, *, num_items: int | Tensor | None = None, ignore_index: int = IGNORE
) -> tuple[Tensor, SavedLogits]:
    """The scalar loss of [batch, sequence, vocabulary] logits, and what its backward needs.

    Without `num_items` a batch with no valid label gives NaN (0 / 0), as the frameworks do.
    """
    targets = shift_labels(labels, ignore_index).reshape(-1)
    scores = logits.reshape(-1, logits.shape[-1])
    valid = targets != ignore_index
    chosen = torch.where(valid, targets, 0)

    largest = scores.amax(dim=-1, keepdim=True)  # exp(z - max) cannot overflow
    exponentials = torch.exp(scores - largest)
    total = exponentials.sum(dim=-1, keepdim=True)
    log_normaliser = largest + torch.log(total)
    losses = log_normaliser.squeeze(-1) - scores.gather(-1, chosen[:, None]).squeeze(-1)

    items = torch.as_tensor(valid.sum() if num_items is None else num_items, device=logits.device).to(scores.dtype)
    loss = torch.where(valid, losses, 0.0).sum() / items
    return loss, SavedLogits(exponentials / total, chosen, valid, items, logits.shape)


def causal_lm_loss_backward(grad_loss: Tensor, saved: SavedLogits) -> Tensor:
    """dL/dlogits [batch, sequence, vocabulary]: probabilities minus one at the target, zero where none is."""
    grad = saved.probabilities.clone()
    rows = torch.arange(grad.shape[0], device=grad.device)
    grad[rows, saved.targets] -= 1.0
    grad = torch.where(saved.valid[:, None], grad * (grad_loss / saved.items), 0.0)
    return grad.reshape(saved.shape)

"""Page 3: causal-LM cross-entropy against torch and against the loss Transformers trains with.

Transformers computes this loss in fp32 whatever it is given, so it is held at fp32 with our float64 as the reference;
torch is held in float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.conformance.page import Page, PageCheck, Trial
from experiments.conformance.tolerance import ELEMENTARY, Tolerance, exponential, softmax

LARGEST = 4.0  # |logit| of a drawn case


class Batch(NamedTuple):
    """One drawn batch: logits [batch, sequence, vocabulary] and labels [batch, sequence] with ignored places."""

    logits: Tensor
    labels: Tensor


def draw_batch(trial: Trial, *, name: str = "", dtype: torch.dtype = torch.float64) -> Batch:
    """Random shape and values; about a third of the labels ignored, and at least one target kept."""
    case = trial.case
    rows = case.integer(f"{name}batch", 1, 3)
    length = case.integer(f"{name}sequence", 2, 9)
    vocabulary = case.integer(f"{name}vocabulary", 2, 17)
    logits = case.normal(rows, length, vocabulary, dtype=dtype, bound=LARGEST)
    labels = case.integers(0, vocabulary, rows, length)
    labels[case.integers(0, 3, rows, length) == 0] = -100
    labels[0, 1] = case.integer(f"{name}kept", 0, vocabulary - 1)
    return Batch(logits, labels)


def loss_tolerance(batch: Batch, dtype: str, ours: str | None = None) -> Tolerance:
    """Roundings of the mean loss: one log-sum-exp of V terms, the difference, the sum over positions, the division."""
    positions, vocabulary = batch.labels.numel(), batch.logits.shape[-1]
    roundings = exponential(1, 2 * LARGEST) + vocabulary + ELEMENTARY + 2 + positions + 1
    return Tolerance(dtype, roundings, "exp, V sums, log, 2 differences, B*S sums, 1 division", ours)


def gradient_tolerance(batch: Batch, dtype: str, ours: str | None = None) -> Tolerance:
    """Roundings of one gradient entry: a softmax over V, the subtraction of one, grad / N, the product."""
    roundings = softmax(batch.logits.shape[-1], 1, LARGEST) + 3
    return Tolerance(dtype, roundings, "softmax over V, minus one, grad / N, times", ours)


def _ours(trial: Trial, batch: Batch, grad_loss: float = 1.0, **options: Any) -> tuple[Tensor, Tensor]:
    m = trial.mechanism("cross_entropy")
    loss, saved = m.causal_lm_loss(batch.logits, batch.labels, **options)
    return loss, m.causal_lm_loss_backward(torch.tensor(grad_loss, dtype=batch.logits.dtype), saved)


def _torch_loss(logits: Tensor, labels: Tensor, num_items: int | None = None, ignore_index: int = -100) -> Tensor:
    """The loss as torch's own cross_entropy states it, labels cut rather than padded."""
    scores, targets = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    if num_items is None:
        return F.cross_entropy(scores, targets, ignore_index=ignore_index)
    return F.cross_entropy(scores, targets, ignore_index=ignore_index, reduction="sum") / num_items


def _hold(
    trial: Trial, batch: Batch, theirs: Tensor, leaf: Tensor, dtype: str, grad_loss: float = 1.0, **options: Any
) -> None:
    """Loss and the whole logit gradient against an oracle's loss that depends on `leaf`."""
    (grad,) = torch.autograd.grad(theirs * grad_loss, leaf)
    loss, ours = _ours(trial, batch, grad_loss, **options)
    items = float(options.get("num_items") or 1)
    trial.compare.agree("loss", loss, theirs, loss_tolerance(batch, dtype, "float64"), magnitude=LARGEST / items)
    size = abs(grad_loss) / float(options.get("num_items") or (batch.labels[:, 1:] != -100).sum())
    trial.compare.agree("d loss / d logits", ours, grad, gradient_tolerance(batch, dtype, "float64"), magnitude=size)


def shifted_mean(trial: Trial) -> None:
    """Label shift and ignored labels, averaged over the batch's own targets."""
    batch = draw_batch(trial)
    leaf = batch.logits.clone().requires_grad_()
    grad_loss = float(trial.case.choice("grad_loss", (1.0, 0.25, -2.0)))
    _hold(trial, batch, _torch_loss(leaf, batch.labels), leaf, "float64", grad_loss)


def num_items_in_batch(trial: Trial) -> None:
    """A sum over the targets divided by a count from outside, as an accumulated step needs it."""
    batch = draw_batch(trial)
    items = trial.case.integer("num_items", 1, 40)
    leaf = batch.logits.clone().requires_grad_()
    _hold(trial, batch, _torch_loss(leaf, batch.labels, items), leaf, "float64", num_items=items)


def micro_batches_sum_to_the_batch(trial: Trial) -> None:
    """Micro-batch losses with the common count sum to the loss of all rows at once, gradients likewise."""
    m = trial.mechanism("cross_entropy")
    batch = draw_batch(trial)
    if batch.labels.shape[0] == 1:
        batch = Batch(batch.logits.repeat(2, 1, 1), batch.labels.repeat(2, 1))
    items = sum(m.count_targets(row[None]) for row in batch.labels)
    trial.compare.exactly("targets counted", items, (batch.labels[:, 1:] != -100).sum())
    parts = [
        _ours(trial, Batch(logits[None], labels[None]), num_items=items)
        for logits, labels in zip(batch.logits, batch.labels, strict=True)
    ]
    leaf = batch.logits.clone().requires_grad_()
    whole = _torch_loss(leaf, batch.labels)
    (grad,) = torch.autograd.grad(whole, leaf)
    tolerance = loss_tolerance(batch, "float64")
    summed = torch.stack([loss for loss, _ in parts]).sum()
    trial.compare.agree("summed loss", summed, whole, tolerance, magnitude=LARGEST)
    gradient = torch.cat([gradient for _, gradient in parts])
    trial.compare.agree("stacked gradient", gradient, grad, gradient_tolerance(batch, "float64"), magnitude=1 / items)


def other_ignore_index(trial: Trial) -> None:
    """An ignore_index inside the vocabulary: that token is then never a target, and -100 has no meaning of its own."""
    batch = draw_batch(trial)
    ignored = trial.case.integer("ignore_index", 0, batch.logits.shape[-1] - 1)
    labels = torch.where(batch.labels == -100, ignored, batch.labels)
    labels[0, 1] = (ignored + 1) % batch.logits.shape[-1]
    batch = Batch(batch.logits, labels)
    leaf = batch.logits.clone().requires_grad_()
    theirs = _torch_loss(leaf, labels, None, ignored)
    (grad,) = torch.autograd.grad(theirs, leaf)
    loss, ours = _ours(trial, batch, ignore_index=ignored)
    items = int((labels[:, 1:] != ignored).sum())
    trial.compare.agree("loss", loss, theirs, loss_tolerance(batch, "float64"), magnitude=LARGEST)
    trial.compare.agree("gradient", ours, grad, gradient_tolerance(batch, "float64"), magnitude=1 / items)


def large_logits(trial: Trial) -> None:
    """Logits of 1e4 neither overflow nor lose the loss: the maximum is taken out before exp."""
    batch = draw_batch(trial)
    shifted = Batch(batch.logits + 1e4, batch.labels)
    leaf = shifted.logits.clone().requires_grad_()
    theirs = _torch_loss(leaf, batch.labels)
    (grad,) = torch.autograd.grad(theirs, leaf)
    loss, ours = _ours(trial, shifted)
    items = int((batch.labels[:, 1:] != -100).sum())
    trial.compare.agree("loss", loss, theirs, loss_tolerance(batch, "float64"), magnitude=1e4)
    trial.compare.agree("gradient", ours, grad, gradient_tolerance(batch, "float64"), magnitude=1 / items)


def nothing_to_predict(trial: Trial) -> None:
    """All labels ignored: the mean is NaN with a zero gradient, the counted sum is 0, in torch as here."""
    batch = draw_batch(trial)
    batch = Batch(batch.logits, torch.full_like(batch.labels, -100))
    for items in (None, 3):
        leaf = batch.logits.clone().requires_grad_()
        theirs = _torch_loss(leaf, batch.labels, items)
        (grad,) = torch.autograd.grad(theirs, leaf)
        loss, ours = _ours(trial, batch, num_items=items)
        trial.compare.exactly(f"loss (num_items {items})", loss, theirs)
        trial.compare.exactly(f"gradient (num_items {items})", ours, grad)


def transformers_loss(trial: Trial) -> None:
    """Transformers' own loss function, with and without num_items_in_batch; it computes in fp32."""
    from transformers.loss.loss_utils import ForCausalLMLoss

    batch = draw_batch(trial, dtype=torch.float32)
    items = trial.case.choice("num_items", (None, 1, 7, 32))
    leaf = batch.logits.clone().requires_grad_()
    theirs = ForCausalLMLoss(leaf, batch.labels, batch.logits.shape[-1], num_items_in_batch=items)
    wide = Batch(batch.logits.double(), batch.labels)
    _hold(trial, wide, theirs, leaf, "float32", **({} if items is None else {"num_items": items}))


TORCH = "torch.nn.functional.cross_entropy"
TRANSFORMERS = "transformers.loss.loss_utils.ForCausalLMLoss"
OURS = "cross_entropy.causal_lm_loss"
CHECKS = (
    PageCheck("shifted_mean", shifted_mean, OURS, TORCH),
    PageCheck("num_items_in_batch", num_items_in_batch, OURS, TORCH),
    PageCheck("micro_batches_sum_to_the_batch", micro_batches_sum_to_the_batch, OURS, TORCH),
    PageCheck("other_ignore_index", other_ignore_index, OURS, TORCH),
    PageCheck("large_logits", large_logits, OURS, TORCH, examples=10),
    PageCheck("nothing_to_predict", nothing_to_predict, OURS, TORCH, examples=5),
    PageCheck("transformers_loss", transformers_loss, OURS, TRANSFORMERS, ("transformers",)),
)

PAGE = Page("cross_entropy", ("cross_entropy",), CHECKS)

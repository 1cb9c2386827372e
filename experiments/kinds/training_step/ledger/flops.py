"""Floating-point operations of a training step, for the time floor: matrix products and attention, nothing else.

Each weight that takes part in a product costs 2 operations a token forward and 4 backward (Kaplan et al. 2020,
arXiv:2001.08361, section 2.1). Attention adds two products over the visible positions, half of all with a causal mask.
"""

from __future__ import annotations

from collections.abc import Callable

from experiments.models.registered_config import DecoderShape


def step_flops(shape: DecoderShape, batch: int, sequence: int) -> float:
    """Operations of one forward and backward over batch x sequence tokens, the loss head included."""
    tokens = batch * sequence
    products = shape.layers * (shape.layer_parameters - 2 * shape.hidden) + shape.embedding_parameters
    visible = sequence / 2
    attention = shape.layers * 2 * 2 * visible * shape.hidden
    return 3.0 * tokens * (2 * products + attention)


def recompute_share(shape: DecoderShape, sequence: int, recomputed: Callable[[int], bool]) -> float:
    """Operations that recomputing the chosen layers adds, as a share of the whole step without it.

    One more forward of each such layer; the loss head is not recomputed. Attention is counted over all positions, seen
    or masked, as PyTorch's own counter does it: here that is no floor. Every layer of Qwen2.5-0.5B at 1024: 0.249.
    """
    layers = sum(recomputed(number) for number in range(shape.layers))
    once = layer_forward(shape, sequence)
    return layers * once / (3 * (shape.layers * once + 2 * shape.embedding_parameters))


def layer_forward(shape: DecoderShape, sequence: int) -> float:
    """Operations per token of one layer's forward, attention over all `sequence` positions."""
    return 2.0 * (shape.layer_parameters - 2 * shape.hidden) + 2 * 2 * sequence * shape.hidden

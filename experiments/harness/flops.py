"""Floating-point operations of a training step, for the time floor: matrix products and attention, nothing else.

Each weight that takes part in a product costs 2 operations a token forward and 4 backward (Kaplan et al. 2020,
arXiv:2001.08361, section 2.1). Attention adds two products over the visible positions, half of all with a causal mask.
"""

from __future__ import annotations

from experiments.models.registered_config import DecoderShape


def step_flops(shape: DecoderShape, batch: int, sequence: int) -> float:
    """Operations of one forward and backward over batch x sequence tokens, the loss head included."""
    tokens = batch * sequence
    products = shape.layers * (shape.layer_parameters - 2 * shape.hidden) + shape.embedding_parameters
    visible = sequence / 2
    attention = shape.layers * 2 * 2 * visible * shape.hidden
    return 3.0 * tokens * (2 * products + attention)

"""Puts a checkpoint around decoder layers, for every page that uses one. For worker code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from experiments.models.causal_lm import CausalLanguageModel

Block = Callable[[Tensor], Tensor]
Form = Callable[[Block, Tensor], Tensor]  # runs a block on the hidden states [batch, sequence, hidden]


def wrap(model: CausalLanguageModel, chosen: Callable[[int], bool], form: Form) -> None:
    """Every decoder layer whose number is chosen runs through `form`; what else it is given stays as it is."""
    layers: Any = model.decoder.layers
    for number, layer in enumerate(layers):
        if chosen(number):
            layer.forward = _through(layer.forward, form)


def _through(forward: Callable[..., Tensor], form: Form) -> Callable[..., Tensor]:
    def run(hidden_states: Tensor, *rest: Any, **named: Any) -> Tensor:
        return form(lambda x: forward(x, *rest, **named), hidden_states)

    return run

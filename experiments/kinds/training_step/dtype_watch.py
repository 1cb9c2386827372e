"""Which number format each stage of a step really has, seen by hooks during one step and taken off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from experiments.models.causal_lm import CausalLanguageModel

# Stages in the first layer (or after the last) and the word the record uses for them.
_STAGES = {
    "layers.0": "residual_stream",
    "layers.0.input_layernorm": "norm_output",
    "layers.0.mlp": "activation",
    "layers.0.self_attn.o_proj": "attention_output",
}


@contextmanager
def watched(model: CausalLanguageModel, seen: dict[str, str]) -> Iterator[None]:
    """While open, a step writes each stage's dtype into `seen`: forward values and the gradient that meets them."""

    def keep(stage: str) -> Callable[[nn.Module, object, object], None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            tensor = output[0] if isinstance(output, tuple) else output
            if not isinstance(tensor, Tensor) or torch.compiler.is_compiling():
                return  # compiled code is the same with and without a look: nothing is seen in it
            seen.setdefault(stage, name_of(tensor))
            if stage == "activation" and tensor.requires_grad:
                tensor.register_hook(lambda grad: _note(seen, "gradient_in_backward", grad))

        return hook

    modules = dict(model.decoder.named_modules())
    handles = [modules[name].register_forward_hook(keep(stage)) for name, stage in _STAGES.items() if name in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def of_parameters(model: CausalLanguageModel, seen: dict[str, str]) -> None:
    """Add the formats that stay: the weights as stored (the master copy of mixed precision) and their gradients."""
    weight = model.head
    seen["parameter"] = name_of(weight)
    seen["master_copy"] = name_of(weight)
    if weight.grad is not None:
        seen["gradient"] = name_of(weight.grad)


def name_of(tensor: Tensor) -> str:
    """`float32`, `bfloat16`, ..."""
    return str(tensor.dtype).removeprefix("torch.")


def _note(seen: dict[str, str], stage: str, tensor: Tensor) -> None:
    seen.setdefault(stage, name_of(tensor))

"""Building the network itself: a Transformers Qwen2 on a device, from weight files or from seeded random weights.

The harness asks for the decoder and the head apart, because it calls the decoder itself and owns the loss head: only
so the head is a phase of its own. Imported by worker code only, since it needs torch and transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Qwen2Config, Qwen2ForCausalLM

from experiments.models.source_types import ModelAsset
from tools.environments.errors import LabError

_NOT_SHAPE = ("architectures", "model_type", "torch_dtype", "dtype", "transformers_version")


@dataclass(frozen=True, slots=True)
class CausalLanguageModel:
    """`decoder(input_ids)` gives hidden states batch x sequence x hidden; `head` is vocabulary x hidden."""

    network: nn.Module
    decoder: nn.Module
    head: nn.Parameter

    def hidden_states(self, input_ids: Tensor) -> Tensor:
        """Last hidden state after the final norm, batch x sequence x hidden. No key-value cache is kept.

        Rows are never packed here. Unless Transformers is told so, it looks at the position ids in every forward, and
        waits for the device to see them; inside a CUDA graph it builds a mask instead, and loses the fused attention.
        """
        mask = {"full_attention": None} if self._attends_to_all else None
        out: Tensor = self.decoder(input_ids=input_ids, attention_mask=mask, use_cache=False).last_hidden_state
        return out

    @property
    def _attends_to_all(self) -> bool:
        """Whether every layer has the plain causal mask, which SDPA makes itself. A sliding window needs its own."""
        config: Any = self.decoder.config
        return set(config.layer_types) == {"full_attention"}

    def parameters(self) -> dict[str, nn.Parameter]:
        """Every trained tensor once, by name (a tied head appears as the embedding)."""
        return dict(self.network.named_parameters())


def build(asset: ModelAsset, seed: int, device: torch.device, *, dropout: float = 0.0) -> CausalLanguageModel:
    """The model in fp32 and training mode on `device`.

    Random weights are drawn on the device itself (drawing half a billion on a CPU takes seconds), so one seed gives
    the same weights on every device of one kind. `dropout` is that of the attention weights, the only dropout this
    architecture has. Raises LabError when weight files do not match the configuration.
    """
    values = {key: value for key, value in asset.config.items() if key not in _NOT_SHAPE}
    config = Qwen2Config(**{**values, "attention_dropout": dropout}, attn_implementation="sdpa")
    torch.manual_seed(seed)
    with device:
        network = Qwen2ForCausalLM(config).float()
    if asset.weight_files:
        _load(network, asset.weight_files)
    network.train()
    return CausalLanguageModel(network=network, decoder=network.model, head=network.lm_head.weight)


def _load(network: nn.Module, files: tuple[Path, ...]) -> None:
    """Copy safetensors files into the network, in fp32. A tied head may be absent from the files, nothing else may."""
    from safetensors.torch import load_file

    wanted = dict(network.named_parameters())
    missing = set(wanted)
    for file in files:
        for name, tensor in load_file(str(file)).items():
            if name not in wanted:
                continue
            if tensor.shape != wanted[name].shape:
                raise _mismatch(file, f"{name} of shape {tuple(wanted[name].shape)}", f"shape {tuple(tensor.shape)}")
            with torch.no_grad():
                wanted[name].copy_(tensor)
            missing.discard(name)
    if missing:
        raise _mismatch(files[-1], "every tensor of the configuration", f"no {sorted(missing)[0]}")


def _mismatch(file: Path, wanted: str, found: str) -> LabError:
    return LabError(
        wanted=wanted,
        found=found,
        next="download the model again, or point --model-source local at a complete folder",
        where=file.name,
    )

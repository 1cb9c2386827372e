"""The architectures registered here: shapes, memory and time of the original, seeded random weights, no download.

`tiny-qwen2` is the embedded default for CPU: two layers of width 64, small enough that an experiment takes seconds
and a float64 twin can check every gradient. `Qwen/Qwen2.5-0.5B` is that model's published shape. Each lies under
`data/` as the config.json that Transformers reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from experiments.evidence.digests import digest_of
from experiments.models.source_types import ModelAsset, ModelIdentity
from experiments.models.tokenizer import shipped_identity
from tools.environments.errors import EXIT_USAGE, LabError

DATA = Path(__file__).resolve().parent / "data"
FILES: Mapping[str, str] = {"tiny-qwen2": "tiny-qwen2.json", "Qwen/Qwen2.5-0.5B": "qwen2.5-0.5b.json"}

WINDOW, WINDOW_FROM = 4096, 28  # Transformers' defaults of sliding_window and max_window_layers
UNCHANGED = "use the model's own config.json unchanged; only the Qwen2 architecture is measured here"


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """The sizes of a Qwen2 decoder that memory, time and the float64 twin follow from. Widths count elements."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    positions: int
    rope_theta: float
    norm_epsilon: float
    tied: bool

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads

    @property
    def layer_parameters(self) -> int:
        """Weights and biases of one layer: q, k, v with bias, o without, gate, up, down, two norms."""
        key_value = self.kv_heads * self.head_dim
        attention = 2 * self.hidden * self.hidden + self.hidden + 2 * (self.hidden * key_value + key_value)
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def embedding_parameters(self) -> int:
        """The token embedding; the loss head is the same matrix when `tied`."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All of them, each counted once."""
        matrices = 1 if self.tied else 2
        return self.layers * self.layer_parameters + matrices * self.embedding_parameters + self.hidden


def names() -> tuple[str, ...]:
    """Every registered model id."""
    return tuple(FILES)


def config(model_id: str) -> dict[str, object]:
    """The parsed config.json of a registered model. Raises LabError with the nearest names."""
    if model_id not in FILES:
        near = get_close_matches(model_id, FILES, n=2, cutoff=0.3) or list(FILES)
        raise LabError(
            wanted=f"a model registered here: {', '.join(FILES)}",
            found=model_id,
            next=f"use {near[0]}, or another source: --model-source hub",
            where="--model",
            code=EXIT_USAGE,
        )
    parsed: dict[str, object] = json.loads((DATA / FILES[model_id]).read_text(encoding="utf-8"))
    return parsed


def shape(values: Mapping[str, object], where: str = "config.json") -> DecoderShape:
    """Read the sizes out of a config.json. Raises LabError naming the first field that is missing or wrong."""

    def number(key: str) -> int:
        value = values.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise _wrong(where, key, "a positive whole number", value)
        return value

    def real(key: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise _wrong(where, key, "a positive number", value)
        return float(value)

    if values.get("model_type") != "qwen2":
        raise _wrong(where, "model_type", "qwen2", values.get("model_type"))
    _refuse_what_nothing_here_reads(values, where)
    rope = values.get("rope_parameters")
    theta = values.get("rope_theta", rope.get("rope_theta") if isinstance(rope, Mapping) else None)
    found = DecoderShape(
        layers=number("num_hidden_layers"),
        hidden=number("hidden_size"),
        heads=number("num_attention_heads"),
        kv_heads=number("num_key_value_heads"),
        intermediate=number("intermediate_size"),
        vocabulary=number("vocab_size"),
        positions=number("max_position_embeddings"),
        rope_theta=real("rope_theta", theta),
        norm_epsilon=real("rms_norm_eps", values.get("rms_norm_eps")),
        tied=values.get("tie_word_embeddings") is True,
    )
    if found.hidden % found.heads:
        raise _wrong(where, "num_attention_heads", f"a divisor of hidden_size {found.hidden}", found.heads)
    if found.heads % found.kv_heads:
        raise _wrong(where, "num_key_value_heads", f"a divisor of num_attention_heads {found.heads}", found.kv_heads)
    return found


def _refuse_what_nothing_here_reads(values: Mapping[str, object], where: str) -> None:
    """The float64 decoder and the predictions know plain rotary positions, full attention and SiLU only."""
    mend = "choose a model without it: the float64 decoder and the predictions do not know it"
    for key in ("rope_scaling", "rope_parameters"):
        rope = values.get(key)
        kind = (rope.get("rope_type") or rope.get("type")) if isinstance(rope, Mapping) else rope
        if kind not in (None, "default"):
            raise _wrong(where, key, "none, or of the default type", rope, mend)
    if values.get("hidden_act", "silu") != "silu":
        raise _wrong(where, "hidden_act", "silu", values.get("hidden_act"), mend)
    kinds = values.get("layer_types")
    if kinds is not None and (not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds)):
        raise _wrong(where, "layer_types", "full_attention in every layer", kinds, mend)
    window = values.get("sliding_window", WINDOW) if values.get("use_sliding_window") else None
    first, layers = values.get("max_window_layers", WINDOW_FROM), values.get("num_hidden_layers")
    inactive = isinstance(first, int) and isinstance(layers, int) and first >= layers
    if kinds is None and window is not None and not inactive:
        raise _wrong(where, "use_sliding_window", "false, or a window that no layer has", window, mend)


def asset(model_id: str) -> ModelAsset:
    """The registered architecture with seeded random weights. Raises LabError for an id that is not registered."""
    values = config(model_id)
    identity = ModelIdentity(
        id=model_id,
        requested_revision=None,
        resolved_commit=None,
        weights_source="random_init",
        parameter_count=shape(values, FILES[model_id]).parameters,
        config_digest=digest_of(values),
        tokenizer=shipped_identity(),
    )
    return ModelAsset(identity=identity, config=values)


def _wrong(where: str, key: str, wanted: str, found: object, mend: str = UNCHANGED) -> LabError:
    return LabError(
        wanted=f"{key}: {wanted}",
        found=repr(found)[:80],
        next=mend,
        where=where,
    )

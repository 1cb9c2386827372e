"""The vocabulary of the memory ledger: everything about a training step that its memory depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from experiments.evidence.vocabulary import JsonValue
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.models.registered_config import DecoderShape
from tools.environments.errors import EXIT_USAGE, LabError

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
Checkpoint = Literal["none", "all", "every_k", "selective"]
Offload = Literal["none", "all", "overlapped", "layer_inputs"]
Head = Literal["full", "chunked"]
Optimizer = Literal["sgd", "adamw"]
Attention = Literal["auto", "flash", "math"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSettings:
    """One candidate on one workload. `batch` is the effective batch in rows, `sequence` the positions of a row.

    precision     fp32 and tf32 compute in fp32; bf16 and fp16 run under autocast with fp32 weights
    micro_batches forward-backward passes per update; the largest of them sets the peak
    checkpoint    `all` recomputes every layer, `every_k` layers 0, k, 2k, ..., `selective` recomputes every layer but
                  keeps the outputs of its matrix products
    offload       `all` copies every tensor the decoder saves, waiting for each; `overlapped` does it in the background,
                  with `in_flight_bytes` still on the device; `layer_inputs` does so with the inputs of checkpointed
                  layers, which are all that is saved then
    attention     `auto`: fused (flash) under autocast, and plain products in fp32 where queries share keys, because
                  there no fused kernel takes grouped queries
    captured      the micro-step is replayed from a CUDA graph: what it needs inside is reserved, not allocated
    """

    batch: int
    sequence: int
    precision: Precision = "bf16"
    micro_batches: int = 1
    checkpoint: Checkpoint = "none"
    every_k: int = 2
    offload: Offload = "none"
    in_flight_bytes: int = 1 << 29
    head: Head = "full"
    chunk_tokens: int = 1024
    optimizer: Optimizer = "sgd"
    attention: Attention = "auto"
    dropout: bool = False
    captured: bool = False

    @property
    def low(self) -> bool:
        """Whether matrix products run in two bytes per number."""
        return self.precision in ("bf16", "fp16")

    @property
    def rows(self) -> int:
        """Rows of the largest micro-batch."""
        return -(-self.batch // self.micro_batches)

    @property
    def tokens(self) -> int:
        """Positions of the largest micro-batch."""
        return self.rows * self.sequence

    def recomputes(self, layer: int) -> bool:
        """Whether a layer runs again in the backward."""
        return self.checkpoint in ("all", "selective") or (self.checkpoint == "every_k" and layer % self.every_k == 0)

    def check(self, shape: DecoderShape) -> None:
        """Refuse what cannot be a step of this model. Raises LabError (wrong usage) naming the option."""
        whole = {
            "--batch": self.batch,
            "--sequence": self.sequence,
            "--micro-batches": self.micro_batches,
            "every_k": self.every_k,
            "chunk_tokens": self.chunk_tokens,
            "in_flight_bytes": self.in_flight_bytes,
        }
        for option, value in whole.items():
            if value < 1:
                raise _refused(option, "a whole number of at least 1", value)
        if self.sequence > shape.positions:
            raise _refused("--sequence", f"at most the model's {shape.positions} positions", self.sequence)
        if self.micro_batches > self.batch:
            raise _refused("--micro-batches", f"at most one per row of the batch, {self.batch}", self.micro_batches)
        if self.offload == "layer_inputs" and self.checkpoint != "all":
            raise _refused("offload", "checkpoint all beside layer_inputs", self.offload)


CHOICES: Mapping[str, tuple[str, ...]] = {
    "checkpoint": get_args(Checkpoint),
    "offload": get_args(Offload),
    "head": get_args(Head),
    "attention": get_args(Attention),
}
FORMS = ("by_hand", "torch", "reentrant", "save_on_cpu", "accelerate")  # they hold the same tensors as our own code
NUMBERS = ("micro_batches", "every_k", "in_flight_bytes", "chunk_tokens")


def for_candidate(workload: TrainingWorkload, settings: Mapping[str, JsonValue]) -> LedgerSettings | None:
    """What the ledger has to know of a candidate, read from its workload and its settings.

    `autocast` (null, "float16", "bfloat16") and `matmul` ("high" is TF32) give the precision; every other setting that
    has a name here is taken as it stands, and one that is absent has its default. `form` names an implementation. None
    for a candidate whose settings say something the ledger has no formula for: a compiled step, somebody else's code.
    """
    found: dict[str, Any] = {"head": workload.head if workload.head != "both" else "full"}
    for name, choices in CHOICES.items():
        if name in settings:
            if settings[name] not in choices:
                return None
            found[name] = settings[name]
    for name in NUMBERS:
        value = settings.get(name)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int):
                return None
            found[name] = value
    formats = {"float16": "fp16", "bfloat16": "bf16", None: "tf32" if settings.get("matmul") == "high" else "fp32"}
    autocast = settings.get("autocast")
    if settings.get("compiled") or settings.get("form", FORMS[0]) not in FORMS:
        return None
    if not (autocast is None or isinstance(autocast, str)) or autocast not in formats:
        return None
    return LedgerSettings(
        batch=workload.batch,
        sequence=workload.sequence,
        precision=formats[autocast],  # type: ignore[arg-type]
        optimizer=workload.optimizer,
        dropout=workload.dropout > 0,
        captured=settings.get("captured") is True,
        **found,
    )


def _refused(option: str, wanted: str, found: object) -> LabError:
    return LabError(
        wanted=wanted, found=str(found), next=f"change {option}, or leave it out", where=option, code=EXIT_USAGE
    )

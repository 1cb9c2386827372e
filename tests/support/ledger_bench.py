"""A small model and one real training step of the harness under the ledger's settings, with its live bytes counted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from live_bytes import LiveBytes
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from experiments.kinds.training_step.ledger.ledger_settings import LedgerSettings
from experiments.kinds.training_step.program import Mechanism, MicroBatch, TrainingStep
from experiments.mechanisms.checkpoint import MATRIX_PRODUCTS, checkpoint
from experiments.mechanisms.offload import Offload
from experiments.models import causal_lm, registered_config

CONFIG = {
    **registered_config.config("tiny-qwen2"),
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "vocab_size": 2048,
}
Again = Callable[..., torch.Tensor]  # a way of running a layer twice
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def small_step(**given: object) -> LedgerSettings:
    return LedgerSettings(**{"batch": 4, "sequence": 64, **given})  # type: ignore[arg-type]


class Bench:
    """A small model and one real training step under the given settings."""

    def __init__(
        self, settings: LedgerSettings, config: Mapping[str, object] = CONFIG, again: Again = checkpoint
    ) -> None:
        asset = replace(registered_config.asset("tiny-qwen2"), config=config)
        self.settings = settings
        self.model = causal_lm.build(asset, 0, torch.device("cpu"), dropout=0.1 if settings.dropout else 0.0)
        self.parameters = list(self.model.parameters().values())
        ids = torch.randint(0, int(str(config["vocab_size"])), (settings.batch, settings.sequence))
        self.batch = MicroBatch(ids, ids.clone(), ids.numel())
        self.optimizer = (
            torch.optim.AdamW(self.parameters, fused=True)
            if settings.optimizer == "adamw"
            else torch.optim.SGD(self.parameters, lr=0.01)
        )
        self.context: Callable[[], AbstractContextManager[object]] = nullcontext
        self.offload: Offload | None = None
        if settings.offload in ("overlapped", "layer_inputs"):
            self.offload = Offload(
                self.parameters, torch.device("cpu"), minimum_bytes=1, in_flight_bytes=settings.in_flight_bytes
            )
            self.context = self.offload.saving
        self._checkpoint_layers(again)
        mechanism = Mechanism(
            autocast=AUTOCAST.get(settings.precision),
            head=settings.head,
            forward_context=lambda: self.context(),
            split=self._split,
        )
        self.step = TrainingStep(self.model, self.batch, self.optimizer, mechanism)

    def _split(self, whole: MicroBatch) -> Sequence[MicroBatch]:
        rows = self.settings.rows
        pairs = zip(whole.inputs.split(rows), whole.targets.split(rows), strict=True)
        return [MicroBatch(inputs, targets, whole.divisor) for inputs, targets in pairs]

    def _checkpoint_layers(self, again: Again) -> None:
        keep = {"keep": MATRIX_PRODUCTS} if self.settings.checkpoint == "selective" else {}
        for index, block in enumerate(self.model.decoder.layers):
            if self.settings.recomputes(index):
                block.forward = functools.partial(_recomputed, block.forward, functools.partial(again, **keep))

    def warm(self) -> None:
        """A step, so that optimizer state and host buffers exist; then no gradient stands."""
        self.step.step()
        for parameter in self.parameters:
            parameter.grad = None

    def standing(self) -> list[torch.Tensor]:
        state = [value for entry in self.optimizer.state.values() for value in entry.values()]
        tensors = [value for value in state if isinstance(value, torch.Tensor)]
        return [*self.parameters, *self.model.network.buffers(), self.batch.inputs, self.batch.targets, *tensors]

    def attention(self) -> AbstractContextManager[object]:
        return sdpa_kernel(SDPBackend.MATH) if self.settings.attention == "math" else nullcontext()


def _recomputed(plain: Callable[..., torch.Tensor], again: Again, hidden: torch.Tensor, **rest: object) -> torch.Tensor:
    return again(functools.partial(plain, **rest), hidden)


def count(settings: LedgerSettings, again: Again = checkpoint) -> LiveBytes:
    """The live bytes of one step, phase by phase; host memory is left out."""
    bench = Bench(settings, again=again)
    with bench.attention():
        bench.warm()
        live = LiveBytes(bench.standing())
        if bench.offload is not None:
            live.leave_out(bench.offload.pool._slab)
        if settings.offload == "all":

            def pack(tensor: torch.Tensor) -> torch.Tensor:
                host = tensor.detach().clone()
                live.leave_out(host)
                return host

            bench.context = lambda: torch.autograd.graph.saved_tensors_hooks(pack, torch.clone)
        with live:
            bench.step.step(live.enter)
    return live


def allocator_peak(settings: LedgerSettings, config: Mapping[str, object]) -> int:
    """What the CPU allocator itself reports as the step's highest total, on top of what stood before."""
    bench = Bench(settings, config)
    bench.warm()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
        bench.step.step()
    total = highest = 0
    for event in trace.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            total += event.nbytes()
            highest = max(highest, total)
    return highest

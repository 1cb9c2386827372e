"""The offload page: same gradients, what travels, and faults planted in what moves it."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from page_bench import ASSET, SHAPE, PageBench
from sample_observed import CARD, CPU
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from experiments.conformance import catalogue, mutation
from experiments.conformance.page import Mutant
from experiments.evidence.candidate import Checks
from experiments.evidence.codec import from_json, to_json
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Options
from experiments.harness.launch.process import run_forked
from experiments.kinds.training_step import gating
from experiments.kinds.training_step.answers import GateAnswer, Notes
from experiments.kinds.training_step.ledger.ledger_fit import fit
from experiments.mechanisms import offload as mechanism
from experiments.models import registered_config
from experiments.training_mechanism.activation_offload import worker
from experiments.training_mechanism.activation_offload.experiment import EXPERIMENT, candidates

QWEN = registered_config.shape(registered_config.config("Qwen/Qwen2.5-0.5B"))
MOVING = ("save_on_cpu, pageable", "overlapped", "checkpoint every layer", "checkpoint + layer inputs offloaded")
PINNED, PEER = "save_on_cpu, pinned", "TRL OffloadActivations"
LEAST = 1 << 16  # bytes: what is smaller stays where it is


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> PageBench:
    """Rows large enough that activations travel: 8 x 64 x 64 numbers are 128 KiB."""
    return PageBench(EXPERIMENT, tmp_path_factory.mktemp("gates"), batch=8, sequence=64)


def mutant(name: str) -> ModuleType:
    """The offload mechanism with one fault of the published matrix in it."""
    (found,) = [one for one in catalogue.mutants("activation_offload") if one.name == name]
    return mutation.build(found)


def at_once(bench: PageBench, name: str = "overlapped", least: int = LEAST) -> Any:
    """The program with nearly nothing under way: all but the newest tensor has left when the forward ends."""
    context = bench.context(name)
    return worker.build(replace(context, spec=hurried(context.spec, least)))


def hurried(spec: CandidateSpec, least: int = LEAST) -> CandidateSpec:
    """The candidate with no more than `least` bytes under way."""
    return replace(spec, settings={**spec.settings, "in_flight_bytes": least})


# Candidates


def test_what_cannot_run_is_listed_with_the_reason() -> None:
    def missing(device: DeviceFacts, workload: str, options: Options) -> dict[str, str]:
        found = candidates(EXPERIMENT.workloads[workload], device, options)
        return {spec.name: spec.unavailable for spec in found if spec.unavailable}

    on_cpu = missing(CPU, "smoke", Options())
    assert set(on_cpu) == {PINNED, PEER}
    assert "CUDA" in on_cpu[PINNED]
    assert "--peer-path" in on_cpu[PEER]
    assert missing(CARD, "default", Options(peer_path="/somewhere")) == {}
    assert set(missing(CARD, "large", Options(peer_path="/somewhere"))) <= {"save_on_cpu, pageable"}


@pytest.mark.parametrize(("workload", "gib"), [("default", 12), ("fit-8gib", 8)])
def test_the_registered_workloads_fit_the_cards_they_are_for(workload: str, gib: int) -> None:
    chosen = EXPERIMENT.workloads[workload]
    for device in (CARD, replace(CARD, bf16_native=False)):
        rows = fit(chosen, candidates(chosen, device, Options()), QWEN, gib * 2**30)
        assert {row.verdict for row in rows if row.candidate != PEER} == {"fits"}, rows


# The same gradients


@pytest.mark.parametrize("name", MOVING)
def test_gradients_and_update_are_bit_for_bit_those_without(bench: PageBench, name: str) -> None:
    checks = bench.checks(name)
    for found in (checks.gates["gradient"], checks.gates["update"]):
        assert found is not None
        assert found.error == 0.0
    assert "oracle" in checks.gates
    assert checks.gates["oracle"].passed


@pytest.mark.parametrize("name", ["overlapped", "checkpoint + layer inputs offloaded"])
def test_also_when_everything_has_left(bench: PageBench, name: str) -> None:
    answer = bench.gate(name, at_once(bench, name))
    assert answer.gradient.overall == 0.0
    assert answer.notes.transferred_bytes > 0


# What travels


def saved_storages(bench: PageBench) -> dict[int, int]:
    """Storages that the decoder's forward saves and that are large enough to travel, by identity, counted apart."""
    program: Any = bench.program("none")
    found: dict[int, int] = {}
    kept: list[Tensor] = []  # held, so that no identity is used again
    weights = {value.untyped_storage()._cdata for value in program.parameters().values()}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        whole = 2 * tensor.numel() * tensor.element_size() >= storage.nbytes()
        if storage._cdata not in weights and storage.nbytes() >= LEAST and whole:
            kept.append(tensor.detach())
            found[storage._cdata] = storage.nbytes()
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        program.model.hidden_states(bench.context("none").batch().inputs)
    return found


def test_each_storage_travels_once_and_the_newest_stays(bench: PageBench) -> None:
    program = at_once(bench)
    program.step()
    storages = list(saved_storages(bench).values())
    newest = storages[-1]
    assert program.notes().transferred_bytes == 2 * (sum(storages) - newest)


def test_under_checkpointing_only_layer_inputs_travel(bench: PageBench) -> None:
    program = at_once(bench, "checkpoint + layer inputs offloaded", least=1)
    program.step()
    one = 8 * 64 * SHAPE.hidden * 4
    moved = program.notes().transferred_bytes
    assert moved % (2 * one) == 0
    assert SHAPE.layers * 2 * one <= moved <= (SHAPE.layers + 2) * 2 * one  # the last norm's two may go as well


def test_pageable_copies_are_counted_both_ways(bench: PageBench) -> None:
    program: Any = bench.program("save_on_cpu, pageable")
    program.step()
    first = program.notes().transferred_bytes
    program.step()
    assert program.notes().transferred_bytes == first > 2 * sum(saved_storages(bench).values())
    assert bench.program("none").notes() == Notes()


# Faults of others


def poisoned(bench: PageBench, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Checks:
    """Gates of `overlapped` when whatever has left the device is overwritten before the backward begins."""
    monkeypatch.setattr(worker, "Offload", module.Offload)
    program = at_once(bench)
    originals: list[tuple[weakref.ref[Any], Tensor]] = []
    init = module._Parcel.__init__

    def remember(self: Any, tensor: Tensor, *rest: Any) -> None:
        init(self, tensor, *rest)
        originals.append((weakref.ref(self), tensor.detach()))

    monkeypatch.setattr(module._Parcel, "__init__", remember)
    plain = program.step

    def step(enter: Any, gradients_ready: Any) -> Any:
        def entering(phase: str) -> None:
            if phase == "loss_head":
                for reference, original in originals:
                    parcel = reference()
                    if parcel is not None and parcel.resident is None:
                        original.data.fill_(float("nan"))
            enter(phase)

        return plain(entering, gradients_ready)

    monkeypatch.setattr(program, "step", step)
    checks = bench.checks("overlapped", program)
    assert originals
    return checks


def test_fault_15_memory_that_was_freed_and_overwritten_reaches_no_gradient(
    bench: PageBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = poisoned(bench, mutation.build(_same("offload")), monkeypatch)
    assert "gradient" in honest.gates
    assert honest.gates["gradient"].error == 0.0
    raced = poisoned(bench, mutant("copied_too_late"), monkeypatch)
    assert raced.finite is False
    assert "gradient" in raced.gates
    assert not raced.gates["gradient"].passed


def _same(module: str) -> Any:
    """A mutant that changes nothing: a copy of the module that a test may patch."""
    return Mutant("unchanged", module, '"""Activation offload by hand', '"""Activation offload by hand', "none")


def test_fault_16_an_address_in_use_again_is_no_duplicate(bench: PageBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken for the storage that was there before, a tensor comes back as another: the step or its gate breaks."""
    bench.gate("none")
    monkeypatch.setattr(worker, "Offload", mutant("address_for_identity").Offload)

    def job(enter: Any) -> Any:
        return to_json(gating.gate(bench.context("overlapped"), at_once(bench), bench.folder, enter))

    outcome = run_forked(job, time_limit_s=60)
    if outcome.result is not None:
        checks = bench.judged("overlapped", from_json(GateAnswer, outcome.result)).checks
        assert "gradient" in checks.gates
        assert not checks.gates["gradient"].passed
    else:
        assert outcome.died is not None
        assert outcome.died.phase == "backward"


@pytest.mark.parametrize(("name", "precision"), [("parameters_move", "fp32"), ("casts_move", "bf16")])
def test_fault_17_parameters_that_travel_show_in_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, precision: str
) -> None:
    """Gradients do not tell; the count does, and with it the transfer floor of the record."""
    bench = PageBench(EXPERIMENT, tmp_path, batch=8, sequence=64, precision=precision)
    wide = {**ASSET.config, "hidden_size": 128, "intermediate_size": 512}  # one matrix is 128 KiB in bf16
    context = replace(bench.context("overlapped"), asset=replace(ASSET, config=wide))
    moved = {}
    for which, module in (("honest", mechanism), ("wrong", mutant(name))):
        monkeypatch.setattr(worker, "Offload", module.Offload)
        program = worker.build(replace(context, spec=hurried(context.spec)))
        program.step()
        moved[which] = int(str(program.notes().transferred_bytes))
    matrices = 3 * SHAPE.layers * 128 * 512 * (4 if precision == "fp32" else 2)
    assert moved["wrong"] >= moved["honest"] + 2 * matrices


def test_fault_18_nothing_dropped_is_seen_in_what_stays_after_the_forward(
    bench: PageBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the device still holds when the forward has ended: nearly nothing, or with the fault all of it."""
    held = {}
    for name, module in (("honest", mechanism), ("never_dropped", mutant("never_dropped"))):
        monkeypatch.setattr(worker, "Offload", module.Offload)
        held[name] = resident_bytes(at_once(bench))
    saved = sum(saved_storages(bench).values())
    assert held["never_dropped"] == saved
    assert held["honest"] < 0.2 * saved


def resident_bytes(program: Any) -> int:
    """Bytes of offloaded storages that are still on the device at the end of the forward."""
    seen: list[int] = []
    offload = program.mechanism.forward_context.__self__

    def entering(phase: str) -> None:
        if phase == "loss_head":
            parcels = [reference() for reference in offload._order]
            seen.append(sum(one.size for one in parcels if one is not None and one.resident is not None))

    program.step(entering)
    return seen[0]


# A whole run


def test_a_whole_run_counts_what_travelled_and_skips_what_needs_a_card(tmp_path: Path) -> None:
    record = PageBench(EXPERIMENT, tmp_path, batch=8, sequence=64).record()
    found = {one.name: one for one in record.candidates}
    assert {name for name, one in found.items() if one.status == "skipped"} == {PINNED, PEER}
    assert record.decision.code == "numerics_ok"
    moved = found["overlapped"].memory
    assert moved is not None
    assert moved.transferred_bytes is not None
    assert moved.peak_allocated_bytes is None, "nobody knows a peak on a CPU"
    assert found["none"].memory is None

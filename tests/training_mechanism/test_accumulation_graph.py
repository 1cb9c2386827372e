"""A micro-step replayed from a graph, and layers that are compiled: the plain step's updates, and clear failures."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from page_bench import PageBench, weights_after
from sample_observed import CARD

from experiments.kinds.training_step.measuring import measure
from experiments.kinds.training_step.mechanism_of import plain
from experiments.kinds.training_step.program import no_phase
from experiments.mechanisms.micro_step_graph import MicroStepGraph, Run
from experiments.training_mechanism.gradient_accumulation import compiled_layers, worker
from experiments.training_mechanism.gradient_accumulation.experiment import EXPERIMENT
from experiments.training_mechanism.gradient_accumulation.graph_step import GraphStep

GRAPH = "8 x 1, CUDA graph"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> PageBench:
    return PageBench(EXPERIMENT, tmp_path_factory.mktemp("gates"), sequence=32)


# The CUDA graph


def recorded_by_hand(run: Run) -> Run:
    """What stands for the card's recording: warm up as the real one does, then run again instead of replaying."""
    for _ in range(3):
        run()
    return run


def graph_program(bench: PageBench, record: Callable[[Run], Run] = recorded_by_hand) -> GraphStep:
    context = bench.context(GRAPH)
    model, whole = context.model(), context.batch()
    parts = worker.micro_batches(context, whole)
    mechanism = replace(plain(context), split=lambda _: parts)
    optimizer = context.optimizer(model.network.parameters())
    return GraphStep(model, whole, optimizer, mechanism, record=record)


def test_a_replayed_micro_step_gives_the_same_gradients_update_and_loss(bench: PageBench) -> None:
    answer = bench.gate(GRAPH, graph_program(bench))
    checks = bench.judged(GRAPH, answer).checks
    for found in (checks.gates["gradient"], checks.gates["update"], checks.gates["oracle"]):
        assert found is not None
        assert found.passed
    assert answer.loss == pytest.approx(bench.gate("8 x 1").loss, rel=1e-6)


def test_nothing_moves_between_replays_and_updates_go_on(bench: PageBench) -> None:
    program = graph_program(bench)
    program.step()
    held = {name: value.grad for name, value in program.parameters().items()}
    losses, weights = weights_after(program, 2)
    plain_losses, others = weights_after(bench.program("8 x 1"))
    assert losses == pytest.approx(plain_losses[1:], rel=1e-5)
    assert all(value.grad is held[name] for name, value in program.parameters().items())
    for mine, theirs in zip(weights, others, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-6)


def test_gradients_freed_in_between_are_recorded_anew(bench: PageBench) -> None:
    program = graph_program(bench)
    first = float(program.step().loss)
    program.free()
    assert all(value.grad is None for value in program.parameters().values())
    phases: list[str] = []
    second = float(program.step(phases.append).loss)  # type: ignore[arg-type]
    assert second < first
    assert phases == ["warm_up", "other", "optimizer"]
    assert second == pytest.approx(weights_after(bench.program("8 x 1"), 2)[0][1], rel=1e-5)


def test_gradients_taken_away_by_somebody_else_are_attached_again(bench: PageBench) -> None:
    program = graph_program(bench)
    program.step()
    program.optimizer.zero_grad(set_to_none=True)
    losses, _ = weights_after(program, 2)
    assert losses == pytest.approx(weights_after(bench.program("8 x 1"))[0][1:], rel=1e-5)


def test_a_replay_has_no_borders_inside(bench: PageBench) -> None:
    answer = measure(
        replace(bench.plan.workload, warmup=1), bench.context(GRAPH).device, graph_program(bench), no_phase
    )
    assert [entry.phase for entry in answer.phases] == ["other", "optimizer"]
    assert answer.after_forward is None


def test_another_shape_than_the_recorded_one_is_refused() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    made = MicroStepGraph(
        lambda ids, targets: (weight[ids] * targets).sum(),
        torch.zeros(1, 4, dtype=torch.int64),
        torch.zeros(1, 4),
        [weight],
        record=recorded_by_hand,
    )
    made.start()
    made.add(torch.tensor([[0, 1, 1, 2]]), torch.tensor([[1.0, 2.0, 3.0, 4.0]]), 2)
    assert weight.grad is not None
    assert weight.grad.tolist() == [0.5, 2.5, 2.0]
    assert float(made.loss()) == 5.0
    with pytest.raises(ValueError, match=r"recorded for \(1, 4\)"):
        made.add(torch.zeros(2, 4, dtype=torch.int64), torch.zeros(2, 4), 2)


def test_a_scaled_loss_scales_gradients_and_not_the_loss() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    made = MicroStepGraph(
        lambda ids, targets: (weight * targets).sum(),
        torch.zeros(1, 2),
        torch.ones(1, 2),
        [weight],
        scaled=lambda loss: loss * 1024,
        record=recorded_by_hand,
    )
    made.start()
    made.add(torch.zeros(1, 2), torch.ones(1, 2), 1)
    assert weight.grad is not None
    assert weight.grad.tolist() == [1024.0, 1024.0]
    assert float(made.loss()) == 2.0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")
@pytest.mark.parametrize("head", ["full", "chunked"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_real_graph_makes_the_plain_step_s_updates(tmp_path: Path, precision: str, head: str) -> None:
    bench = PageBench(EXPERIMENT, tmp_path, sequence=64, precision=precision, head=head)
    found = {}
    for name in ("8 x 1", GRAPH):
        made = bench.context(name, facts=replace(CARD, bf16_native=False))
        program = worker.build(made)
        found[name] = weights_after(program, 4)
    assert found[GRAPH][0] == pytest.approx(found["8 x 1"][0], rel=1e-3)
    for mine, theirs in zip(found[GRAPH][1], found["8 x 1"][1], strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-2, atol=1e-4)


# torch.compile


def test_without_a_compiler_the_failure_says_what_is_missing(
    bench: PageBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(compiled_layers.CompilerMissingError) as caught:
        compiled_layers.require_compiler("cpu")
    assert "gcc" in caught.value.found

    task = next(t for t in bench.plan.tasks() if t.kind == "gate" and t.candidate == "8 x 1")
    settings = {**bench.plan.spec("8 x 1").settings, "compiled": True}
    specs = tuple(replace(spec, settings=settings) if spec.name == "8 x 1" else spec for spec in bench.plan.specs)
    monkeypatch.setattr(bench, "plan", replace(bench.plan, specs=specs))
    outcome = bench.fork(task)
    assert outcome.died is not None
    assert outcome.died.kind == "CompilerMissingError"
    assert "apt install gcc" in outcome.died.message
    assert "\n" not in outcome.died.message


def test_a_card_without_triton_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: False)
    with pytest.raises(compiled_layers.CompilerMissingError, match="Triton") as caught:
        compiled_layers.require_compiler("cuda")
    assert "torch wheel" in caught.value.next
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: True)
    monkeypatch.setenv("CC", "/bin/sh")  # something that is there
    compiled_layers.require_compiler("cuda")


def test_a_compiler_named_by_cc_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "mycc"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "mycc")
    compiled_layers.require_compiler("cpu")


@pytest.mark.slow
@pytest.mark.full  # half a minute of a C++ compiler
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # of torch's own, while it compiles
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_compiled_layers_keep_the_gradients_and_compile_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))  # nothing another process left half done
    bench = PageBench(EXPERIMENT, tmp_path, batch=2, sequence=16, oracle=False)
    context = bench.context("2 x 1, torch.compile")
    program = worker.build(context)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    losses, _ = weights_after(program, 2)
    assert losses == pytest.approx(weights_after(bench.program("2 x 1"), 2)[0], rel=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert not torch._dynamo.utils.counters["graph_break"]

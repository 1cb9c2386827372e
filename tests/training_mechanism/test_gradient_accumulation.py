"""The accumulation page: unequal rows, every way of cutting them, planted faults, and what a run concludes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from page_bench import ASSET, SHAPE, PageBench, weights_after
from sample_observed import CARD, CPU, candidate, observed
from torch import Tensor

from experiments.cli.entry import main
from experiments.evidence import store
from experiments.evidence.candidate import Checks
from experiments.harness.experiment import DeviceFacts, Options
from experiments.harness.plan import refuse_unwritable
from experiments.kinds.training_step.program import MicroBatch
from experiments.kinds.training_step.training_workload import shorter
from experiments.mechanisms.accumulation import divisors
from experiments.models.batches import IGNORED, training_rows
from experiments.training_mechanism.gradient_accumulation import accelerate_step, experiment, worker
from experiments.training_mechanism.gradient_accumulation.conclusions import conclude
from experiments.training_mechanism.gradient_accumulation.experiment import EXPERIMENT, candidates
from tools.environments.errors import LabError

SMOKE = EXPERIMENT.workloads["smoke"]
RIGHT = ("2 x 4", "4 x 2", "8 x 1", "3 + 3 + 2", "4 x 2, Accelerate")
WRONG, GRAPH, COMPILED = "8 x 1, mean per micro-batch", "8 x 1, CUDA graph", "8 x 1, torch.compile"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> PageBench:
    return PageBench(EXPERIMENT, tmp_path_factory.mktemp("gates"), sequence=32)


@pytest.fixture(name="runs")
def fixture_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMLAB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def fresh_accelerate() -> None:
    """Accelerate keeps precision and step count in process-wide singletons; a run has a process for each candidate."""
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


# Names


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ([8], "1 x 8"),
        ([3, 3, 2], "3 + 3 + 2"),
        ([3, 3, 3, 2], "3 + 3 + 3 + 2"),
        ([3] * 42 + [2], "42 x 3 + 2"),
        ([2] * 30 + [1], "30 x 2 + 1"),
    ],
)
def test_unequal_pieces_are_named_one_by_one_only_while_that_is_short(sizes: list[int], name: str) -> None:
    assert experiment.shown(sizes) == name


@pytest.mark.parametrize("batch", [61, 97, 128])
def test_any_batch_gives_names_that_a_record_takes(batch: int, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run goes through the whole plan, and its record is written and read back."""
    size = ("--batch", str(batch), "--sequence", "16", "--rounds", "1", "--steps", "1", "--warmup", "0")
    arguments = ("run", EXPERIMENT.name, *size, "--run-mode", "dry_run", "--run-label", f"b{batch}")
    assert main(arguments) == 0, capsys.readouterr().err
    names = [one.name for one in store.read(runs / EXPERIMENT.name / f"b{batch}" / "record.json").candidates]
    assert experiment.shown(experiment.pieces(batch, experiment.uneven(batch) or 0)) in names


def test_what_no_record_takes_is_refused_in_the_plan(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(experiment, "MOST_SHOWN", 1000)
    arguments = ("run", EXPERIMENT.name, "--batch", "128", "--run-mode", "dry_run", "--run-label", "long")
    assert main(arguments) == 1
    assert "wanted a name for each candidate" in capsys.readouterr().err
    assert not runs.exists()


def test_more_samples_than_a_record_holds_are_refused_in_the_plan() -> None:
    specs = candidates(SMOKE, CPU, Options())
    refuse_unwritable(specs, SMOKE)
    with pytest.raises(LabError, match="timed candidates"):
        refuse_unwritable(specs, replace(SMOKE, rounds=1000, steps=25))
    with pytest.raises(LabError, match="taken twice"):
        refuse_unwritable((*specs, specs[0]), SMOKE)


# Rows of unequal length


def test_rows_run_from_an_eighth_of_the_sequence_to_all_of_it() -> None:
    lengths = SMOKE.row_lengths
    assert lengths is not None
    assert sorted(lengths) == [8, 11, 14, 20, 26, 35, 48, 64]
    assert list(lengths) != sorted(lengths)
    assert sum(lengths) == SMOKE.tokens
    assert replace(SMOKE, seed=1).row_lengths != lengths
    assert replace(SMOKE, seed=0).row_lengths == lengths


@pytest.mark.parametrize(("batch", "sequence"), [(1, 64), (2, 64), (3, 2), (16, 5)])
def test_every_row_keeps_a_target_whatever_the_size(batch: int, sequence: int) -> None:
    lengths = replace(SMOKE, batch=batch, sequence=sequence).row_lengths
    assert lengths is not None
    assert len(lengths) == batch
    assert min(lengths) >= 1
    assert max(lengths) == sequence


def test_a_workload_without_the_knob_has_full_rows() -> None:
    full = replace(SMOKE, extra={})
    assert full.row_lengths is None
    assert full.tokens == 8 * 64


def test_what_lies_behind_a_row_carries_no_loss_and_is_in_the_digest() -> None:
    full, cut = training_rows(ASSET, 3, 8), training_rows(ASSET, 3, 8, (8, 1, 5))
    assert cut.inputs == full.inputs
    assert cut.targets[0] == full.targets[0]
    assert cut.targets[1] == (full.targets[1][0],) + (IGNORED,) * 7
    assert cut.tokens == 14
    assert len({full.digest, cut.digest, training_rows(ASSET, 3, 8, (8, 5, 1)).digest}) == 3


def test_more_lengths_than_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        training_rows(ASSET, 2, 8, (8, 8, 8))


def test_the_batch_counts_what_carries_a_loss(bench: PageBench) -> None:
    batch = bench.context("1 x 8").batch()
    assert batch.counted == int((batch.targets != IGNORED).sum()) == bench.plan.workload.tokens
    assert batch.divisor == batch.tokens


def test_the_float64_oracle_sees_the_same_masked_targets(bench: PageBench) -> None:
    checks = bench.checks("1 x 8")
    assert "oracle" in checks.gates
    assert checks.gates["oracle"].error is not None
    assert checks.gates["oracle"].error < 1e-6


# Candidates


def names(batch: int, device: DeviceFacts = CPU) -> list[str]:
    return [spec.name for spec in candidates(replace(SMOKE, batch=batch), device, Options())]


def test_the_page_s_batch_is_cut_as_the_page_says() -> None:
    assert names(8) == ["1 x 8", "2 x 4", "4 x 2", "8 x 1", "3 + 3 + 2", "4 x 2, Accelerate", WRONG, GRAPH, COMPILED]


@pytest.mark.parametrize(
    ("batch", "cuts"),
    [
        (6, ["1 x 6", "2 x 3", "6 x 1", "4 + 2"]),
        (5, ["1 x 5", "5 x 1", "2 + 2 + 1"]),
        (3, ["1 x 3", "3 x 1", "2 + 1"]),
        (2, ["1 x 2", "2 x 1"]),
    ],
)
def test_any_other_batch_is_cut_too(batch: int, cuts: list[str]) -> None:
    found = [name for name in names(batch) if "," not in name]
    assert found == cuts


def test_one_row_cannot_be_cut() -> None:
    assert names(1) == ["1 x 1"]
    _, decision = conclude(observed(candidate("1 x 1", "baseline"), device=CPU))
    assert decision.code == "inconclusive"
    assert "--batch 2" in decision.sentence


def test_what_needs_a_card_is_skipped_with_the_reason() -> None:
    on_cpu = {spec.name: spec.unavailable for spec in candidates(SMOKE, CPU, Options()) if spec.unavailable}
    assert set(on_cpu) == {GRAPH, COMPILED}
    assert on_cpu[GRAPH] == "a CUDA graph needs a CUDA device"
    on_card = {spec.name: spec.unavailable for spec in candidates(SMOKE, CARD, Options()) if spec.unavailable}
    assert set(on_card) == {COMPILED}
    assert "--workload large" in (on_card[COMPILED] or "")
    large = candidates(EXPERIMENT.workloads["large"], CARD, Options())
    assert not [spec.name for spec in large if spec.unavailable]


def test_accelerate_has_no_fp16_on_a_cpu() -> None:
    found = {spec.name: spec for spec in candidates(replace(SMOKE, precision="fp16"), CPU, Options())}
    assert "card only" in (found["4 x 2, Accelerate"].unavailable or "")


def test_only_what_is_wrong_or_left_over_goes_untimed() -> None:
    assert {spec.name for spec in candidates(SMOKE, CARD, Options()) if not spec.timed} == {"3 + 3 + 2", WRONG}


def test_each_piece_has_the_divisor_of_its_normalisation(bench: PageBench) -> None:
    lengths = bench.plan.workload.row_lengths
    assert lengths is not None
    for name, wanted in (("3 + 3 + 2", [sum(lengths)] * 3), (WRONG, [8 * length for length in lengths])):
        context = bench.context(name)
        parts = worker.micro_batches(context, context.batch())
        assert [part.divisor for part in parts] == wanted
        assert [part.tokens for part in parts] == [int((part.targets != IGNORED).sum()) for part in parts]
        assert torch.equal(torch.cat([part.inputs for part in parts]), context.batch().inputs)


# The same update, whatever the pieces


@pytest.mark.parametrize("name", RIGHT)
def test_gradients_and_update_are_those_of_the_whole_batch(bench: PageBench, name: str) -> None:
    checks = bench.checks(name)
    for found in (checks.gates["gradient"], checks.gates["update"], checks.gates["oracle"]):
        assert found is not None
        assert found.passed, found
        assert found.error is not None
        assert found.error < 5e-6


@pytest.mark.parametrize("name", ["4 x 2", "4 x 2, Accelerate", "3 + 3 + 2"])
def test_several_updates_stay_together(bench: PageBench, name: str) -> None:
    losses, weights = weights_after(bench.program("1 x 8"))
    other_losses, others = weights_after(bench.program(name))
    assert losses == pytest.approx(other_losses, rel=1e-5)
    assert losses[2] < losses[0]
    for mine, theirs in zip(weights, others, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_accelerate_runs_in_the_precision_it_is_told(tmp_path: Path, precision: str) -> None:
    bench = PageBench(EXPERIMENT, tmp_path, sequence=16, precision=precision, oracle=False)
    answer = bench.gate("4 x 2, Accelerate")
    assert answer.dtypes["activation"] == {"bf16": "bfloat16", "fp32": "float32"}[precision]
    assert answer.notes.peer.startswith("accelerate ")
    checks = bench.judged("4 x 2, Accelerate", answer).checks
    assert "gradient" in checks.gates
    assert checks.gates["gradient"].passed


def test_a_baseline_under_a_scaler_is_a_baseline_too(tmp_path: Path) -> None:
    """fp16 with loss scaling: gradients are compared without their scale, the twin's to the last bit."""
    bench = PageBench(EXPERIMENT, tmp_path, sequence=16, precision="fp16", oracle=False)
    twin, cut = bench.checks("1 x 8 (again)"), bench.checks("4 x 2")
    assert "gradient" in twin.gates
    assert "gradient" in cut.gates
    assert twin.gates["gradient"].error == 0.0
    assert cut.gates["gradient"].passed
    assert cut.gates["gradient"].error is not None
    assert 0 < cut.gates["gradient"].error < 5e-3


def test_accelerate_updates_with_the_last_micro_batch_only(bench: PageBench, monkeypatch: pytest.MonkeyPatch) -> None:
    program: Any = bench.program("4 x 2, Accelerate")
    happened: list[str] = []
    monkeypatch.setattr(program.optimizer, "step", lambda *_: happened.append("update"))
    for _ in range(2):
        program.step(happened.append, lambda scale: happened.append("ready"))
    once = ["forward", "loss_head", "backward"] * 4 + ["ready", "optimizer", "update"]
    assert happened == once * 2


# The wrong control and faults of others


def test_fault_01_mean_per_micro_batch_fails_its_gates(bench: PageBench) -> None:
    """11 and 101 tokens weigh the same: gradients are off by as much as they are long."""
    checks = bench.checks(WRONG)
    assert "gradient" in checks.gates
    assert "update" in checks.gates
    assert checks.gates["gradient"].error is not None
    assert not checks.gates["gradient"].passed
    assert not checks.gates["update"].passed
    assert checks.gates["gradient"].error > 0.1, "far beyond what even bf16 may round away"


def divided(change: Callable[[list[int]], list[float]]) -> Callable[..., Any]:
    """The page's `divisors` with a fault in it."""
    return lambda counts, by: change(divisors(counts, by))


def spoiled(bench: PageBench, name: str, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any]) -> Checks:
    monkeypatch.setattr(worker, "divisors", fault)
    return bench.checks(name, bench.program(name))


def test_fault_02_a_sum_without_division_is_as_many_times_too_large(
    bench: PageBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = spoiled(bench, "8 x 1", monkeypatch, divided(lambda found: [one / 8 for one in found]))
    assert "gradient" in checks.gates
    assert not checks.gates["gradient"].passed
    assert checks.gates["gradient"].error == pytest.approx(7.0, rel=1e-4)


@pytest.mark.parametrize("name", ["4 x 2", "4 x 2, Accelerate"])
def test_fault_03_an_ignored_token_count_gives_a_sum_of_means(
    bench: PageBench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The model averages over its own tokens and nobody divides by the number of micro-batches any more."""
    checks = spoiled(bench, name, monkeypatch, lambda counts, by: list(counts))
    assert "gradient" in checks.gates
    assert not checks.gates["gradient"].passed
    assert checks.gates["gradient"].error is not None
    assert checks.gates["gradient"].error > 1.0


def test_fault_04_a_remainder_divided_by_the_full_count_is_too_small(
    bench: PageBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window of three where four were announced: its update is a quarter short."""
    checks = spoiled(bench, "3 + 3 + 2", monkeypatch, divided(lambda found: [one * 4 / 3 for one in found]))
    assert "gradient" in checks.gates
    assert not checks.gates["gradient"].passed
    assert checks.gates["gradient"].error == pytest.approx(0.25, rel=1e-4)


def test_fault_04_an_update_after_each_micro_batch_fails_the_update_gate(
    bench: PageBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accelerate told to synchronise every time, as the last batches of a loader once made it."""
    program: Any = bench.program("4 x 2, Accelerate")
    monkeypatch.setattr(program._accelerator, "gradient_accumulation_steps", 1)
    checks = bench.checks("4 x 2, Accelerate", program)
    assert "update" in checks.gates
    assert not checks.gates["update"].passed


def test_fault_05_gradients_added_up_in_bf16_fail_the_gate(bench: PageBench) -> None:
    def rounded(parameter: Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.copy_(parameter.grad.bfloat16())

    program = bench.program("8 x 1")
    for parameter in program.parameters().values():
        parameter.register_post_accumulate_grad_hook(rounded)
    checks = bench.checks("8 x 1", program)
    assert "gradient" in checks.gates
    assert not checks.gates["gradient"].passed
    assert checks.gates["gradient"].error is not None
    assert checks.gates["gradient"].error > 1e-3
    assert bench.gate("8 x 1").dtypes["gradient"] == "float32", "what the page itself adds up in"


def test_fault_06_after_an_oom_a_smaller_batch_is_another_workload() -> None:
    """The run proposes, under a new label, and `compare` refuses to put both together: the digests differ."""
    default = EXPERIMENT.workloads["default"]
    less = shorter(default)
    assert less is not None
    assert (less.batch, less.sequence) == (4, 256)
    assert less.digest() != default.digest()
    sizes = [spec.settings["micro_batches"] for spec in candidates(less, CARD, Options())]
    assert max(int(str(size)) for size in sizes) == 4, "fewer rows are fewer pieces, never the same pieces of less"


# A whole run


def test_a_whole_run_records_the_peer_the_control_and_what_was_left_untimed(tmp_path: Path) -> None:
    record = PageBench(EXPERIMENT, tmp_path, batch=4, sequence=16).record()
    found = {one.name: one for one in record.candidates}
    assert {one.status for one in record.candidates} == {"ok", "skipped"}
    assert found["2 x 2, Accelerate"].settings["peer"] == f"accelerate {accelerate_step.accelerate.__version__}"
    assert "peer" not in found["2 x 2"].settings
    for untimed in ("3 + 1", "4 x 1, mean per micro-batch"):
        assert found[untimed].status == "ok"
        assert found[untimed].samples == ()
    assert record.decision.code == "numerics_ok"
    again = PageBench(EXPERIMENT, tmp_path, batch=4, sequence=16)
    assert record.model.template.input_digest == again.plan.subject["manifest_digest"]
    shown = EXPERIMENT.table(record)
    verdicts = {row[0]: row[-1] for row in shown.rows}
    assert verdicts["4 x 1, mean per micro-batch (wrong on purpose)"].endswith("caught")
    assert len(shown.notes) == 2


def test_a_micro_batch_knows_its_tokens_without_asking_the_device() -> None:
    ids = torch.zeros(2, 3, dtype=torch.int64)
    assert MicroBatch(ids, ids, 6).tokens == 6
    assert MicroBatch(ids, ids, 6, counted=4).tokens == 4
    assert SHAPE.layers == 2

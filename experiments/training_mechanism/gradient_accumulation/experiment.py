"""The accumulation page: one effective batch in one piece, in halves, quarters, single rows, and in unequal pieces.

Rows differ in length, so what a loss is divided by matters: per token everything agrees, per micro-batch mean (the
control) nothing does. Single rows leave a card waiting for Python; a CUDA graph and torch.compile are there to lift
that. Accelerate runs the same pieces in its own loop.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from experiments.evidence.candidate import Floor, Prediction
from experiments.evidence.vocabulary import JsonValue
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Forecast, Options
from experiments.kinds.training_step.kind import KIND
from experiments.kinds.training_step.ledger.flops import step_flops
from experiments.kinds.training_step.ledger.ledger import forecast as memory_ledger
from experiments.kinds.training_step.ledger.ledger import predictions
from experiments.kinds.training_step.ledger.ledger_settings import for_candidate
from experiments.kinds.training_step.precision import chosen
from experiments.kinds.training_step.training_experiment import ForecastRequest, TrainingExperiment
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.training_mechanism.gradient_accumulation.conclusions import conclude
from experiments.training_mechanism.gradient_accumulation.sentences import SENTENCES
from experiments.training_mechanism.shared.memory_table import table
from experiments.training_mechanism.shared.shared_workloads import QWEN

ROWS: dict[str, JsonValue] = {"shortest_row": 0.125}  # row lengths from an eighth of the sequence to all of it

MOST_SHOWN = 4  # unequal pieces named one by one: a candidate's name has to stay short

WORKLOADS = {
    "smoke": TrainingWorkload(
        name="smoke", model="tiny-qwen2", batch=8, sequence=64, steps=2, warmup=1, rounds=2, extra=ROWS
    ),
    "default": TrainingWorkload(
        name="default", model=QWEN, batch=8, sequence=256, steps=5, warmup=2, rounds=2, extra=ROWS
    ),
    "fit-8gib": TrainingWorkload(
        name="fit-8gib", model=QWEN, batch=8, sequence=128, steps=5, warmup=2, rounds=2, extra=ROWS
    ),
    "large": TrainingWorkload(
        name="large",
        model=QWEN,
        batch=8,
        sequence=1024,
        steps=5,
        warmup=2,
        rounds=2,
        optimizer="adamw",
        learning_rate=1e-4,
        oracle=False,
        extra={**ROWS, "compile": True},
    ),
}


def candidates(workload: TrainingWorkload, device: DeviceFacts, options: Options) -> tuple[CandidateSpec, ...]:
    """Every way of cutting the effective batch on the page, in the precision the workload asks for."""
    base, dtype = chosen(workload.precision, device)
    on_cpu = device.kind == "cpu"

    def spec(rows: int, more: str = "", **settings: JsonValue) -> CandidateSpec:
        sizes = pieces(workload.batch, rows)
        known: dict[str, JsonValue] = {"micro_batches": len(sizes), "rows": rows, "normalise": "per_token"}
        name = f"{shown(sizes)}, {more}" if more else shown(sizes)
        return CandidateSpec(name=name, role="candidate", settings={**base, **known, **settings}, dtype=dtype)

    whole, *smaller = halvings(workload.batch)
    found = [replace(spec(whole), role="baseline"), *(spec(rows) for rows in smaller)]
    left_over = uneven(workload.batch)
    if left_over is not None:
        found.append(replace(spec(left_over), timed=False))
    if not smaller:
        return tuple(found)
    no_fp16 = "Accelerate runs fp16 on a card only" if on_cpu and base["scaler"] else None
    found.append(replace(spec(smaller[-2:][0], "Accelerate", form="accelerate"), unavailable=no_fp16))
    wrong = spec(1, "mean per micro-batch", normalise="per_micro_batch")
    found.append(replace(wrong, role="control", timed=False))
    no_graph = "a CUDA graph needs a CUDA device" if on_cpu else None
    found.append(replace(spec(1, "CUDA graph", captured=True), unavailable=no_graph))
    found.append(replace(spec(1, "torch.compile", compiled=True), unavailable=_not_compiled(workload, on_cpu)))
    return tuple(found)


def _not_compiled(workload: TrainingWorkload, on_cpu: bool) -> str | None:
    if on_cpu:
        return "torch.compile is here to lift the launch bound of a card; a CPU has none"
    if workload.extra.get("compile") is not True:
        return "compiling in every fresh process takes longer than this workload: see --workload large"
    return None


def pieces(batch: int, rows: int) -> list[int]:
    """Rows of each micro-batch; the last one takes the remainder."""
    full, remainder = divmod(batch, rows)
    return [rows] * full + ([remainder] if remainder else [])


def shown(sizes: list[int]) -> str:
    """`4 x 2` for four micro-batches of two rows, `3 + 3 + 2` where they differ, `42 x 3 + 2` where that gets long."""
    if len(set(sizes)) > 1 and len(sizes) <= MOST_SHOWN:
        return " + ".join(map(str, sizes))
    runs = [(len(list(same)), size) for size, same in groupby(sizes)]
    return " + ".join(f"{count} x {size}" if count > 1 or len(runs) == 1 else str(size) for count, size in runs)


def halvings(batch: int) -> list[int]:
    """Rows per micro-batch: the whole batch, then halves as long as they come out even, then single rows."""
    found = [batch]
    while found[-1] % 2 == 0:
        found.append(found[-1] // 2)
    return found if found[-1] == 1 else [*found, 1]


def uneven(batch: int) -> int | None:
    """The fewest rows (at least two) that leave a remainder; None where nothing does."""
    return next((rows for rows in range(2, batch) if batch % rows), None)


def forecast(request: ForecastRequest) -> Forecast:
    """Memory by the ledger; as floor of the step its matrix products at the rate this card reached in the run."""
    settings = for_candidate(request.workload, request.spec.settings)
    if request.device.kind == "cpu":
        return Forecast()
    rows = () if settings is None else predictions(request.shape, settings)
    if settings is not None and settings.captured:
        # nobody sees the end of a forward inside a replay; what the graph holds instead is in reserve
        ledger = memory_ledger(request.shape, settings)
        held = float(ledger.peak + ledger.pool)
        pool = Prediction(
            quantity="peak_reserved_bytes", formula="memory ledger and the graph's pool", unit="bytes", predicted=held
        )
        rows = (*(row for row in rows if row.quantity != "after_forward_bytes"), pool)
    return Forecast(predictions=rows, floors=_matmul_floor(request))


def _matmul_floor(request: ForecastRequest) -> tuple[Floor, ...]:
    """All positions are computed, padding too, whatever the pieces."""
    rate = None if request.calibration is None else request.calibration.matmul_tflops.get(request.spec.dtype)
    if not rate:
        return ()
    flops = step_flops(request.shape, request.workload.batch, request.workload.sequence)
    floor_ms = flops / (rate * 1e12) * 1e3
    return (Floor(quantity="step_ms", limited_by=f"{request.spec.dtype} matmul rate", unit="ms", floor=floor_ms),)


EXPERIMENT = TrainingExperiment(
    kind=KIND,
    name="gradient_accumulation",
    page="Part 02 · 11",
    title="Gradient accumulation: one update from several micro-batches",
    title_zh="梯度累积：多个微批次合成一次更新",
    workloads=WORKLOADS,
    worker="experiments.training_mechanism.gradient_accumulation.worker",
    candidates=candidates,
    conclude=conclude,
    sentences=SENTENCES,
    table=table,
    forecast=forecast,
    look_at="what each loss is divided by, gradients left from the update before, and which gradients were compared",
)

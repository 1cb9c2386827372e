"""Whether a batch may be cut: one optimizer step from all rows at once, and from two halves of them.

Hypothesis: the loss is a sum over tokens, so gradients of two halves add up to those of the whole, as long as both are
divided by the tokens of the whole batch; activations of one half at a time need less memory, from the same operations.
The control divides each half by its own tokens: if the gates let it pass, they see nothing.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.evidence import record_text
from experiments.evidence.candidate import Prediction
from experiments.evidence.record import Record
from experiments.evidence.vocabulary import JsonValue
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Forecast, Options, Table
from experiments.kinds.training_step.kind import KIND
from experiments.kinds.training_step.ledger.ledger import predictions
from experiments.kinds.training_step.ledger.ledger_settings import for_candidate
from experiments.kinds.training_step.precision import chosen
from experiments.kinds.training_step.template.conclusions import conclude
from experiments.kinds.training_step.template.sentences import SENTENCES
from experiments.kinds.training_step.training_experiment import ForecastRequest, TrainingExperiment
from experiments.kinds.training_step.training_workload import TrainingWorkload

# Change: model and shapes. `smoke` takes seconds on a CPU, `default` is what a card is measured with.
SMOKE = TrainingWorkload(name="smoke", model="tiny-qwen2", batch=4, sequence=64, steps=2, warmup=1, rounds=2)
DEFAULT = replace(SMOKE, name="default", model="Qwen/Qwen2.5-0.5B", sequence=512, steps=10, warmup=3)
WORKLOADS = {workload.name: workload for workload in (SMOKE, DEFAULT)}


# Change: the ways of making a step. One is the baseline; `settings` is all that the worker gets.
def candidates(workload: TrainingWorkload, device: DeviceFacts, options: Options) -> tuple[CandidateSpec, ...]:
    """The batch whole, in halves, and the control, in the precision the workload asks for."""
    base, dtype = chosen(workload.precision, device)
    lacking = None if workload.batch > 1 else "one row has no halves"

    def spec(name: str, halves: int, by: str) -> CandidateSpec:
        settings: dict[str, JsonValue] = {**base, "micro_batches": halves, "divided_by": by}
        missing = lacking if halves > 1 else None
        return CandidateSpec(name=name, role="candidate", settings=settings, dtype=dtype, unavailable=missing)

    return (
        replace(spec("whole", 1, "all tokens"), role="baseline"),
        spec("halves", 2, "all tokens"),
        replace(spec("halves, each a mean", 2, "its own tokens"), role="control", timed=False),
    )


# Change: what formulas say before anything has run; the engine puts what was measured beside it.
def forecast(request: ForecastRequest) -> Forecast:
    """Of the halves: a step as long as the whole's. On a card: memory, by the kind's ledger."""
    settings = for_candidate(request.workload, request.spec.settings)
    rows: tuple[Prediction, ...] = ()
    if settings is not None and request.device.kind == "cuda":
        rows = predictions(request.shape, settings)
    if request.spec.role == "candidate":
        same = Prediction(quantity="step_ratio", formula="the same operations", unit="ratio", predicted=1.0)
        rows = (*rows, same)
    return Forecast(predictions=rows)


def table(record: Record) -> Table:
    """The table that every record has."""
    columns, rows = record_text.table(record, KIND.words.marks)
    return Table(columns=columns, rows=tuple(rows))


EXPERIMENT = TrainingExperiment(
    kind=KIND,
    name="template",
    page="draft",  # change: the page of the tutorial, and both titles
    title="One update from the whole batch, or from two halves of it",
    title_zh="一次更新：整批计算，或分成两半",
    workloads=WORKLOADS,
    worker="experiments.kinds.training_step.template.worker",
    candidates=candidates,
    conclude=conclude,
    sentences=SENTENCES,
    table=table,
    forecast=forecast,
    look_at="what each loss is divided by, and which gradients were compared",
)

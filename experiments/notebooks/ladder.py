"""Before anything runs: what candidates will hold on a card (section 4), and what would fit a smaller one (5.1).

The ladder goes down from the default workload, a shorter sequence first, then fewer rows. Every rung is a workload of
its own: it gets a run label of its own, and its numbers are never put beside the default's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.evidence.quantities import GIB, gib
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Options
from experiments.kinds.training_step.heads import with_heads
from experiments.kinds.training_step.ledger.ledger_fit import FitRow, fit
from experiments.kinds.training_step.training_experiment import ForecastRequest, TrainingExperiment
from experiments.kinds.training_step.training_workload import TrainingWorkload, shorter
from experiments.models import registered_config
from experiments.models.registered_config import DecoderShape
from experiments.notebooks.markdown import table

ANY_CARD = DeviceFacts(kind="cuda", torch=None, bf16_native=True, tf32=True)  # what a card may be able to do
START, REGISTERED = "default", "fit-8gib"


@dataclass(frozen=True, slots=True)
class Rung:
    """One workload of the ladder and how its candidates stand on the card."""

    workload: TrainingWorkload
    registered: bool
    rows: tuple[FitRow, ...]

    @property
    def predicted(self) -> tuple[FitRow, ...]:
        """The candidates the ledger knows; somebody else's code is not predicted."""
        return tuple(row for row in self.rows if row.ledger is not None)

    @property
    def short(self) -> tuple[FitRow, ...]:
        """The candidates that do not surely fit."""
        return tuple(row for row in self.predicted if row.verdict != "fits")

    @property
    def choice(self) -> str:
        """The LADDER line that runs it."""
        if self.registered:
            return f'LADDER = {{"workload": "{self.workload.name}"}}'
        knobs = f'"sequence": {self.workload.sequence}, "batch": {self.workload.batch}'
        return f'LADDER = {{"workload": "{START}", {knobs}}}'


def rows_of(experiment: TrainingExperiment, workload: TrainingWorkload, memory_gib: float) -> tuple[FitRow, ...]:
    """The ledger's row for each candidate of a workload on a card. Raises LabError for what is no step of the model."""
    shape = registered_config.shape(registered_config.config(workload.model), workload.model)
    specs = with_heads(experiment.candidates(workload, ANY_CARD, Options()), workload)
    return fit(workload, specs, shape, memory_gib * GIB)


def rungs(experiment: TrainingExperiment, memory_gib: float) -> Iterator[Rung]:
    """The default workload, the smaller registered one if any, then step by step down to where every candidate fits."""
    start, small = experiment.workloads[START], experiment.workloads.get(REGISTERED)
    for registered in (start, small) if small is not None else (start,):
        yield Rung(registered, True, rows_of(experiment, registered, memory_gib))
    step, short = shorter(start), True
    while step is not None and short:
        rung = Rung(step, False, rows_of(experiment, step, memory_gib))
        if small is None or (step.batch, step.sequence) != (small.batch, small.sequence):
            yield rung
        step, short = shorter(step), bool(rung.short)


def as_table(found: Sequence[Rung], memory_gib: float) -> str:
    """One line for each rung: size, how many candidates fit, which do not, and how to choose it."""
    head = ("workload", "batch x sequence", f"fit on {memory_gib:g} GiB", "largest needs", "do not fit", "to take it")
    rows = []
    for rung in found:
        known = rung.predicted
        needs = max((row.card_gib for row in known if row.card_gib is not None), default=None)
        rows.append(
            (
                rung.workload.name if rung.registered else f"{START}, smaller",
                f"{rung.workload.batch} x {rung.workload.sequence}",
                f"{len(known) - len(rung.short)} of {len(known)}",
                "" if needs is None else f"a card of {needs:.1f} GiB",
                ", ".join(row.candidate for row in rung.short),
                f"`{rung.choice}`",
            )
        )
    return table(head, rows)


def prediction(experiment: TrainingExperiment, workload: TrainingWorkload) -> str:
    """What each candidate will hold on a card beside the CUDA context, and what operations say of its step's length."""
    shape = registered_config.shape(registered_config.config(workload.model), workload.model)
    specs = {spec.name: spec for spec in with_heads(experiment.candidates(workload, ANY_CARD, Options()), workload)}
    ratios = {name: _step_ratio(experiment, workload, spec, shape) for name, spec in specs.items()}
    head = ["candidate", "after forward GiB", "peak GiB", "where", "needs a card of"]
    timed = any(ratios.values())
    rows = []
    for row in fit(workload, specs.values(), shape, float("inf")):
        if row.ledger is None or row.card_gib is None:
            cells = ["not predicted", "", "", ""]
        else:
            ledger = row.ledger
            where = ledger.peak_phase.replace("_", " ") + (
                " of the head" if ledger.head_limited and ledger.peak_phase == "backward" else ""
            )
            cells = [gib(ledger.after_forward), gib(ledger.peak), where, f"{row.card_gib:.1f} GiB"]
        rows.append([row.candidate, *cells, *([ratios[row.candidate]] if timed else [])])
    return table([*head, *(["step, by operations"] if timed else [])], rows)


def _step_ratio(
    experiment: TrainingExperiment, workload: TrainingWorkload, spec: CandidateSpec, shape: DecoderShape
) -> str:
    request = ForecastRequest(spec=spec, workload=workload, shape=shape, device=ANY_CARD, calibration=None)
    found = [row.predicted for row in experiment.forecast(request).predictions if row.quantity == "step_ratio"]
    return f"{found[0]:.3f} x" if found else ""

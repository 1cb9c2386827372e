"""An experiment whose repetition is a training step: what its page says of numerics and of formulas besides.

Its worker module exposes `build(context: WorkerContext) -> Program`, the step to be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from experiments.evidence.candidate import Numerics
from experiments.evidence.record import Calibration
from experiments.harness.experiment import Answer, AnyExperiment, CandidateSpec, DeviceFacts, Experiment, Forecast
from experiments.kinds.training_step.answers import GateAnswer
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.models.registered_config import DecoderShape
from tools.environments.errors import LabError


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """Everything a formula may look at before the candidate has run. `calibration` is None on CPU."""

    spec: CandidateSpec
    workload: TrainingWorkload
    shape: DecoderShape
    device: DeviceFacts
    calibration: Calibration | None
    transferred_bytes: int | None = None  # counted while it ran: a transfer floor needs it; None before


def formats_seen(spec: CandidateSpec, gate: GateAnswer | None, probes: Mapping[str, Answer]) -> Numerics | None:
    """The number formats that the gate saw, for an experiment whose subject is not precision."""
    return None if gate is None else Numerics(dtypes=gate.dtypes, underflow_share=None)


def no_forecast(request: ForecastRequest) -> Forecast:
    """For an experiment that predicts nothing yet."""
    return Forecast()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingExperiment(Experiment[TrainingWorkload]):
    """One page's experiment on a training step."""

    # given the gate's answer and the probes' by name
    numerics: Callable[[CandidateSpec, GateAnswer | None, Mapping[str, Answer]], Numerics | None] = formats_seen
    told_in_numerics: frozenset[str] = frozenset()  # probes whose answer `numerics` tells: not recorded a second time
    forecast: Callable[[ForecastRequest], Forecast] = no_forecast
    look_at: str = "random state, in-place changes, saved tensors, and which gradients were compared"


def of_this_kind(experiment: AnyExperiment) -> TrainingExperiment:
    """The same experiment. Raises LabError for one whose repetition is no training step."""
    if not isinstance(experiment, TrainingExperiment):
        raise LabError(
            wanted="a TrainingExperiment, which says what its page makes of numerics and formulas",
            found=f"{type(experiment).__name__}, of kind {experiment.kind.word}",
            next=f"make EXPERIMENT of {experiment.name} one, or give it another kind",
            where=experiment.name,
        )
    return experiment

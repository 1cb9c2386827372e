"""What an experiment is: its workloads by name, its candidates, where its worker code lies, what it concludes.

One folder under experiments/<topic>/<name>/ with an `experiment.py` exposing `EXPERIMENT` is a whole experiment. That
module is imported to list and to plan, so it may not import torch; everything that needs torch lies in the module
that `worker` names, which is imported once by the parent (it may not run a torch operation at import) and used in the
forked children only.

The worker module exposes
- `build(context: harness.worker.WorkerContext) -> harness.program.Program`: the step to be measured;
- `PROBES: Mapping[str, Callable[[WorkerContext], dict]]`, if any: one-off questions such as an injected overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from experiments.evidence.candidate import Candidate, Floor, Numerics, Prediction
from experiments.evidence.conclusion import Claim, Comparison, Decision
from experiments.evidence.record import Calibration, Record
from experiments.evidence.runtime import Device
from experiments.evidence.vocabulary import JsonValue, Role
from experiments.kinds.training_step.training_workload import Workload
from experiments.models.registered_config import DecoderShape

DeviceKind = Literal["cpu", "cuda"]
Head = Literal["full", "chunked"]
Json = Mapping[str, JsonValue]
Answer = Mapping[str, Any]  # what a task in a child came back with, JSON values


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What a child found out about the device; the parent never asks it itself. None where unknown."""

    kind: DeviceKind
    torch: str | None  # torch.__version__
    torch_cuda: str | None = None
    cudnn: str | None = None
    driver: str | None = None
    bf16_native: bool  # hardware and PyTorch both say so; on CPU: the operation exists
    tf32: bool  # TF32 tensor cores: compute capability 8.0 or higher
    context_bytes: int | None = None  # what a process holds on the card before its first tensor
    card: Device | None = None  # None on CPU


@dataclass(frozen=True, slots=True)
class CandidateSpec:
    """One way of doing the workload. `settings` is all the worker needs to build it; JSON values only.

    `unavailable` says why it cannot run on this device: it is then recorded as skipped, with that reason.
    `dtype` is the widest-error number format it computes in: the gradient gate's bound follows from it.
    One that is not `timed` goes through its gates only: how long a wrong control takes tells nobody anything.
    """

    name: str
    role: Role
    settings: Json
    dtype: str = "float32"
    probes: tuple[str, ...] = ()
    unavailable: str | None = None
    timed: bool = True
    most_rounds: int | None = None  # fewer than the workload's, for one so slow that a round says enough


@dataclass(frozen=True, slots=True)
class Options:
    """What a user asked of an experiment beyond its workload."""

    cap_gib: float | None = None  # memory cap, CUDA context included
    peer_path: str | None = None  # somebody else's implementation, loaded for comparison


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """Everything a formula may look at before the candidate has run. `calibration` is None on CPU."""

    spec: CandidateSpec
    workload: Workload
    shape: DecoderShape
    device: DeviceFacts
    calibration: Calibration | None
    transferred_bytes: int | None = None  # counted while it ran: a transfer floor needs it; None before


@dataclass(frozen=True, slots=True)
class Forecast:
    """What formulas say about one candidate: predictions (measured and residual still empty) and floors."""

    predictions: tuple[Prediction, ...] = ()
    floors: tuple[Floor, ...] = ()


@dataclass(frozen=True, slots=True)
class Observed:
    """What the run found out, for an experiment's own conclusions: all of it stands in the record."""

    workload: Workload
    device: DeviceFacts
    candidates: tuple[Candidate, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def probes(self) -> Mapping[tuple[str, str], Answer]:
        """(candidate, probe) -> answer. None are known of a record that was written before it held them."""
        return {(one.name, probe): answer for one in self.candidates for probe, answer in (one.probes or {}).items()}

    def candidate(self, name: str) -> Candidate | None:
        """The candidate of that name, if it took part."""
        return next((candidate for candidate in self.candidates if candidate.name == name), None)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows for the terminal, drawn from the record alone."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def formats_seen(spec: CandidateSpec, gate: Answer | None, probes: Mapping[str, Answer]) -> Numerics | None:
    """The number formats that the gate saw, for an experiment whose subject is not precision."""
    return None if gate is None else Numerics(dtypes=gate["dtypes"], underflow_share=None)


def no_forecast(request: ForecastRequest) -> Forecast:
    """For an experiment that predicts nothing yet."""
    return Forecast()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One page's experiment. Every field is data or a pure function."""

    name: str  # the folder's name
    page: str  # page of the tutorial
    title: str
    title_zh: str
    workloads: Mapping[str, Workload]  # smoke, default, fit-8gib, large
    worker: str  # module with `build` and `PROBES`
    candidates: Callable[[Workload, DeviceFacts, Options], tuple[CandidateSpec, ...]]  # the baseline's twin is added
    conclude: Callable[[Observed], tuple[tuple[Claim, ...], Decision]]
    table: Callable[[Record], Table]
    picture: Callable[[Record, Path], Path] | None = None  # draws into the run folder, returns the file
    # given the gate's answer and the probes' by name
    numerics: Callable[[CandidateSpec, Answer | None, Mapping[str, Answer]], Numerics | None] = formats_seen
    told_in_numerics: frozenset[str] = frozenset()  # probes whose answer `numerics` tells: not recorded a second time
    forecast: Callable[[ForecastRequest], Forecast] = no_forecast
    look_at: str = "random state, in-place changes, saved tensors, and which gradients were compared"

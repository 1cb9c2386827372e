"""What an experiment is: its workloads by name, its candidates, where its worker code lies, what it concludes.

One folder under experiments/<topic>/<name>/ with an `experiment.py` exposing `EXPERIMENT` is a whole experiment. That
module is imported to list and to plan, so it may not import torch; everything that needs torch lies in the module
that `worker` names, which is imported once by the parent (it may not run a torch operation at import) and used in the
forked children only.

What the worker module exposes for building a candidate is for its kind to say. For one-off questions, such as an
injected overflow, it has `PROBES: Mapping[str, Callable[[TaskContext], Mapping[str, JsonValue]]]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from experiments.evidence.candidate import Candidate, Floor, Prediction
from experiments.evidence.conclusion import Claim, Comparison, Decision
from experiments.evidence.record import Record
from experiments.evidence.runtime import Device
from experiments.evidence.sentences import Templates, merged
from experiments.evidence.vocabulary import JsonValue, Role
from experiments.harness.measured_workload import WorkloadT

if TYPE_CHECKING:
    from experiments.harness.kind import Kind

DeviceKind = Literal["cpu", "cuda"]
Json = Mapping[str, JsonValue]
Answer = Mapping[str, Any]  # what a probe came back with, JSON values


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
    `dtype` is the widest-error number format it computes in: the bounds of its gates follow from it.
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
class Forecast:
    """What formulas say about one candidate: predictions (measured and residual still empty) and floors."""

    predictions: tuple[Prediction, ...] = ()
    floors: tuple[Floor, ...] = ()


@dataclass(frozen=True, slots=True)
class Observed(Generic[WorkloadT]):
    """What the run found out, for an experiment's own conclusions: all of it is in the record."""

    workload: WorkloadT
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Generic[WorkloadT]):
    """One page's experiment. Every field is data or a pure function. A kind that asks for more derives from it."""

    kind: Kind[WorkloadT, Any, Any, Any]
    name: str  # the folder's name
    page: str  # page of the tutorial
    title: str
    title_zh: str
    workloads: Mapping[str, WorkloadT]  # smoke, default, fit-8gib, large
    worker: str  # module that builds the candidates, and has `PROBES` if there are any
    # the baseline's twin is added
    candidates: Callable[[WorkloadT, DeviceFacts, Options], tuple[CandidateSpec, ...]]
    conclude: Callable[[Observed[WorkloadT]], tuple[tuple[Claim, ...], Decision]]
    table: Callable[[Record], Table]
    picture: Callable[[Record, Path], Path] | None = None  # draws into the run folder, returns the file
    sentences: Templates = field(default_factory=dict)  # its own templates, by codes that the kind's lack
    takes_peer: bool = False  # whether --peer-path says where one of its candidates is found
    look_at: str = "random state, in-place changes, saved tensors, and which values were compared"

    def __post_init__(self) -> None:
        """Raises ValueError where one of its templates has the code of one of the kind's."""
        self.templates()

    def templates(self) -> Templates:
        """Everything it may say, by code: the templates of its kind and its own."""
        return merged(self.kind.sentences, self.sentences)


AnyExperiment: TypeAlias = Experiment[Any]

"""What a kind of measurement owns, and what the engine asks of it: the whole protocol, in the order of a run.

The engine forks, keeps the journal, orders the rounds, adds the baseline's twin, compares, grades and writes; what one
repetition is, which numbers it yields and what has to hold before one counts, it asks here. A kind is one folder
`experiments/kinds/<word>/` whose `kind.py` exposes `KIND`, an instance of a class below `Kind`. That module is imported
to list and to plan, so it imports no torch; what needs torch is in the module that `child` names (see `child_side`).

    class Collective(Kind[CollectiveWorkload, None, GateAnswer, MeasureAnswer]): ...

The four types are the kind's own: its frozen workload, its subject (what is measured: a model, or None where there is
nothing to find first), and the frozen dataclasses that a gate and a measuring process answer with.
"""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from experiments.evidence.candidate import Candidate, Checks, Failure, Memory, Numerics, Sample
from experiments.evidence.codec import from_json, to_json
from experiments.evidence.record import Calibration, Launch, Record
from experiments.evidence.sentences import Templates
from experiments.evidence.subject import Backend, Model, Workload
from experiments.evidence.vocabulary import Role
from experiments.harness import run_again
from experiments.harness.experiment import Answer, CandidateSpec, Experiment, Forecast, Json, Options
from experiments.harness.kind_options import KindOption
from experiments.harness.kind_words import KindWords
from experiments.harness.launch.outcome import RANK_LIMIT_S
from experiments.harness.measured_workload import MeasuredWorkload, WorkloadT, check_repetition
from tools.environments.errors import LabError

if TYPE_CHECKING:
    from experiments.harness.plan import Plan
    from experiments.harness.schedule import Task

SubjectT = TypeVar("SubjectT")
GateT = TypeVar("GateT")
MeasureT = TypeVar("MeasureT")


class SubjectRequest(ABC, Generic[SubjectT]):
    """What a command line asks to be measured, not yet looked for."""

    @property
    def downloads(self) -> str | None:
        """The hub id of what `resolve` would download; None where it downloads nothing."""
        return None

    @abstractmethod
    def resolve(self) -> SubjectT:
        """Find it. Raises LabError."""


class NothingToFind(SubjectRequest[None]):
    """For a kind that measures what it makes itself, such as numbers drawn from the workload's seed."""

    def resolve(self) -> None:
        """There is nothing to look for."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[GateT]):
    """One task's answer: rank 0's, and that of every rank, rank 0 among them. One process is one rank."""

    task: Task
    answer: GateT
    ranks: tuple[GateT, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Generic[WorkloadT, SubjectT, GateT, MeasureT]):
    """Everything the tasks of one candidate came back with. What a task that failed would have said is missing."""

    experiment: Experiment[WorkloadT]
    plan: Plan[WorkloadT]
    subject: SubjectT
    spec: CandidateSpec
    gate: Answered[GateT] | None
    measured: tuple[Answered[MeasureT], ...]  # in the order of the rounds
    probes: Mapping[str, Answer]
    calibration: Calibration | None
    twin: GateT | None  # what the baseline's twin answered: the A/A error, by the same measure as everybody else's


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a kind says of one candidate. A number that nobody measured stays None and never becomes 0."""

    samples: tuple[Sample, ...] = ()
    checks: Checks
    memory: Memory | None = None
    numerics: Numerics | None = None
    settings: Json = field(default_factory=dict)  # found out while it ran, such as the version of somebody else's code
    probes: Mapping[str, Answer] = field(default_factory=dict)  # answers that are not told in `numerics`
    failure: Failure | None = None  # of a candidate whose every task came to its end: numbers that are not finite


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What the record says of the subject. `workload` is the record's own class, `backend` whose code ran."""

    workload: Workload
    backend: Backend
    model: Model | None = None


class RecordedKind(ABC):
    """A kind as far as a record knows it: its words, and the command that measures the same again.

    That is all there is of one that `run` does not measure.
    """

    words: KindWords

    def __init__(self, words: KindWords) -> None:
        self.words = words

    @property
    def word(self) -> str:
        """How records and plans call it."""
        return self.words.kind

    def refuse_unsound(self) -> None:
        """Raises LabError where the kind contradicts itself: a word twice, a gate wanted that nobody computes."""
        self.words.refuse_unsound()

    @abstractmethod
    def command(self, record: Record) -> str:
        """The command line that measures what a record did, under a label that is left to choose."""


class Kind(RecordedKind, Generic[WorkloadT, SubjectT, GateT, MeasureT]):
    """One kind of measurement. What has a default here is what most kinds do."""

    # Data
    workload: type[WorkloadT]  # frozen, below MeasuredWorkload; never widened once a record exists
    gate_answer: type[GateT]
    measure_answer: type[MeasureT]
    child: str  # module whose CHILD is the kind's `ChildSide`; the only part that may import torch
    options: ClassVar[tuple[KindOption, ...]] = ()  # what `run` takes for this kind, besides what it takes for all
    sentences: ClassVar[Templates] = {}  # what its experiments say alike, as templates by code
    ratios: ClassVar[Mapping[str, str]] = {}  # a predicted ratio to the baseline -> the quantity it is the ratio of
    rank_limit_s: ClassVar[float] = RANK_LIMIT_S  # a rank that dies or hangs ends the others within it
    leaves: ClassVar[str] = "what one task of the run leaves for another"  # on the disk, while a run lasts

    def refuse_unsound(self) -> None:
        """Raises LabError where the kind contradicts itself: a word twice, a gate wanted that nobody computes."""
        roles: tuple[Role, ...] = ("baseline", "baseline_again", "candidate", "control")
        self.words.refuse_unsound({role: self.wanted(role) for role in roles})

    # The command line

    def knobs_of(self, args: argparse.Namespace) -> Mapping[str, object]:
        """The knobs that the kind's options change; None leaves one as registered."""
        return {}

    @abstractmethod
    def asked(self, args: argparse.Namespace, workload: WorkloadT) -> SubjectRequest[SubjectT]:
        """What is to be measured. Raises LabError (usage) for an option that means nothing here."""

    def command(self, record: Record) -> str:
        """The command line that measures what a record did, under a label that is left to choose."""
        return run_again.command(record, self.asked_again(record))

    def asked_again(self, record: Record) -> list[str]:
        """The kind's options in that command: each knob that has an option of its name."""
        return run_again.knobs(record, self.options)

    # Workloads

    def check(self, workload: WorkloadT, subject: SubjectT, options: Options) -> None:
        """Refuse what can be known to fail: a workload out of bounds, a cap that is too small. Raises LabError."""
        check_repetition(workload)

    def refuse_foreign(self, workload: MeasuredWorkload, experiment: str) -> None:
        """Raises LabError for a workload of another kind, which `experiment` registers."""
        if not isinstance(workload, self.workload):
            raise LabError(
                wanted=f"a workload of kind {self.word}: {self.workload.__name__}",
                found=type(workload).__name__,
                next=f"register a workload of {self.word} in {experiment}, or give it another kind",
                where=f"{experiment}, workload {workload.name}",
            )

    def workload_from(self, name: str, knobs: Mapping[str, object]) -> WorkloadT:
        """Read a workload back from a plan's or a record's knobs. Raises LabError for one of another kind."""
        try:
            return from_json(self.workload, {"name": name, **to_json(knobs)}, "workload")
        except LabError as error:
            raise LabError(
                wanted=f"a workload of kind {self.word}: {error.wanted}",
                found=error.found,
                next="name a run or a record of that kind, or update this checkout: git pull",
                where=error.where,
            ) from error

    def smaller(self, workload: WorkloadT) -> WorkloadT | None:
        """The next step down the ladder after an out-of-memory; None at its end, or where there is no ladder."""
        return None

    def as_options(self, workload: WorkloadT) -> str:
        """The options that ask for such a smaller workload."""
        return ""

    # Before a run, in the parent

    @abstractmethod
    def wanted(self, role: Role) -> tuple[str, ...]:
        """The gates that must have been run on a candidate of that role before a number of it counts."""

    def launch(self, workload: WorkloadT) -> Launch:
        """How the gates and the measuring of a candidate are launched; every other task is one process."""
        return Launch()

    def references(self, workload: WorkloadT) -> tuple[CandidateSpec, ...]:
        """What is computed once before the gates, for all to be compared with; each is one task."""
        return ()

    def vary(self, specs: tuple[CandidateSpec, ...], workload: WorkloadT) -> tuple[CandidateSpec, ...]:
        """The candidates, the baseline's twin among them, in every form the workload asks for."""
        return specs

    def threads(self, subject: SubjectT) -> int:
        """Threads of each process."""
        return 1

    def title(self, subject: SubjectT) -> str:
        """The subject in one word for the line that says what runs; empty where there is none."""
        return ""

    def keep(self, subject: SubjectT, workload: WorkloadT) -> Json:
        """What the journal keeps of the subject, on this machine alone: enough to find it again and to describe it."""
        return {}

    @abstractmethod
    def again(self, plan: Plan[WorkloadT]) -> SubjectT:
        """The subject of an interrupted run, found again. Raises LabError where it is no longer the same."""

    def still_there(self, task: Task, scratch: Path) -> bool:
        """Whether what a finished reference, or the baseline's gate, left for others is whole: asked on resuming."""
        return True

    # After a run, in the parent: pure functions of what the children answered

    @abstractmethod
    def described(self, plan: Plan[WorkloadT], subject: SubjectT) -> Described:
        """What the record says of the subject, its workload, and whose code ran."""

    @abstractmethod
    def findings(self, seen: Seen[WorkloadT, SubjectT, GateT, MeasureT]) -> Findings:
        """What the record says of one candidate."""

    def forecast(self, seen: Seen[WorkloadT, SubjectT, GateT, MeasureT], memory: Memory | None) -> Forecast:
        """What formulas say of it; the engine puts what was measured beside them."""
        return Forecast()

    def marks(self, seen: Seen[WorkloadT, SubjectT, GateT, MeasureT], candidate: Candidate) -> tuple[str, ...]:
        """What a reader has to know before the numbers of a candidate that ran."""
        return ()


class KindWithoutSubject(Kind[WorkloadT, None, GateT, MeasureT]):
    """A kind that measures what it makes itself: there is nothing to find first, nor to find again, and no model."""

    def asked(self, args: argparse.Namespace, workload: WorkloadT) -> NothingToFind:
        """Nothing but the workload, so that all that is wrong with it can be said before anything is installed."""
        self.check(workload, None, Options())
        return NothingToFind()

    def again(self, plan: Plan[WorkloadT]) -> None:
        """Nothing to find again."""

    def described(self, plan: Plan[WorkloadT], subject: None) -> Described:
        """The workload without batch or tokens, in the number format of the baseline, and PyTorch as the backend."""
        workload = plan.workload
        return Described(
            workload=Workload(
                name=workload.name,
                registered_digest=plan.registered_digest,
                digest=workload.digest(),
                knobs=workload.knobs(),
                dtype=next((spec.dtype for spec in plan.specs if spec.role == "baseline"), None),
            ),
            backend=Backend(version=plan.device.torch, threads=plan.threads),
        )


AnyKind = Kind[Any, Any, Any, Any]

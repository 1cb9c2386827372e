"""A kind of measurement as small as one can be: two ranks add integers of their own, and nothing of it is a training.

For tests of the engine, which must not know more of a kind than this one has.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from sample_plans import CPU, DIGEST

from experiments.evidence.candidate import Checks, Gate, Sample
from experiments.evidence.conclusion import Decision
from experiments.evidence.record import Launch, Quantity, Record
from experiments.evidence.subject import Backend, ProfileFacts, Workload
from experiments.evidence.vocabulary import Role
from experiments.harness import preparing
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Experiment, Observed, Options, Table
from experiments.harness.kind import Described, Findings, Kind, Seen, SubjectRequest
from experiments.harness.kind_options import KindOption
from experiments.harness.kind_words import KindWords
from experiments.harness.measured_workload import MeasuredWorkload
from experiments.harness.plan import Plan
from experiments.harness.preparing import FoundSubject, Prepared, RunRequest
from tools.environments.model import Check, Report

WORDS = KindWords(
    kind="adding",
    quantities=(Quantity(word="call_ms", unit="ms", better="lower", main=True),),
    phases=("add",),
    claims=("exact",),
    gates=("sum",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddingWorkload(MeasuredWorkload):
    """So many integers, from so many ranks."""

    numbers: int = 4
    ranks: int = 2


@dataclass(frozen=True, slots=True)
class Sum:
    """What a rank found in its gate."""

    rank: int
    found: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Timed:
    """What a rank measured."""

    call_ms: tuple[float, ...]


class NoSubject(SubjectRequest[None]):
    """Nothing has to be found before integers are added."""

    def resolve(self) -> None:
        """Nothing."""


class AddingKind(Kind[AddingWorkload, None, Sum, Timed]):
    """One repetition is one sum over the ranks."""

    workload = AddingWorkload
    gate_answer = Sum
    measure_answer = Timed
    child = "toy_child"
    options: ClassVar[tuple[KindOption, ...]] = (
        KindOption("--numbers", type=int),
        KindOption("--precision", choices=("int32", "int64")),
    )

    def knobs_of(self, args: argparse.Namespace) -> Mapping[str, object]:
        """How many."""
        return {"numbers": args.numbers}

    def asked(self, args: argparse.Namespace, workload: AddingWorkload) -> NoSubject:
        """Nothing."""
        return NoSubject()

    def launch(self, workload: AddingWorkload) -> Launch:
        """As many ranks as the workload says."""
        return Launch(type="ranks", ranks=workload.ranks)

    def wanted(self, role: Role) -> tuple[str, ...]:
        """Exact sums, of everybody."""
        return ("finite", "sum")

    def again(self, plan: Plan[AddingWorkload]) -> None:
        """Nothing."""

    def described(self, plan: Plan[AddingWorkload], subject: None) -> Described:
        """No model, no batch, no tokens."""
        work = plan.workload
        told = Workload(
            name=work.name, registered_digest=plan.registered_digest, digest=work.digest(), knobs=work.knobs()
        )
        return Described(workload=told, backend=Backend(name="pytorch", version=plan.device.torch))

    def findings(self, seen: Seen[AddingWorkload, None, Sum, Timed]) -> Findings:
        """Samples of rank 0, and one gate over all ranks."""
        workload = seen.plan.workload
        wanted = tuple(number * (10**workload.ranks - 1) // 9 for number in range(workload.numbers))
        gates = {}
        if seen.gate is not None:
            wrong = sum(one.found != wanted for one in seen.gate.ranks)
            gates["sum"] = Gate(
                passed=wrong == 0, against="closed form", error=float(wrong), tolerance=0.0, tensors=workload.ranks
            )
        samples = [
            Sample(round=one.task.round or 0, position=one.task.position or 0, step=step, values={"call_ms": value})
            for one in seen.measured
            for step, value in enumerate(one.answer.call_ms)
        ]
        checks = Checks(finite=None if seen.gate is None else True, wanted=self.wanted(seen.spec.role), gates=gates)
        return Findings(samples=tuple(samples), checks=checks)


KIND = AddingKind(WORDS)


def candidates(workload: AddingWorkload, device: DeviceFacts, options: Options) -> tuple[CandidateSpec, ...]:
    """The sum, and one whose second rank does what its settings say instead."""
    return (
        CandidateSpec(name="all_reduce", role="baseline", settings={}),
        CandidateSpec(name="one that dies", role="candidate", settings={"rank 1": "dies"}),
    )


def conclude(observed: Observed[AddingWorkload]) -> tuple[tuple[Any, ...], Decision]:
    """Nothing but that it ran."""
    return (), Decision(code="numerics_ok", sentence="Integers were added.")


def table(record: Record) -> Table:
    """One row."""
    return Table(columns=("candidate",), rows=tuple((one.name,) for one in record.candidates))


SMOKE = AddingWorkload(name="smoke", steps=3, warmup=1, rounds=2)
EXPERIMENT = Experiment(
    kind=KIND,
    name="adding_integers",
    page="none",
    title="Adding integers",
    title_zh="整数相加",
    workloads={"smoke": SMOKE},
    worker="toy_child",
    candidates=candidates,
    conclude=conclude,
    table=table,
)


def request(workload: MeasuredWorkload = SMOKE, experiment: Experiment[Any] = EXPERIMENT) -> RunRequest:
    """A run of it on this CPU."""
    return RunRequest(
        experiment=experiment,
        mode="cpu_mechanism",
        workload=workload,
        registered_digest=SMOKE.digest(),
        subject=NoSubject(),
        options=Options(),
        label="sample",
    )


def prepared(asked: RunRequest | None = None) -> Prepared:
    """The run, planned."""
    report = Report(profile="TRAIN-CPU", registry_digest=DIGEST, checks=(Check("host.python", "ok", "3.11", "3.11"),))
    facts = ProfileFacts(id="TRAIN-CPU", registry_digest=DIGEST, requirement_digest=DIGEST, preflight=report)
    asked = asked or request()
    found = preparing.resolve(asked)
    assert found == FoundSubject(None)
    return preparing.prepare(asked, facts, found, "tests/support", lambda text: None, CPU)


def folder_of(root: Path) -> Path:
    """A run folder for it."""
    folder = root / EXPERIMENT.name / "sample"
    folder.mkdir(parents=True)
    return folder


def without(kind: AddingKind, **words: Any) -> AddingKind:
    """The kind with other words."""
    return type(kind)(replace(kind.words, **words))

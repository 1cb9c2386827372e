"""The plan of a run: everything that decides what is measured, as one value that begins the journal.

A resumed run reads it back and goes on; whatever must not have changed in between (subject, sources, torch, device) is
compared here, and the first difference stops it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic

from experiments.evidence.codec import from_json, to_json
from experiments.evidence.subject import ProfileFacts, Source
from experiments.evidence.vocabulary import NAME_PATTERN, JsonValue, RunMode
from experiments.harness.experiment import CandidateSpec, DeviceFacts, Json, Options
from experiments.harness.measured_workload import MeasuredWorkload, WorkloadT, check_samples
from experiments.harness.schedule import Task, tasks
from tools.environments.errors import LabError

if TYPE_CHECKING:
    from experiments.harness.kind import AnyKind

FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """Everything of a plan that is the same for every kind."""

    format: int = FORMAT
    kind: str  # the kind's word
    experiment: str
    label: str
    mode: RunMode
    created_at: str
    profile: ProfileFacts
    source: Source
    registered_digest: str | None
    subject: Json  # what the kind keeps of what is measured, with paths: the record never has them
    device: DeviceFacts
    options: Options
    references: tuple[CandidateSpec, ...]  # computed once, for the candidates to be compared with
    specs: tuple[CandidateSpec, ...]
    threads: int
    order_seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(_Decided, Generic[WorkloadT]):
    """One run, decided. `subject` and `peer_path` stay in the journal on this machine; the record never has them."""

    workload: WorkloadT

    def tasks(self) -> tuple[Task, ...]:
        """Every task, in the order of this run."""
        return tasks(
            self.specs,
            self.references,
            rounds=self.workload.rounds,
            seed=self.order_seed,
            calibrate=self.device.kind == "cuda",
        )

    def spec(self, name: str) -> CandidateSpec:
        """The candidate, or the reference, of that name. Raises KeyError."""
        found = {spec.name: spec for spec in (*self.references, *self.specs)}
        return found[name]

    def to_json(self) -> dict[str, JsonValue]:
        """Plain values for the journal."""
        written: dict[str, JsonValue] = to_json(self, "plan")
        return written


def read(value: object, kind: AnyKind) -> Plan[Any]:
    """The plan at the head of a journal of that kind. Raises LabError when this version cannot go on with it."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise LabError(
            wanted="a run that this version began",
            found="one of another version",
            next="finish it with the version that began it, or begin again under a new --run-label",
            where="--resume",
        )
    try:
        workload = value.get("workload")
        if not isinstance(workload, dict):
            raise LabError("the field workload", "no such object", "", "plan")
        decided = from_json(_Decided, {name: item for name, item in value.items() if name != "workload"}, "plan")
        if decided.kind != kind.word:
            raise LabError(f"a plan of kind {kind.word}", decided.kind, "", "plan.kind")
        knobs = {name: item for name, item in workload.items() if name != "name"}
        read_back = kind.workload_from(str(workload.get("name")), knobs)
    except LabError as error:
        raise LabError(
            wanted="a run whose plan is whole",
            found=f"{error.where}: {error.found}",
            next="begin again under a new --run-label",
            where="--resume",
        ) from error
    return Plan(workload=read_back, **{field.name: getattr(decided, field.name) for field in fields(_Decided)})


def refuse_unwritable(specs: Sequence[CandidateSpec], workload: MeasuredWorkload) -> None:
    """Refuse candidates whose record could not be written, before anything is measured. Raises LabError."""
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen or not re.search(NAME_PATTERN, spec.name):
            raise LabError(
                wanted="a name for each candidate: its own, on one line, of at most 120 characters",
                found=f"{spec.name[:60]!r}, {'taken twice' if spec.name in seen else f'{len(spec.name)} characters'}",
                next="take the registered workload, or one with fewer knobs changed; nothing was measured",
                where="the plan",
            )
        seen.add(spec.name)
    check_samples(workload, sum(1 for spec in specs if spec.timed and spec.unavailable is None))


def order_seed(label: str, created_at: str) -> int:
    """A seed for the order of the rounds that differs from run to run and is written down with it."""
    return int.from_bytes(hashlib.sha256(f"{label} {created_at}".encode()).digest()[:4], "big")


def refuse_changed(begun: Plan[Any], source: Source, device: DeviceFacts) -> None:
    """Raises LabError when sources, torch or device are no longer those the run began with."""
    pairs: dict[str, tuple[object, object]] = {
        "source digest": (begun.source.digest, source.digest),
        "torch": (begun.device.torch, device.torch),
        "CUDA build": (begun.device.torch_cuda, device.torch_cuda),
        "driver": (begun.device.driver, device.driver),
        "device": (_card(begun.device), _card(device)),
    }
    for what, (before, now) in pairs.items():
        if before != now:
            raise LabError(
                wanted=f"the {what} this run began with: {before}",
                found=str(now),
                next="go back to it, or begin again under a new --run-label; such samples are never put together",
                where="--resume",
            )


def _card(facts: DeviceFacts) -> str:
    if facts.card is None:
        return facts.kind
    return f"{facts.card.name} {(facts.card.uuid_hash or '')[:19]}".strip()

"""A run from its first task to its record: fork, write down, go on. Reads like the list of what happens."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.evidence import labels, store
from experiments.evidence.record import Record
from experiments.evidence.runtime import RuntimeSnapshot, Threads
from experiments.evidence.runtime_snapshot import collect
from experiments.harness import journal, recording
from experiments.harness import plan as plans
from experiments.harness.events import Listener
from experiments.harness.experiment import AnyExperiment
from experiments.harness.journal import Journal, Story
from experiments.harness.launch import doors
from experiments.harness.launch.outcome import DISK_FULL, Outcome
from experiments.harness.plan import Plan
from experiments.harness.preparing import Prepared
from experiments.harness.run_folder import SCRATCH, resume_command
from experiments.harness.schedule import Task
from tools.environments.errors import LabError

TIME_LIMIT_S = 900.0  # of one task: a hung driver call is a failure, not a hung run


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that has its record."""

    record: Record
    folder: Path


def begin(experiment: AnyExperiment, prepared: Prepared, folder: Path, hear: Listener) -> Finished:
    """A new run in a folder that was claimed for it."""
    with Journal.create(folder / journal.NAME, prepared.plan.to_json()) as book:
        return _run(experiment, prepared, folder, book, Story(plan={}), hear)


def resume(
    experiment: AnyExperiment, folder: Path, prepare_again: Callable[[Plan[Any]], Prepared], hear: Listener
) -> Finished:
    """Go on with an interrupted run: finished tasks are kept, the rest is done."""
    book, story = Journal.resume(folder / journal.NAME)
    with book:
        prepared = prepare_again(plans.read(story.plan, experiment.kind))
        hear.hear(
            {
                "event": "resumed",
                "label": prepared.plan.label,
                "done": len(story.finished),
                "tasks": len(prepared.plan.tasks()),
            }
        )
        return _run(experiment, prepared, folder, book, story, hear)


def plan_only(experiment: AnyExperiment, prepared: Prepared, folder: Path) -> Finished:
    """A dry run: the plan as a record, nothing executed."""
    made = recording.record(experiment, prepared.plan, prepared.subject, {}, collect(), resumed=0, duration_s=None)
    return Finished(record=store.write(made, folder / labels.RECORD_NAME), folder=folder)


def _run(
    experiment: AnyExperiment, prepared: Prepared, folder: Path, book: Journal, story: Story, hear: Listener
) -> Finished:
    began = time.perf_counter()
    plan, scratch = prepared.plan, folder / SCRATCH
    answers = dict(story.finished)
    tasks = plan.tasks()
    named = title(experiment, prepared)
    hear.hear({"event": "began", "title": named, "tasks": len(tasks), "done": len(answers), "label": plan.label})
    for task in tasks:
        if task.id in answers and not _reference_is_lost(experiment, task, tasks, answers, plan, scratch):
            continue
        if _pointless(task, answers, tasks):
            continue
        hear.hear({"event": "task_began", **task.to_json()})
        outcome = _fork(experiment, prepared, task, scratch)
        _refuse_full_disk(outcome, experiment, plan)
        book.finished(task.id, outcome, time.perf_counter() - began)
        answers[task.id] = outcome
        hear.hear({"event": "task_ended", **task.to_json(), **_told(outcome)})
    duration = story.elapsed_s + time.perf_counter() - began
    made = recording.record(
        experiment, plan, prepared.subject, answers, _snapshot(plan), resumed=_resumed(story), duration_s=duration
    )
    written = store.write(made, folder / labels.RECORD_NAME)
    book.completed(labels.RECORD_NAME)
    shutil.rmtree(scratch, ignore_errors=True)
    hear.hear({"event": "finished", "record": str(folder / labels.RECORD_NAME), "level": written.evidence_level})
    return Finished(record=written, folder=folder)


def title(experiment: AnyExperiment, prepared: Prepared) -> str:
    """One line that says what runs where."""
    plan, what = prepared.plan, experiment.kind.title(prepared.subject)
    where = plan.device.card.name if plan.device.card else plan.device.kind
    changed = "" if plan.registered_digest == plan.workload.digest() else ", changed"
    on = f"{what} on {where}" if what else where
    return f"{plan.experiment} · {plan.workload.name}{changed} · {on}"


def _fork(experiment: AnyExperiment, prepared: Prepared, task: Task, scratch: Path) -> Outcome:
    from experiments.harness.tasks import Job

    job = Job(
        task=task,
        plan=prepared.plan,
        subject=prepared.subject,
        scratch=scratch,
        child=experiment.kind.child,
        worker=experiment.worker,
    )
    kind = experiment.kind
    launch = kind.launch(prepared.plan.workload)
    return doors.run(job, launch, time_limit_s=TIME_LIMIT_S, rank_limit_s=kind.rank_limit_s)


def _reference_is_lost(
    experiment: AnyExperiment,
    task: Task,
    tasks: tuple[Task, ...],
    answers: dict[str, Outcome],
    plan: Plan[Any],
    scratch: Path,
) -> bool:
    """Whether a finished task has to be done again for the files it left: a resumed run with gates still to do."""
    if task.kind not in ("reference", "gate") or answers[task.id].status != "ok":
        return False
    if task.kind == "gate" and plan.spec(task.candidate).role != "baseline":
        return False
    if all(other.id in answers for other in tasks if other.kind == "gate"):
        return False
    return not experiment.kind.still_there(task, scratch)


def _pointless(task: Task, answers: dict[str, Outcome], tasks: tuple[Task, ...]) -> bool:
    """Whether the candidate has failed already: what would not fit once more is not tried once more."""
    if task.kind not in ("measure", "probe"):
        return False
    mine = (other for other in tasks if other.candidate == task.candidate and other.id in answers)
    return any(answers[other.id].status != "ok" for other in mine)


def _refuse_full_disk(outcome: Outcome, experiment: AnyExperiment, plan: Plan[Any]) -> None:
    if outcome.died is not None and outcome.died.kind == DISK_FULL:
        raise LabError(
            wanted=f"room on the disk for {experiment.kind.leaves}",
            found="the disk is full",
            next=f"free some space, then: {resume_command(plan.experiment, plan.label)}",
            where=f"runs/{plan.experiment}/{plan.label}",
        )


def _told(outcome: Outcome) -> dict[str, str | float | None]:
    message = None if outcome.died is None else outcome.died.message
    return {"status": outcome.status, "wall_s": round(outcome.wall_s, 2), "message": message}


def _snapshot(plan: Plan[Any]) -> RuntimeSnapshot:
    device = plan.device
    return collect(
        torch=device.torch,
        torch_cuda=device.torch_cuda,
        cudnn=device.cudnn,
        driver=device.driver,
        devices=() if device.card is None else (device.card,),
        threads=Threads(intra_op=plan.threads, inter_op=1),
    )


def _resumed(story: Story) -> int:
    return story.resumed + 1 if story.plan else 0

"""One run after the other, each with a record, a journal and an end of its own: one that fails costs no other."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from experiments.cli.printing import blocked, emit, say, status, table
from experiments.cli.run_prepare import Ready
from experiments.cli.run_report import picture, tell
from experiments.evidence import labels
from experiments.harness import journal, preparing, run_folder, session
from experiments.harness.events import Bar, JsonLines, Listener, Named, PlainLines, Silence
from experiments.harness.experiment import AnyExperiment
from experiments.harness.session import Finished
from tools.environments.errors import EXIT_BLOCKED, EXIT_INTERRUPTED, EXIT_OK, LabError, render

How = Literal["text", "json", "events"]  # what standard output holds


@dataclass(frozen=True, slots=True)
class End:
    """How one run ended. `told` is what --json says of it."""

    experiment: str
    label: str
    came_to: str  # the record's level, or why there is none
    code: int = EXIT_OK
    told: dict[str, Any] = field(default_factory=dict)


def alone(experiment: AnyExperiment, label: str, measure: Callable[[Listener], Finished], how: How) -> int:
    """Measure one run and say what came of it; returns the exit code. Raises LabError where it was refused."""

    def show(finished: Finished) -> None:
        if how != "events":
            tell(experiment, finished, as_json=how == "json")

    return _attempt(experiment, label, measure, show, how).code


def every(ready: Sequence[Ready], how: How) -> int:
    """Measure several runs in turn and say what came of each; returns the worst exit code."""
    ends: list[End] = []
    for place, one in enumerate(ready):
        if how == "text":
            say(f"{one.request.experiment.name} · {place + 1} of {len(ready)}")
        ends.append(_guarded(one, how, first=not ends))
        if how == "text":
            say()
        if ends[-1].code == EXIT_INTERRUPTED:
            ends += _not_begun(ready[place + 1 :], how)
            break
    if how == "json":
        emit([end.told for end in ends])
    elif how == "text":
        rows = [(end.experiment, end.label, status(end.came_to)) for end in ends]
        for line in table(("experiment", "run label", "came to"), rows, indent=""):
            say(line)
    return max(end.code for end in ends)


def measure(ready: Ready, listener: Listener, *, first: bool = True) -> Finished:
    """Measure a run that was prepared. One that had to wait for others is planned for now."""
    experiment, prepared = ready.request.experiment, ready.prepared
    if not first:
        prepared = preparing.at_its_turn(prepared)
    folder = run_folder.claim(experiment.name, ready.request.label)
    if ready.request.mode == "dry_run":
        return session.plan_only(experiment, prepared, folder)
    return session.begin(experiment, prepared, folder, listener)


def listener_of(how: How) -> Listener:
    """Who tells how a run is getting on: on standard error, or as events on standard output."""
    if how == "events":
        return JsonLines(sys.stdout)
    if how == "json":
        return Silence()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        try:
            return Bar()
        except ImportError:  # an environment without rich still measures
            return PlainLines(sys.stderr)
    return PlainLines(sys.stderr)


def _attempt(
    experiment: AnyExperiment,
    label: str,
    measure: Callable[[Listener], Finished],
    show: Callable[[Finished], None],
    how: How,
) -> End:
    """Measure one run to its end and show it; a Ctrl-C while it is measured is an end too."""
    listener = Named(listener_of(how), experiment.name)
    try:
        finished = measure(listener)
    except KeyboardInterrupt:
        listener.close()
        return _interrupted(experiment.name, label, listener)
    finally:
        listener.close()
    record = finished.record
    show(finished)
    level = record.evidence_level or "plan"
    return End(experiment.name, label, level, told=record.to_json() if how == "json" else {})


def _guarded(one: Ready, how: How, *, first: bool) -> End:
    """The same for one of several: no error but that of the output itself reaches the others."""
    experiment, label = one.request.experiment, one.request.label

    def show(finished: Finished) -> None:
        if how == "text":
            tell(experiment, finished, as_json=False)
        elif how == "json":
            picture(experiment, finished)

    try:
        return _attempt(experiment, label, lambda listener: measure(one, listener, first=first), show, how)
    except KeyboardInterrupt:  # while it was shown
        sys.stderr.write("interrupted. The record is written.\n")
        told = {"status": "interrupted", "experiment": experiment.name, "run_label": label}
        return End(experiment.name, label, "interrupted", EXIT_INTERRUPTED, told)
    except LabError as error:
        sys.stdout.flush()
        sys.stderr.write(render(error) + "\n")
        told = {**blocked(error), "experiment": experiment.name, "run_label": label}
        _event(how, experiment.name, {"event": "blocked", **blocked(error)})
        return End(experiment.name, label, "blocked", error.code, told)
    except OSError:
        raise
    except Exception as error:  # a defect of one experiment's own code: shown whole, and the next one is measured
        sys.stdout.flush()
        traceback.print_exc()
        told = {"status": "failed", "experiment": experiment.name, "run_label": label, "found": repr(error)[:200]}
        _event(how, experiment.name, {"event": "failed", "found": told["found"]})
        return End(experiment.name, label, "failed", EXIT_BLOCKED, told)


def _not_begun(rest: Sequence[Ready], how: How) -> list[End]:
    names = [one.request.experiment.name for one in rest]
    if names:
        sys.stderr.write(f"not begun: {', '.join(names)}\n")
        sys.stderr.write(f"run      python -m experiments run {' '.join(names)}, with the same options\n")
    for name in names:
        _event(how, name, {"event": "not_begun"})
    return [End(name, "", "not begun", told={"status": "not_begun", "experiment": name}) for name in names]


def _event(how: How, experiment: str, event: dict[str, Any]) -> None:
    if how == "events":
        Named(listener_of(how), experiment).hear(event)


def _interrupted(experiment: str, label: str, listener: Listener) -> End:
    told = {"status": "interrupted", "experiment": experiment, "run_label": label}
    path = labels.run_folder(experiment, label) / journal.NAME
    if not path.is_file():
        sys.stderr.write("interrupted before the first task; nothing was begun\n")
        return End(experiment, label, "interrupted", EXIT_INTERRUPTED, told)
    done = len(journal.read(path).finished)
    command = run_folder.resume_command(experiment, label)
    listener.hear({"event": "interrupted", "label": label, "done": done, "resume": command})
    sys.stderr.write(f"interrupted. {done} finished tasks are kept.\nresume   {command}\n")
    return End(experiment, label, "interrupted", EXIT_INTERRUPTED, {**told, "resume": command})

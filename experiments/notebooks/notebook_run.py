"""From the first cell to a record: the command that begins or goes on with a run, and the record it leaves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from experiments.evidence import labels, store
from experiments.evidence.record import Record
from experiments.harness import journal, run_folder
from experiments.harness.events import PlainLines
from experiments.harness.experiment import AnyExperiment
from experiments.notebooks import command_child
from experiments.notebooks.choices import Choices
from tools.environments.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, LabError

Command = Callable[[Sequence[str], command_child.Hear], command_child.Ended]


def begin(
    experiment: AnyExperiment,
    choices: Choices,
    profile: str,
    workload: str,
    label: str | None,
    more: tuple[str, ...],
    command: Command,
) -> Record | None:
    """A new run under `label`, or under the next free one. `more` are options that change the workload's knobs.

    None where the command ended without a record; it has said why. Raises LabError for a name that cannot be.
    """
    if workload not in experiment.workloads:
        known = ", ".join(experiment.workloads)
        raise LabError(f"a workload of this page: {known}", ascii(workload)[:80], "take one", "LADDER", EXIT_USAGE)
    label = run_folder.free_label(experiment.name) if label is None else labels.check(label)
    words = choices.arguments(experiment, experiment.workloads[workload], profile, label)
    return _record(experiment, (*words, *more), label, command)


def go_on(experiment: AnyExperiment, choices: Choices, command: Command) -> Record | None:
    """Go on with the interrupted run of RUN_LABEL; everything but the accepted warnings is as it began."""
    label = choices.run_label
    if label is None:
        wanted, found = "the label of the interrupted run", "RUN_LABEL = None"
        raise LabError(wanted, found, "set RUN_LABEL to it", "the first cell", EXIT_USAGE)
    words = ("run", experiment.name, "--resume", labels.check(label), "--json-events", *choices.accepted())
    return _record(experiment, words, label, command)


def _record(experiment: AnyExperiment, words: Sequence[str], label: str, command: Command) -> Record | None:
    ended = command(words, PlainLines(sys.stdout).hear)
    if ended.code == EXIT_INTERRUPTED:
        begun = (labels.run_folder(experiment.name, label) / journal.NAME).is_file()
        kept = f'what is finished is kept: RUN_LABEL = "{label}", and page.run(resume=True) goes on'
        print(f"interrupted; {kept if begun else 'nothing was begun'}")
        return None
    if ended.code != EXIT_OK:
        print(ended.errors)
        return None
    record = store.read(labels.record_path(experiment.name, label))
    print(f"record {label} · level {record.evidence_level}")
    return record

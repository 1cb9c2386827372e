"""What `run` prints when the record is written. Standard output only; with --json the record and nothing else."""

from __future__ import annotations

from experiments.cli.printing import emit, place, say, status, table
from experiments.evidence import labels, record_text, rules
from experiments.evidence.record import Record
from experiments.harness.experiment import AnyExperiment
from experiments.harness.session import Finished
from tools.environments.errors import LabError

SHOWS = {
    "plan": "nothing was measured; the plan is well-formed",
    "cpu_mechanism": "shows numerics and semantics on this machine",
    "gpu_smoke": "shows that it runs on this card",
    "gpu_measured": "memory, time and equivalence on this card",
}


def tell(experiment: AnyExperiment, finished: Finished, *, as_json: bool) -> None:
    """Table, record, level, what would raise it, picture, decision."""
    record, folder = finished.record, finished.folder
    drawn = picture(experiment, finished)
    if as_json:
        emit(record.to_json())
        return
    shown = experiment.table(record)
    say()
    if record.identity.run_mode == "dry_run":
        _plan(record)
    for line in table(shown.columns, shown.rows):
        say(line)
    for note in shown.notes:
        say(f"  {note}")
    say()
    level = record.evidence_level or "plan"
    say(f"{'record':<9}{place(folder / labels.RECORD_NAME)}")
    say(f"{'level':<9}{status(level)} — {SHOWS[level]}")
    for line in _limits(record):
        say(line)
    if drawn:
        say(f"{'picture':<9}{drawn}")
    for candidate in record.candidates:
        if candidate.failure is not None and candidate.failure.proposal:
            say(f"{'try':<9}{candidate.name} ran out of memory: {candidate.failure.proposal}")
    if any(rules.of(record).failed_gates(candidate) for candidate in record.candidates):
        say(f"{'look at':<9}{experiment.look_at}")
    say(f"{'says':<9}{record.decision.sentence}")
    say(f"{'next':<9}python -m experiments show {experiment.name} --run-label {record.identity.run_label}")


def _plan(record: Record) -> None:
    """What would be measured."""
    say(f"{'plan':<9}{record.identity.experiment} · {record_text.headline(record)}")
    for candidate in record.candidates:
        failure = candidate.failure
        say(f"  {candidate.name}" + (f": {failure.message}" if failure is not None else ""))


def picture(experiment: AnyExperiment, finished: Finished) -> str:
    """Draw it. Where it stands, or why there is none: the record is written already and does not depend on it."""
    if experiment.picture is None or finished.record.identity.run_mode == "dry_run":
        return ""
    try:
        return place(experiment.picture(finished.record, finished.folder))
    except ImportError as error:
        return f"not drawn: {error.name} is not installed here"
    except LabError as error:
        return f"not drawn: {error.found} → {error.next}"
    except Exception as error:  # whatever drawing raises: the report and the --json are worth more than the picture
        return f"not drawn: {type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")


def _limits(record: Record) -> list[str]:
    """The reasons why the level is not higher, each with what would lift it."""
    lines = []
    for limit in record.limits:
        if limit.claims:
            continue
        lines.append(f"{'why':<9}{limit.reason}")
        if limit.lift:
            lines.append(f"{'raise it':<9}{limit.lift}")
    return lines

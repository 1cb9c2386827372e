"""What a page shows of a record: its table, its pictures, what it says and does not, and what comes next.

Everything is drawn from the record that was read back from its file; nothing is remembered from the run.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments import kinds
from experiments.evidence import labels, plots, record_text, rules
from experiments.evidence.record import Record
from experiments.harness.experiment import AnyExperiment
from experiments.notebooks.markdown import Markdown, table
from tools.environments.registry import registry

CAPTIONS = {
    "gradients": (
        "梯度误差与容许值、下溢、损失缩放的变化",
        "gradient error beside what may pass, underflow, loss scale",
    ),
    "memory_time": ("显存与步时，竖线是下限", "memory against time; the upright lines are floors"),
    "phases": ("每个阶段的最高分配，峰值落在哪里", "highest allocation of each phase, and where the peak falls"),
    "step": ("一步的时间：设备忙与设备等待", "what a step is made of: the device busy, the device waiting"),
    "predicted": ("预测与实测，落在线上即完全一致", "predicted against measured; on the line they agree"),
}


@dataclass(frozen=True, slots=True)
class Pictures:
    """The files of a record's pictures; a notebook shows them, elsewhere their names are read."""

    files: tuple[Path, ...]

    def _repr_html_(self) -> str:
        return "\n".join(_figure(path) for path in self.files)

    def __repr__(self) -> str:
        return "\n".join(str(path) for path in self.files)


def result(experiment: AnyExperiment, record: Record) -> Markdown:
    """Head line, the experiment's own table, who did not run and why, and after a failed gate what to look at."""
    if record.evidence_level == "plan":
        return Markdown(f"{record_text.headline(record)}\n\n{_planned(record)}")
    shown = experiment.table(record)
    parts = [record_text.headline(record), table(shown.columns, shown.rows), *shown.notes]
    parts += [f"out of memory: {name} → {proposal}" for name, proposal in _ladder(record)]
    failed = [text for candidate in record.candidates for text in rules.of(record).failed_gates(candidate)]
    if failed:
        parts.append(f"**gate failed** {'; '.join(failed)}. Look first at: {experiment.look_at}")
    return Markdown("\n\n".join(parts))


def pictures(record: Record) -> Pictures | Markdown:
    """Draw every picture the record has data for, beside it. Raises LabError, and ImportError without matplotlib."""
    identity = record.identity
    drawn = plots.draw_all(record, labels.run_folder(identity.experiment, identity.run_label))
    if not drawn:
        return Markdown("No picture: this record holds nothing that was measured.")
    return Pictures(drawn)


def says(record: Record) -> Markdown:
    """Claims, what must not be read into them, the level and each reason why it is not higher."""
    lines = [f"- **says** {line}" for line in record_text.says(record)]
    lines.append(f"- **does not say** {record_text.does_not_say(record)}")
    if floors := record_text.floors(record):
        lines.append(f"- **floor** {floors}")
    lines.append(f"- **level** {record.evidence_level}")
    for limit in record.limits:
        lift = f" → {limit.lift}" if limit.lift else ""
        lines.append(f"- **limit** {limit.code}: {limit.reason}{lift}")
    lines.append(f"- **decision** {record.decision.code}: {record.decision.sentence}")
    return Markdown("\n".join(lines))


def next_step(experiment: AnyExperiment, record: Record) -> Markdown:
    """What to do about this record: mend, shrink, raise its level, repeat it, publish it."""
    return Markdown("\n".join(f"- {line}" for line in _next(experiment, record)))


def _next(experiment: AnyExperiment, record: Record) -> Iterator[str]:
    label = record.identity.run_label
    if record.evidence_level == "plan":
        yield 'the plan is well-formed; with preflight ok set RUN_MODE = "cpu_mechanism" or "real_gpu"'
        return
    if any(rules.of(record).failed_gates(candidate) for candidate in record.candidates):
        yield f"do not use these numbers; look first at: {experiment.look_at}"
        return
    if _ladder(record):
        yield "something ran out of memory: section 5.1 says what fits, each rung under a label of its own"
    if record.evidence_level == "cpu_mechanism":
        cards = " or ".join(p.id for p in registry.load().having(experiment.name) if p.gpu is not None)
        yield f'memory and time need a card: in an environment of {cards} set RUN_MODE = "real_gpu"'
    elif record.evidence_level == "gpu_smoke":
        yield from (f"to raise the level: {limit.lift}" for limit in record.limits if limit.lift and not limit.claims)
    else:
        yield "run it once more under a new label: two records that agree within noise are gpu_reproduced"
        yield f"publish it: `python -m experiments results promote {label}`"
    if record.workload.name == "smoke":
        yield 'the page\'s own matrix is WORKLOAD = "default" (12 GB class)'
    if any("head_limited" in candidate.marks for candidate in record.candidates):
        yield f"the loss head holds the peak: `{kinds.reproduce(record)} --head chunked`"
    yield f"read it again: `python -m experiments show {experiment.name} --run-label {label}`"


def _planned(record: Record) -> str:
    """The candidates that would run, with what makes each of them this candidate."""
    rows = []
    for candidate in record.candidates:
        settings = ", ".join(f"{key} {value}" for key, value in candidate.settings.items() if value is not None)
        rows.append((candidate.name, candidate.role.replace("_", " "), settings))
    return table(("candidate", "role", "settings"), rows)


def _ladder(record: Record) -> list[tuple[str, str]]:
    """Who ran out of memory, and the next rung proposed for it."""
    failures = [(c.name, c.failure.proposal) for c in record.candidates if c.status == "oom" and c.failure]
    return [(name, proposal or "nothing smaller is on the ladder") for name, proposal in failures]


def _figure(path: Path) -> str:
    chinese, english = CAPTIONS[path.stem]
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    image = f'<img alt="{english}" src="data:image/svg+xml;base64,{data}" style="max-width: 100%">'
    return f"<figure>{image}<figcaption>{chinese} / {english}</figcaption></figure>"

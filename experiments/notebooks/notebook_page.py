"""One page in a kernel: `prepare` looks at kernel and profile, `Page.run` measures, the rest shows the record.

Nothing here raises for what a reader can cause: a finding is told on one line, the cells below say that there is no
record, and the mechanism, the prediction and the ladder can be read all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from experiments.evidence.record import Record
from experiments.harness import profile_check
from experiments.harness.experiment import AnyExperiment
from experiments.kinds.training_step.training_experiment import of_this_kind
from experiments.notebooks import command_child, kernel, ladder, notebook_run, record_view
from experiments.notebooks.choices import Choices
from experiments.notebooks.markdown import Markdown, block, finding
from experiments.notebooks.record_view import Pictures
from tools.environments.errors import LabError
from tools.environments.model import Check, Profile, Report
from tools.environments.preflight import preflight, report_text

NO_RECORD = Markdown("No record: section 5 has not run; the finding above says why, or run that cell.")
Preflight = Callable[..., Report]  # tools.environments.preflight.preflight.run


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookPage:
    """A page whose first cell was looked at. `refusal` is why nothing may run, None where it may."""

    experiment: AnyExperiment
    choices: Choices
    profile: Profile | None
    kernel: Check | None
    report: Report | None
    refusal: LabError | None
    command: notebook_run.Command

    def _repr_markdown_(self) -> str:
        parts = []
        if self.kernel is not None:
            parts.append(f"**kernel** {self.kernel.status} · {self.kernel.found}")
            if self.kernel.repair:
                parts.append(f"→ {self.kernel.repair}")
        if self.report is not None:
            parts.append(block(f"{self.report.profile}\n{report_text.to_text(self.report)}"))
        parts.append(f"**run mode** {self._verdict()}")
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return self._repr_markdown_()

    def _verdict(self) -> str:
        if self.refusal is not None:
            return finding(self.refusal)
        if self.choices.run_mode != "dry_run" or self.profile is None or self.kernel is None or self.report is None:
            return self.choices.run_mode
        able = profile_check.default_mode(self.profile)
        try:
            kernel.refuse(self.profile, able, self.kernel, self.report)
        except LabError as error:
            return f"dry_run; a run is not possible yet: {finding(error)}"
        return f'dry_run; kernel and preflight are ok: RUN_MODE may become "{able}"'

    def prediction(self) -> Markdown:
        """What each candidate of the chosen workload will hold on a card, by the ledger, before anything runs."""
        try:
            self.choices.check(self.experiment)
            workload = self.experiment.workloads[self.choices.workload]
            head = (
                f"{workload.name}: {workload.batch} x {workload.sequence}, {workload.model}, {workload.optimizer}, "
                f"head {workload.head}; predicted for a CUDA card, not executed"
            )
            return Markdown(f"{head}\n\n{ladder.prediction(of_this_kind(self.experiment), workload)}")
        except LabError as error:
            return Markdown(finding(error))

    def run(self, *, resume: bool = False) -> Record | None:
        """Run the chosen workload, or with `resume` go on with an interrupted one; None where it did not finish."""
        try:
            if resume:
                self._allowed()
                return notebook_run.go_on(self.experiment, self.choices, self.command)
            return self._begin(self.choices.workload, self.choices.run_label, ())
        except LabError as error:
            return _not_run(error)

    def ladder(self, memory_gib: float = 8.0) -> Markdown:
        """Section 5.1: the rungs from the default workload down, and how each stands on a card of that memory."""
        return Markdown(ladder.as_table(list(ladder.rungs(of_this_kind(self.experiment), memory_gib)), memory_gib))

    def run_ladder(
        self, label: str | None, *, workload: str = "default", sequence: int | None = None, batch: int | None = None
    ) -> Record | None:
        """Run one rung under a label of its own; without a label nothing is asked for, and nothing runs."""
        if label is None:
            print("not run: LADDER_LABEL is None")
            return None
        knobs = (("--sequence", sequence), ("--batch", batch))
        more = tuple(word for option, value in knobs if value is not None for word in (option, str(value)))
        try:
            return self._begin(workload, label, more)
        except LabError as error:
            return _not_run(error)

    def table(self, record: Record | None) -> Markdown:
        """The record as a table."""
        return NO_RECORD if record is None else record_view.result(self.experiment, record)

    def pictures(self, record: Record | None) -> Pictures | Markdown:
        """The record's pictures, drawn beside it."""
        if record is None:
            return NO_RECORD
        try:
            return record_view.pictures(record)
        except LabError as error:
            return Markdown(finding(error))
        except ImportError as error:
            return Markdown(f"not drawn: {error.name} is not installed here")

    def says(self, record: Record | None) -> Markdown:
        """What the record says, and what it does not."""
        return NO_RECORD if record is None else record_view.says(record)

    def next_step(self, record: Record | None) -> Markdown:
        """What to do now."""
        return NO_RECORD if record is None else record_view.next_step(self.experiment, record)

    def _begin(self, workload: str, label: str | None, more: tuple[str, ...]) -> Record | None:
        return notebook_run.begin(
            self.experiment, self.choices, self._allowed().id, workload, label, more, self.command
        )

    def _allowed(self) -> Profile:
        """The profile to be checked against. Raises the refusal where nothing may run."""
        if self.refusal is not None:
            raise self.refusal
        assert self.profile is not None  # prepare() refuses where it finds none
        return self.profile


def prepare(
    experiment: AnyExperiment,
    *,
    check: Preflight = preflight.run,
    command: notebook_run.Command = command_child.experiments,
    **first_cell: Any,
) -> NotebookPage:
    """The page with its kernel and profile looked at. `first_cell`: the fields of `Choices`.

    A plan is always allowed; `cpu_mechanism` and `real_gpu` are refused until the kernel is the profile's and its
    preflight is ok.
    """
    choices = Choices(**first_cell)
    profile, state, report, refusal = None, None, None, None
    try:
        choices.check(experiment)
        registry = profile_check.load()
        profile = profile_check.choose(experiment, registry, choices.profile, choices.run_mode)
        state = kernel.check(profile)
        report = check(profile, registry, quick=True, notebook=True, accept=choices.accept)
        if report.status != "blocked":  # else importing torch to learn more would only take time
            model = choices.downloads(experiment)
            report = check(
                profile, registry, notebook=True, accept=choices.accept, will_download=model is not None, model=model
            )
        kernel.refuse(profile, choices.run_mode, state, report)
    except LabError as error:
        refusal = error
    return NotebookPage(
        experiment=experiment,
        choices=choices,
        profile=profile,
        kernel=state,
        report=report,
        refusal=refusal,
        command=command,
    )


def _not_run(error: LabError) -> Record | None:
    print(f"not run · {finding(error)}")
    return None

"""What the first cell of a page says, looked at before anything else: each variable by its own name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from experiments.evidence.vocabulary import RunMode
from experiments.harness.experiment import AnyExperiment
from experiments.kinds.training_step.training_workload import TrainingWorkload
from tools.environments.errors import EXIT_USAGE, LabError


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The first cell's variables. `accept` names preflight warnings; `peer_path`: somebody else's implementation."""

    run_mode: RunMode = "dry_run"
    run_label: str | None = None
    local_files_only: bool = False
    workload: str = "smoke"
    profile: str | None = None
    model_source: str = "hub"
    accept: tuple[str, ...] = ()
    peer_path: str | None = None

    def check(self, experiment: AnyExperiment) -> None:
        """Raises LabError (wrong usage) that names the variable to change."""
        for variable, value, allowed in (
            ("RUN_MODE", self.run_mode, get_args(RunMode)),
            ("WORKLOAD", self.workload, tuple(experiment.workloads)),
            ("MODEL_SOURCE", self.model_source, ("hub", "config")),
            ("LOCAL_FILES_ONLY", self.local_files_only, (False, True)),
        ):
            if value not in allowed:
                raise _wrong(variable, f"one of {', '.join(map(repr, allowed))}", value, repr(allowed[0]))
        for variable, text in (("RUN_LABEL", self.run_label), ("PROFILE", self.profile), ("PEER_PATH", self.peer_path)):
            if text is not None and not isinstance(text, str):
                raise _wrong(variable, "a text in quotes, or None", text, "None")
        if not isinstance(self.accept, tuple) or not all(isinstance(name, str) for name in self.accept):
            raise _wrong("ACCEPT", 'names of checks, such as ("python.path",)', self.accept, "()")

    def arguments(
        self, experiment: AnyExperiment, workload: TrainingWorkload, profile: str, label: str
    ) -> Iterator[str]:
        """The command line of `python -m experiments` that does what the first cell asks for.

        A plan downloads nothing, and an embedded model is on no hub: both take the registered shape.
        """
        yield from ("run", experiment.name, "--run-mode", self.run_mode, "--profile", profile)
        yield from ("--workload", workload.name, "--run-label", label, "--json-events")
        from_hub = self.model_source == "hub" and "/" in workload.model and self.run_mode != "dry_run"
        yield from ("--model-source", "hub" if from_hub else "config")
        if from_hub and self.local_files_only:
            yield "--local-files-only"
        if self.peer_path is not None:
            yield from ("--peer-path", self.peer_path)
        yield from self.accepted()

    def accepted(self) -> Iterator[str]:
        """The accepted warnings as options: a resumed run asks for them again."""
        for name in self.accept:
            yield from ("--accept", name)

    def downloads(self, experiment: AnyExperiment) -> str | None:
        """The hub id a run would reach out for; None where it would not."""
        model = experiment.workloads[self.workload].model
        online = self.model_source == "hub" and not self.local_files_only and self.run_mode != "dry_run"
        return model if online and "/" in model else None


def _wrong(variable: str, wanted: str, found: object, default: str) -> LabError:
    return LabError(wanted, ascii(found)[:80], f"set {variable} = {default}, say", "the first cell", EXIT_USAGE)

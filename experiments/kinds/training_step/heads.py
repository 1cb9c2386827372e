"""The loss head as a knob of the workload: every candidate with the full head, in chunks, or once with each."""

from __future__ import annotations

from dataclasses import replace

from experiments.harness.experiment import CandidateSpec
from experiments.kinds.training_step.training_workload import TrainingWorkload


def with_heads(specs: tuple[CandidateSpec, ...], workload: TrainingWorkload) -> tuple[CandidateSpec, ...]:
    """Each candidate with the loss head the workload asks for; for `both`, once with each."""
    if workload.head != "both":
        return tuple(replace(spec, settings={**spec.settings, "head": workload.head}) for spec in specs)
    full = [replace(spec, settings={**spec.settings, "head": "full"}) for spec in specs]
    chunked = [
        replace(
            spec,
            name=f"{spec.name}, chunked head",
            role="candidate" if spec.role == "baseline" else spec.role,
            settings={**spec.settings, "head": "chunked"},
            probes=(),
        )
        for spec in specs
        if spec.role != "baseline_again"
    ]
    return (*full, *chunked)

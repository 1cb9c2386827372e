"""The command that measures a record's workload again: what `run` takes for every kind, around the options of its own.

Made from the record alone, so it names nothing that the record does not hold, such as the folder of a local model.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from experiments.evidence.record import Record
from experiments.harness.kind_options import KindOption
from experiments.harness.measured_workload import REPETITION

NEW_LABEL = "--run-label NEW"


def command(record: Record, options: Sequence[str]) -> str:
    """`python -m experiments run ...`, with the options that the record's kind adds."""
    identity = record.identity
    caps = {card.memory_cap_gib for card in record.runtime.devices if card.memory_cap_gib is not None}
    return " ".join(
        (
            f"python -m experiments run {identity.experiment} --workload {shlex.quote(record.workload.name)}",
            f"--profile {record.profile.id} --run-mode {identity.run_mode}",
            *options,
            *(f"--memory-cap-gib {cap:g}" for cap in sorted(caps)),
            NEW_LABEL,
        )
    )


def knobs(record: Record, options: Sequence[KindOption]) -> list[str]:
    """Each knob of the record's workload that has an option, as a user gives it; none where it is registered."""
    if record.workload.registered:
        return []
    held = {name: value for name, value in record.workload.knobs.items() if value is not None}
    known = (*(KindOption(f"--{name}") for name in REPETITION), *options)
    return [option.given(held[option.word]) for option in known if option.word in held]

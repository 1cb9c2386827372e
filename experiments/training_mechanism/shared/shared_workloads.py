"""The workloads of the pages that trade memory for time: one matrix, so that their records stand side by side."""

from __future__ import annotations

from dataclasses import replace

from experiments.kinds.training_step.training_workload import TrainingWorkload

QWEN = "Qwen/Qwen2.5-0.5B"


def memory_for_time(*, steps: int, warmup: int) -> dict[str, TrainingWorkload]:
    """`default` fits a 12 GB card, `fit-8gib` is the ladder's; the large ones are for floors, with AdamW, no oracle."""
    smoke = TrainingWorkload(name="smoke", model="tiny-qwen2", batch=4, sequence=128, steps=4, warmup=1, rounds=2)
    default = TrainingWorkload(name="default", model=QWEN, batch=4, sequence=512, steps=steps, warmup=warmup, rounds=2)
    large = replace(default, optimizer="adamw", learning_rate=1e-4, oracle=False)
    every = (
        smoke,
        default,
        replace(default, name="fit-8gib", batch=2),
        replace(large, name="large", batch=8, sequence=1024),
        replace(large, name="large-4x4096", sequence=4096),
    )
    return {workload.name: workload for workload in every}

"""How often the cost model of an all-reduce holds here: the unseen size inside the fit's own 90 % interval.

Whole runs of the smoke workload, each with ranks and medians of its own. Every run has three fitted lines (the library,
its A/A twin, the ring); the runs follow each other on one machine, so their misses may come together.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Row
from experiments.evidence import store
from experiments.evidence.record import Record
from experiments.kinds.collective.foretold import foretold
from experiments.parallelism.all_reduce_cost.experiment import EXPERIMENT
from tools.environments.layout import ROOT

RUNS = 20
WORKLOAD = EXPERIMENT.workloads["smoke"]


def rows() -> Iterator[Row]:
    """The share of predictions that held, for each candidate that was timed."""
    held: Counter[str] = Counter()
    made: Counter[str] = Counter()
    for number in range(RUNS):
        for candidate in _run(number).candidates:
            found = foretold(candidate, WORKLOAD)
            if found is not None:
                made[candidate.name] += 1
                held[candidate.name] += found.holds
    for name, count in made.items():
        detail = f"{held[name]} of {count} runs, {WORKLOAD.unseen} bytes unseen"
        yield Row(f"cost model holds, {name}", held[name] / count, "", None, detail)


def _run(number: int) -> Record:
    with tempfile.TemporaryDirectory() as folder:
        options = ["--workload", WORKLOAD.name, "--run-mode", "cpu_mechanism", "--run-label", f"bench-{number}"]
        command = [sys.executable, "-m", "experiments", "run", EXPERIMENT.name, *options]
        environment = {**os.environ, "TMLAB_RUNS": folder}
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
        return store.read(Path(folder) / EXPERIMENT.name / f"bench-{number}" / "record.json")

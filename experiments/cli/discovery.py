"""The experiments there are: every folder experiments/<topic>/<name>/ with an experiment.py that exposes EXPERIMENT."""

from __future__ import annotations

import importlib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import experiments
from tools.environments.errors import EXIT_USAGE, LabError

MODULE = "experiment"


def packages() -> dict[str, str]:
    """Experiment name -> its package (`experiments.<topic>.<name>`), in order of name, found by looking at folders."""
    found = {}
    for folder in experiments.__path__:
        for path in sorted(Path(folder).glob(f"*/*/{MODULE}.py")):
            found[path.parent.name] = f"experiments.{path.parent.parent.name}.{path.parent.name}"
    return dict(sorted(found.items()))


def load(name: str) -> Any:
    """The EXPERIMENT of that name. LabError (usage) with the nearest names for one that is not there."""
    known = packages()
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.4) or list(known)
        offer = f"did you mean {', '.join(near)}?" if near else "python -m experiments list"
        raise LabError("the name of an experiment", ascii(name)[:80], offer, "NAME", EXIT_USAGE)
    return importlib.import_module(f"{known[name]}.{MODULE}").EXPERIMENT


def load_all() -> list[Any]:
    """Every experiment, in order of name."""
    return [load(name) for name in packages()]


def registered_digests() -> dict[str, dict[str, str]]:
    """Experiment -> workload name -> digest, as registered now; the conformance run has workloads of its own."""
    from experiments.conformance import recording

    found = {
        experiment.name: {name: workload.digest() for name, workload in experiment.workloads.items()}
        for experiment in load_all()
    }
    return found | {recording.EXPERIMENT: recording.registered()}

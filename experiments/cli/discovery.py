"""The experiments there are: every folder experiments/<topic>/<name>/ with an experiment.py that exposes EXPERIMENT.

One whose code does not import is that experiment's own trouble: it is named with file and line, and the others work.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import experiments
from experiments.harness.broken_module import broken
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.profile_session import OWN_COMMANDS

MODULE = "experiment"


def packages() -> dict[str, str]:
    """Experiment name -> its package (`experiments.<topic>.<name>`), in order of name, found by looking at folders.

    LabError with both folders where two topics have an experiment of one name.
    """
    found: dict[str, str] = {}
    for folder in experiments.__path__:
        for path in sorted(Path(folder).glob(f"*/*/{MODULE}.py")):
            name, package = path.parent.name, f"experiments.{path.parent.parent.name}.{path.parent.name}"
            if name in found:
                raise _taken(name, f"{_folder(found[name])} and {_folder(package)}", package)
            if name in OWN_COMMANDS:
                raise _taken(name, f"{_folder(package)}, and the lab's own command of that name", package)
            found[name] = package
    return dict(sorted(found.items()))


def _taken(name: str, found: str, package: str) -> LabError:
    folder = _folder(package)
    return LabError(
        wanted="a name of its own for each experiment, whatever its topic: runs and records go by it",
        found=found,
        next=f"git mv {folder} {folder.rpartition('/')[0]}/NEW_NAME, and give its EXPERIMENT that name",
        where=name,
    )


def _folder(package: str) -> str:
    return package.replace(".", "/")


def load(name: str) -> Any:
    """The EXPERIMENT of that name. LabError (usage) with the nearest names for one that is not there.

    LabError too, with file and line, for one whose code does not import or exposes no EXPERIMENT of its folder's name.
    """
    return _load(name, packages())


def _load(name: str, known: Mapping[str, str]) -> Any:
    if name not in known:
        from difflib import get_close_matches  # here: a list of experiments starts without it

        near = get_close_matches(name, known, n=3, cutoff=0.4) or list(known)
        offer = f"did you mean {', '.join(near)}?" if near else "python -m experiments list"
        raise LabError("the name of an experiment", ascii(name)[:80], offer, "NAME", EXIT_USAGE)
    module = f"{known[name]}.{MODULE}"
    try:
        found = importlib.import_module(module).EXPERIMENT
        if found.name != name:
            raise ValueError(f"EXPERIMENT is named {found.name!r}, its folder {name!r}")
    except (Exception, SystemExit) as error:  # whatever somebody's module does when it is imported
        raise broken(module, error, "EXPERIMENT") from error
    return found


def each(names: Iterable[str] | None = None) -> tuple[list[Any], dict[str, LabError]]:
    """Every experiment that imports (those of `names` where given), in order; and by name, why the others do not."""
    known = packages()  # once: looking through all folders again for each would cost more than importing it
    found, refused = [], {}
    for name in known if names is None else names:
        try:
            found.append(_load(name, known))
        except LabError as error:
            refused[name] = error
    return found, refused


def registered_digests() -> dict[str, dict[str, str]]:
    """Experiment -> workload name -> digest, as registered now; the conformance run has workloads of its own."""
    from experiments.conformance import conformance_record

    found = {
        experiment.name: {name: workload.digest() for name, workload in experiment.workloads.items()}
        for experiment in each()[0]
    }
    return found | {conformance_record.EXPERIMENT: conformance_record.registered()}

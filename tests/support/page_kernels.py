"""Real kernels for the notebook pages: kernelspecs in a folder of their own, and notebooks run in them when asked for.

`here` starts the interpreter of the tests, which the lab is not registered in. `llm_train_cpu` starts an environment
of its own that holds the packages of the tests by link, with registration and stamp as the installer leaves them.
"""

from __future__ import annotations

import json
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tools.environments.installed import registration, stamp
from tools.environments.layout import ROOT
from tools.environments.registry import registry, requirement_text

PAGES = ROOT / "experiments" / "training_mechanism" / "notebooks"
PROFILE = "TRAIN-CPU"


@dataclass(frozen=True)
class Job:
    """One notebook to run: in which kernel, and what is put behind its first cell's lines."""

    name: str
    notebook: Path
    kernel: str
    injected: Sequence[str] = ()


@dataclass(frozen=True)
class Executed:
    """What came of it: the notebook with its outputs, and the error that stopped it, if one did."""

    notebook: Any
    stopped: str

    def shown(self, cell: str) -> str:
        """Everything a cell shows, as a reader without pictures gets it."""
        outputs = next(found for found in self.notebook.cells if found.id == cell).outputs
        return "\n".join(text(output) for output in outputs)

    def kinds(self, cell: str) -> set[str]:
        """The MIME types of a cell's values."""
        outputs = next(found for found in self.notebook.cells if found.id == cell).outputs
        return {kind for output in outputs for kind in output.get("data", {})}

    def everything(self) -> str:
        """All that all cells show."""
        return "\n".join(self.shown(cell.id) for cell in self.notebook.cells if cell.cell_type == "code")


def text(output: Any) -> str:
    """An output as text."""
    if output.output_type == "error":
        return "\n".join(output.traceback)
    data = output.get("data", {})
    return str(output.get("text") or data.get("text/markdown") or data.get("text/plain") or "")


def make_environment(prefix: Path) -> Path:
    """An environment with the packages of the running one, by link; returns its Python."""
    venv.create(prefix, with_pip=False, symlinks=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = prefix / "lib" / version / "site-packages"
    _link(Path(sys.prefix) / "lib" / version / "site-packages", site)
    for folder in ("bin", "share", "etc"):
        if (Path(sys.prefix) / folder).is_dir():
            (prefix / folder).mkdir(exist_ok=True)
            _link(Path(sys.prefix) / folder, prefix / folder)
    registration.register(site)
    known = registry.load()
    made = stamp.Stamp(
        profile=PROFILE,
        requirement_digest=requirement_text.digest(known.get(PROFILE), ROOT),
        prefix=str(prefix),
        interpreter={"version": sys.version.split()[0], "base": sys.executable},
        torch=None,
        backend="venv",
        index={},
        packages=stamp.installed(prefix),
    )
    stamp.write(made)
    return prefix / "bin" / "python"


def _link(source: Path, target: Path) -> None:
    for entry in source.iterdir():
        there = target / entry.name
        if entry.name != registration.PTH_NAME and not there.exists():
            there.symlink_to(entry)


def write_kernel(data: Path, name: str, python: Path | str, environment: Mapping[str, str]) -> None:
    """A kernelspec as `ipykernel install` writes it."""
    folder = data / "kernels" / name
    folder.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": name, "language": "python", "env": dict(environment)}
    (folder / "kernel.json").write_text(json.dumps(spec))


class Pages:
    """Notebooks by the name of their job; each is run with `folder` as working folder when somebody asks for it."""

    def __init__(self, jobs: Sequence[Job], folder: Path) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._folder = folder
        self._executed: dict[str, Executed] = {}

    def __getitem__(self, name: str) -> Executed:
        if name not in self._executed:
            self._executed[name] = execute(self._jobs[name], self._folder)
        return self._executed[name]


def execute(job: Job, folder: Path) -> Executed:
    """Run one notebook to its end, or to the error that stops it."""
    notebook = nbformat.read(job.notebook, as_version=4)
    notebook.cells[0].source = "\n".join([notebook.cells[0].source, *job.injected])
    client = NotebookClient(
        notebook,
        kernel_name=job.kernel,
        timeout=300,
        startup_timeout=180,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        return Executed(notebook, str(error))
    return Executed(notebook, "")

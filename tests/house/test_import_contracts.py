"""What is made tomorrow is held by the import contracts without an edit: topics, experiments, mechanisms and kinds that
are planted into a copy of the tree, once as they may be and once with each import that they may not have.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import pytest

from tools.environments.layout import ROOT

LINT = Path(sysconfig.get_path("scripts")) / "lint-imports"

# importer -> imported, each a module of the copy; what is not there yet is planted
MAY = {
    "experiments.topic_a.one.worker": (
        "experiments.topic_a.shared.workloads",
        "experiments.topic_a.shared.deep.er",
        "experiments.mechanisms.topic_a.trick",
        "experiments.kinds.kind_a.worker",
        "experiments.notebooks.markdown",
        "experiments.harness.fork",
        "experiments.evidence.record",
        "tools.environments.errors",
    ),
    "experiments.topic_a.conformance.trick": ("experiments.conformance.page", "experiments.topic_a.shared.workloads"),
    "experiments.topic_a.shared.workloads": ("experiments.kinds.kind_a.worker", "experiments.harness.fork"),
    "experiments.mechanisms.topic_a.trick": ("experiments.mechanisms.attention",),
    "experiments.kinds.kind_a.worker": ("experiments.harness.fork", "experiments.mechanisms.attention"),
    "experiments.notebooks.planted": ("experiments.kinds.kind_a.worker",),
    "experiments.cli.planted": ("experiments.topic_a.one.worker", "experiments.judgements.delivery"),
    "experiments.judgements.delivery": ("experiments.evidence.record",),
}
MAY_NOT = [
    ("experiments.topic_a.one.worker", "experiments.topic_b.one.worker"),
    ("experiments.topic_a.one.worker", "experiments.topic_c.shared.workloads"),
    ("experiments.topic_c.conformance.trick", "experiments.topic_b.conformance.trick"),
    ("experiments.topic_d.notebooks.drawn", "experiments.topic_b.shared.workloads"),
    ("experiments.topic_b.one.worker", "experiments.training_mechanism.shared.memory_table"),
    ("experiments.training_mechanism.shared.planted", "experiments.topic_d.one.worker"),
    ("experiments.topic_a.one.worker", "experiments.topic_a.two.worker"),
    ("experiments.topic_a.shared.workloads", "experiments.topic_a.two.worker"),
    ("experiments.topic_d.one.worker", "experiments.cli.printing"),
    ("experiments.topic_d.one.worker", "experiments.judgements.delivery"),
    ("experiments.topic_d.one.worker", "tools.rendering.links"),
    ("experiments.harness.planted", "experiments.topic_e.one.worker"),
    ("experiments.evidence.planted", "experiments.topic_f.one.worker"),
    ("experiments.models.planted", "experiments.topic_g.one.worker"),
    ("experiments.notebooks.planted", "experiments.topic_h.one.worker"),
    ("experiments.conformance.planted", "experiments.topic_i.one.worker"),
    ("experiments.judgements.delivery", "experiments.topic_j.one.worker"),
    ("experiments.kinds.kind_b.worker", "experiments.topic_k.one.worker"),
    ("experiments.kinds.kind_b.worker", "experiments.kinds.kind_c.worker"),
    ("experiments.kinds.kind_b.worker", "experiments.conformance.page"),
    ("experiments.harness.planted", "experiments.kinds.kind_b.worker"),
    ("experiments.mechanisms.topic_a.trick", "experiments.harness.fork"),
    ("experiments.mechanisms.topic_a.trick", "experiments.topic_l.one.worker"),
    ("experiments.mechanisms.topic_a.trick", "experiments.kinds.kind_d.worker"),
    ("experiments.mechanisms.topic_a.trick", "tools.environments.errors"),
    ("tools.environments.planted", "experiments.evidence.record"),
    ("tools.environments.planted", "tools.rendering.links"),
    ("tools.containers.planted", "tools.rendering.links"),
    ("tools.containers.planted", "experiments.evidence.record"),
]


def plant(root: Path, imports: Iterable[tuple[str, str]]) -> None:
    """Write modules with these imports, and what they need to be there; in functions, as lazy imports are."""
    for importer, imported in imports:
        for module in (importer, imported):
            path = root / f"{module.replace('.', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in path.relative_to(root).parents[:-1]:
                (root / folder / "__init__.py").touch()
            if not path.exists():
                path.write_text('"""Planted."""\n')
        with (root / f"{importer.replace('.', '/')}.py").open("a") as file:
            file.write(f"\n\ndef _{imported.replace('.', '_')}() -> None:\n    import {imported}  # noqa: F401\n")


def linted(folder: Path, imports: Iterable[tuple[str, str]]) -> subprocess.CompletedProcess[str]:
    """What lint-imports says of a copy of the tree with these imports planted."""
    for name in ("experiments", "tools"):
        keep = shutil.ignore_patterns("__pycache__", "*.json", "*.toml", "*.ipynb")
        shutil.copytree(ROOT / name, folder / name, ignore=keep)
    shutil.copy(ROOT / "pyproject.toml", folder)
    plant(folder, imports)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"COLUMNS": "400"}
    return subprocess.run(
        [str(LINT), "--no-cache"], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is said of a tree with every import that may not be."""
    done = linted(tmp_path_factory.mktemp("refused"), MAY_NOT)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_a_topic_of_tomorrow_may_use_what_lies_below_it(tmp_path: Path) -> None:
    done = linted(tmp_path, [(importer, one) for importer, imported in MAY.items() for one in imported])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("importer", "imported"), MAY_NOT, ids=lambda name: name.partition(".")[2])
def test_each_import_that_may_not_be_is_named(refused: str, importer: str, imported: str) -> None:
    assert f"{importer} -> {imported} (l." in refused, refused


def test_no_folder_hides_from_the_contracts() -> None:
    """A folder without __init__.py imports all the same, and no contract sees it."""
    folders = {path.parent for name in ("experiments", "tools") for path in (ROOT / name).rglob("*.py")}
    bare = [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").is_file()]
    assert not bare

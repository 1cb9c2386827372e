"""One name, one meaning: no public class is defined twice, and a module's name repeats only as a part of a folder.

An experiment and a kind are folders with the same parts; every other module is found by its name alone. One module
outside may have the name of a part: the one that says what that part is, such as `experiments.harness.kind`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.environments.layout import ROOT

PACKAGE = {"__init__", "__main__"}
OF_AN_EXPERIMENT = {"experiment", "worker", "conclusions", "presentation", "sentences"}
OF_A_KIND = {"kind", "child", "answers", "findings", "concluding", "measuring"}
OF_A_TEMPLATE = {"test"}  # beside the parts of an experiment, in a kind's template/
PARTS = OF_AN_EXPERIMENT | OF_A_KIND | OF_A_TEMPLATE


def modules() -> list[Path]:
    return [path for side in ("tools", "experiments") for path in sorted((ROOT / side).rglob("*.py"))]


def classes() -> Iterator[tuple[str, Path]]:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, path


def twice(named: Iterator[tuple[str, Path]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, path in named:
        found.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_no_public_class_is_defined_twice() -> None:
    assert sum(1 for _ in classes()) > 100
    assert twice(classes()) == {}


def strays(paths: list[Path]) -> dict[str, list[str]]:
    """Names that repeat without being a part of an experiment's or a kind's folder, each with where."""
    folders = {path.parent for path in paths if path.stem in ("experiment", "kind")}
    repeated = twice((path.stem, path) for path in paths if path.stem not in PACKAGE and path.parent not in folders)
    inside = {path.stem for path in paths if path.parent in folders}
    lost = twice((path.stem, path) for path in paths if path.stem not in PACKAGE and path.stem in inside - PARTS)
    return repeated | lost


def test_a_module_s_name_repeats_only_as_a_part_of_a_folder() -> None:
    assert strays(modules()) == {}


def test_a_part_s_name_outside_its_folders_is_found() -> None:
    kind, other = ROOT / "experiments/kinds/a", ROOT / "tools/b"
    assert strays([kind / "kind.py", kind / "child.py", other / "child.py"]) == {}, "the one that says what it is"
    assert set(strays([kind / "kind.py", kind / "child.py", other / "child.py", ROOT / "tools/c/child.py"])) == {
        "child"
    }
    assert set(strays([kind / "kind.py", kind / "helper.py", other / "helper.py"])) == {"helper"}


def test_what_repeats_is_found() -> None:
    pairs = [
        ("Plan", ROOT / "tools" / "a.py"),
        ("Plan", ROOT / "experiments" / "b.py"),
        ("Step", ROOT / "tools" / "a.py"),
    ]
    assert twice(iter(pairs)) == {"Plan": ["tools/a.py", "experiments/b.py"]}

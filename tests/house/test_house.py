"""Rules of the house that no linter knows: what may be imported, what may be named, what must start bare."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.environments.layout import ROOT

SCRIPTS = sorted(path.name for path in (ROOT / "tools").glob("*.py") if path.name != "__init__.py")
CHILD = "probe_child.py"  # runs in a process of its own, under the interpreter that is being examined
ENVIRONMENT_SIDE = sorted((ROOT / "tools" / "environments").rglob("*.py"))

# Written in parts, so that this file does not hold what it looks for.
HOSTS = tuple(
    ".".join(parts) for parts in (("pypi", "org"), ("files", "pythonhosted", "org"), ("deb", "debian", "org"))
)
PRIVATE_PLACES = re.compile(
    "|".join(("/" + "root/", "/" + r"home/(?!newcomer\b|user\b|me\b|you\b|ada\b)\w+", "/" + "work/", "/" + "Users/"))
)


def tracked(*patterns: str) -> list[Path]:
    """Files under version control; in a bare copy without git, every file that .gitignore's folders do not hold."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    skipped = {".envs", ".nox", "runs", ".git", "__pycache__"}
    return [
        path
        for pattern in patterns or ("*",)
        for path in ROOT.rglob(pattern)
        if path.is_file() and not skipped & {*path.parts}
    ]


def imported(path: Path) -> set[str]:
    """The top-level names that a file imports anywhere in it, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(str(node.module))
    return names


@pytest.mark.parametrize("path", ENVIRONMENT_SIDE, ids=lambda path: path.name)
def test_the_environment_side_imports_the_standard_library_alone(path: Path) -> None:
    ours = {name for name in imported(path) if name == "tools" or name.startswith("tools.")}
    foreign = {name for name in imported(path) - ours if name.partition(".")[0] not in sys.stdlib_module_names}
    assert not foreign or path.name == CHILD
    assert all(name == "tools" or name.startswith("tools.environments") for name in ours)


def test_no_module_in_tools_has_a_name_of_the_standard_library() -> None:
    """`python tools/X.py` puts tools/ in front: such a name would be imported instead."""
    names = {path.stem for path in (ROOT / "tools").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not (names - {"__init__"}) & set(sys.stdlib_module_names)


def test_the_child_that_imports_foreign_packages_is_never_imported_itself() -> None:
    """It may import torch, inside its functions; nothing else may bring that into its own process."""
    tree = ast.parse((ROOT / "tools" / "environments" / "preflight" / CHILD).read_text(encoding="utf-8"))
    at_once = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    assert not [name for name in at_once if name.partition(".")[0] not in sys.stdlib_module_names]
    module = f"tools.environments.preflight.{Path(CHILD).stem}"
    assert not [path.name for path in ENVIRONMENT_SIDE if module in imported(path)]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("flags", [(), ("-I",), ("-I", "-S")], ids=["plain", "isolated", "isolated-bare"])
def test_scripts_start_from_any_folder_without_packages(script: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", *flags, str(ROOT / "tools" / script), "--help"]
    child = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout.strip()


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_say_what_they_are(script: str) -> None:
    assert ast.get_docstring(ast.parse((ROOT / "tools" / script).read_text(encoding="utf-8")))


def test_no_file_has_grown_past_one_idea() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in tracked("*.py")
        if (lines := len(path.read_text().splitlines())) > 400
    }
    assert not long


def test_every_module_says_what_lives_in_it() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in tracked("*.py")
        if (tree := ast.parse(path.read_text(encoding="utf-8"))).body and not ast.get_docstring(tree)
    ]
    assert not silent


def test_no_tracked_file_names_a_machine_or_a_registry_host() -> None:
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if any(host in line for host in HOSTS) or PRIVATE_PLACES.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not found


def test_each_decision_has_a_number_of_its_own() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [page.name.partition("-")[0] for page in pages]
    assert numbers == sorted(set(numbers))
    assert [page.read_text(encoding="utf-8")[:5] for page in pages] == [f"# {number}" for number in numbers]


def test_no_tracked_file_is_large() -> None:
    """Weights, traces and caches stay out."""
    assert not [str(path.relative_to(ROOT)) for path in tracked() if path.stat().st_size > 400_000]


def test_there_are_no_catch_all_modules() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert not [str(path.relative_to(ROOT)) for path in tracked("*.py") if path.stem in vague]


def test_automation_and_tests_never_share_a_torch_with_a_profile() -> None:
    """torch is chosen, pinned and installed apart; a line naming it here would let an index decide."""
    for name in ("automation.txt", "tests.txt"):
        lines = (ROOT / "requirements" / name).read_text().splitlines()
        assert not [line for line in lines if re.match(r"torch\b", line)]

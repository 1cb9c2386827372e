"""Which code took part: the digest of a folder equals the digest of the commit it came from, with and without git."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from experiments.evidence import source
from experiments.evidence.rules.v1.scope import SHARED, scope_of
from tools.environments.layout import ROOT

SCOPE = ("lab", "facts.json")


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(("git", *who, *arguments), cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    (root / "lab" / "sub").mkdir(parents=True)
    (root / "lab" / "a.py").write_text("a = 1\n")
    (root / "lab" / "sub" / "b.py").write_text("b = 2\n")
    (root / "lab" / "notes.md").write_text("no source\n")
    (root / "facts.json").write_text("{}\n")
    (root / "other.py").write_text("outside the scope\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    return root


def test_a_clean_checkout_is_its_commit(checkout: Path) -> None:
    found = source.look(SCOPE, checkout)
    assert found.commit == git(checkout, "rev-parse", "HEAD")
    assert found.dirty is False
    assert found.files == 3
    assert source.digest_at(found.commit or "", SCOPE, checkout) == found.digest
    assert source.find_commit(found, checkout) == found.commit


def test_a_bare_folder_has_the_digest_of_the_commit_it_came_from(checkout: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(checkout, bare, ignore=shutil.ignore_patterns(".git"))
    found = source.look(SCOPE, bare)
    assert (found.commit, found.dirty) == (None, None)
    assert not source.has_git(bare)
    assert source.find_commit(found, bare) is None
    assert source.find_commit(found, checkout) == git(checkout, "rev-parse", "HEAD")


@pytest.mark.parametrize("change", ["edit", "add", "remove"])
def test_a_change_in_scope_is_dirty(checkout: Path, change: str) -> None:
    path = checkout / "lab" / ("new.py" if change == "add" else "a.py")
    if change == "remove":
        path.unlink()
    else:
        path.write_text("a = 3\n")
    found = source.look(SCOPE, checkout)
    assert found.dirty is True
    assert source.find_commit(found, checkout) is None
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "second")
    assert source.find_commit(found, checkout) == git(checkout, "rev-parse", "HEAD")
    assert source.look(SCOPE, checkout).dirty is False


def test_what_lies_outside_the_scope_or_is_no_source_changes_nothing(checkout: Path) -> None:
    before = source.look(SCOPE, checkout)
    (checkout / "other.py").write_text("changed\n")
    (checkout / "lab" / "notes.md").write_text("changed\n")
    (checkout / "lab" / "__pycache__").mkdir()
    (checkout / "lab" / "__pycache__" / "a.py").write_text("left over\n")
    (checkout / "lab" / "link.py").symlink_to(checkout / "other.py")
    assert source.look(SCOPE, checkout) == before


def test_the_same_content_is_found_in_an_older_commit(checkout: Path) -> None:
    old = source.look(SCOPE, checkout)
    (checkout / "lab" / "a.py").write_text("a = 4\n")
    git(checkout, "commit", "-qam", "second")
    assert source.find_commit(old, checkout) == git(checkout, "rev-parse", "HEAD~1")


def test_a_folder_inside_somebody_elses_checkout_has_no_commit(checkout: Path) -> None:
    found = source.look(("sub",), checkout / "lab")
    assert found.commit is None
    assert found.files == 1


def test_git_variables_of_a_hook_do_not_lead_elsewhere(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    assert source.look(SCOPE, checkout).commit is not None


def test_without_the_git_program_there_is_still_a_digest(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_git = source.look(SCOPE, checkout)
    monkeypatch.setenv("PATH", "")
    found = source.look(SCOPE, checkout)
    assert (found.digest, found.commit, found.dirty) == (with_git.digest, None, None)


def test_an_unborn_checkout_has_no_commit(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    git(tmp_path, "init", "-q")
    assert source.look(("a.py",), tmp_path).commit is None


def test_the_scope_of_an_experiment_names_what_is_there() -> None:
    scope = scope_of("experiments/training_mechanism/mixed_precision_backward")
    assert "experiments/training_mechanism/mixed_precision_backward" in scope
    assert all((ROOT / name).exists() for name in SHARED)
    assert not any(name.startswith("experiments/results") for name in scope)
    assert source.look(scope).files > 20

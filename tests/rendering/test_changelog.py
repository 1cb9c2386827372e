"""The changelog's fragments: what a broken one is refused for, and what a release makes of good ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.environments.errors import EXIT_BLOCKED, EXIT_USAGE, LabError
from tools.environments.layout import ROOT
from tools.rendering import __main__ as command
from tools.rendering import changelog

GOOD = "### Added\n\n- One thing,\n  in two lines.\n- Another: [guide](/docs/guide.md).\n\n### Fixed\n\n- A fault.\n"


def checkout(root: Path, **fragments: str) -> Path:
    (root / "changelog.d").mkdir()
    (root / "changelog.d" / "README.md").write_text("# Not a fragment\n")
    (root / "CHANGELOG.md").write_text("# Changelog\n\nIntroduction.\n\n## 0.1.0 - 2026-01-02\n\n### Added\n\n- Old.\n")
    for name, text in fragments.items():
        (root / "changelog.d" / f"{name}.md").write_text(text)
    return root


def test_the_fragments_of_this_checkout_hold_and_nothing_waits_elsewhere() -> None:
    assert changelog.check(ROOT) == []
    assert "Unreleased" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_a_good_fragment_has_no_finding(tmp_path: Path) -> None:
    assert changelog.check(checkout(tmp_path, quantization=GOOD)) == []


@pytest.mark.parametrize(
    ("name", "text", "line", "words"),
    [
        ("Bad_Name", GOOD, 1, "a name such as"),
        ("a", "", 1, "a section such as ### Added"),
        ("a", "- An entry.\n", 1, "no section"),
        ("a", "### Added\n", 1, "nothing is listed under ### Added"),
        ("a", "### Added\n\n### Fixed\n\n- A fault.\n", 3, "nothing is listed under ### Added"),
        ("a", "### New\n\n- A thing.\n", 1, "a section is one of ### Added, ### Changed"),
        ("a", "## Added\n\n- A thing.\n", 1, "a section is one of"),
        ("a", "### Added\n\n- A thing.\n\n### Added\n\n- Another.\n", 5, "here twice"),
        ("a", "### Added\n\n- A thing,\nnot indented.\n", 4, "the two blanks"),
        ("a", "### Added\n\n  indented before any entry\n", 3, "the two blanks"),
        ("a", "### Added\n\n- One.\n- \n", 4, "this entry is empty"),
        ("a", "### Added\n\n- See [it](../docs/guide.md).\n", 3, "write it from the root"),
    ],
)
def test_a_broken_fragment_is_a_finding_by_line(tmp_path: Path, name: str, text: str, line: int, words: str) -> None:
    root = checkout(tmp_path, **{name: text})
    found = [finding for finding in changelog.check(root) if words in finding.message]
    assert [(finding.path.name, finding.line) for finding in found] == [(f"{name}.md", line)]
    before = (root / "CHANGELOG.md").read_text()
    with pytest.raises(LabError, match=r"changelog\.d/"):
        changelog.release(root, "0.2.0", "2026-12-01")
    assert (root / "CHANGELOG.md").read_text() == before


def test_bytes_that_are_no_text_are_a_finding(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    (root / "changelog.d" / "a.md").write_bytes(b"\xff\xfe")
    assert [finding.message for finding in changelog.check(root)] == ["a fragment is text in UTF-8"]


def test_a_folder_is_a_finding_since_no_release_looks_into_it(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    (root / "changelog.d" / "sub").mkdir()
    (root / "changelog.d" / "sub" / "a.md").write_text(GOOD)
    assert [(found.path.name, found.message[:30]) for found in changelog.check(root)] == [
        ("sub", "a folder is never released: pu")
    ]
    with pytest.raises(LabError, match=r"changelog\.d/sub:1"):
        changelog.release(root, "0.2.0", "2026-12-01")
    assert (root / "changelog.d" / "sub" / "a.md").read_text() == GOOD


def test_a_release_keeps_the_paragraphs_and_the_code_of_an_entry(tmp_path: Path) -> None:
    entry = "- One thing.\n\n  Its second paragraph.\n\n  ```python\n  a = 1\n\n\n  b = 2\n  ```"
    root = checkout(tmp_path, a=f"### Added\n\n{entry}\n\n- Another.\n\n\n### Fixed\n\n- A fault.\n")
    assert changelog.check(root) == []
    changelog.release(root, "0.2.0", "2026-12-01")
    text = (root / "CHANGELOG.md").read_text()
    assert f"### Added\n\n{entry}\n- Another.\n\n### Fixed\n\n- A fault.\n\n## 0.1.0" in text


def test_lint_sees_the_fragments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = checkout(tmp_path, a="- An entry.\n")
    monkeypatch.setattr(command, "wanted", lambda _: ({}, []))
    assert {finding.path.name for finding in command.check(root, with_links=False)} == {"a.md"}


def test_a_release_puts_all_fragments_above_the_older_ones_and_removes_them(tmp_path: Path) -> None:
    root = checkout(tmp_path, b=GOOD, a="### Fixed\n\n- Another fault.\n")
    changelog.release(root, "0.2.0", "2026-12-01")
    assert (root / "CHANGELOG.md").read_text() == (
        "# Changelog\n\nIntroduction.\n\n## 0.2.0 - 2026-12-01\n\n"
        "### Added\n\n- One thing,\n  in two lines.\n- Another: [guide](/docs/guide.md).\n\n"
        "### Fixed\n\n- Another fault.\n- A fault.\n\n"
        "## 0.1.0 - 2026-01-02\n\n### Added\n\n- Old.\n"
    )
    assert [path.name for path in (root / "changelog.d").iterdir()] == ["README.md"]


def test_the_first_release_goes_below_the_introduction(tmp_path: Path) -> None:
    root = checkout(tmp_path, a=GOOD)
    (root / "CHANGELOG.md").write_text("# Changelog\n\nIntroduction.\n")
    changelog.release(root, "0.1.0", "2026-12-01")
    text = (root / "CHANGELOG.md").read_text()
    assert text.startswith("# Changelog\n\nIntroduction.\n\n## 0.1.0 - 2026-12-01\n\n### Added\n")
    assert text.endswith("- A fault.\n")


@pytest.mark.parametrize(
    ("version", "date", "wanted", "code"),
    [
        ("1", "2026-12-01", "a version of three numbers", EXIT_USAGE),
        ("", "2026-12-01", "a version of three numbers", EXIT_USAGE),
        ("0.2.0", "2026-13-01", "a date such as", EXIT_USAGE),
        ("0.2.0", "today", "a date such as", EXIT_USAGE),
        ("0.1.0", "2026-12-01", "a version that CHANGELOG.md lacks", EXIT_BLOCKED),
    ],
)
def test_a_release_that_cannot_be_loses_nothing(
    tmp_path: Path, version: str, date: str, wanted: str, code: int
) -> None:
    root = checkout(tmp_path, a=GOOD)
    before = (root / "CHANGELOG.md").read_text()
    with pytest.raises(LabError) as caught:
        changelog.release(root, version, date)
    assert (wanted in caught.value.wanted, caught.value.code) == (True, code)
    assert caught.value.next
    assert (root / "CHANGELOG.md").read_text() == before
    assert (root / "changelog.d" / "a.md").read_text() == GOOD


def test_a_release_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="fragments to release"):
        changelog.release(checkout(tmp_path), "0.2.0", "2026-12-01")


def test_a_checkout_without_a_changelog_says_how_to_get_it_back(tmp_path: Path) -> None:
    root = checkout(tmp_path, a=GOOD)
    (root / "CHANGELOG.md").unlink()
    with pytest.raises(LabError, match=r"git checkout -- CHANGELOG\.md"):
        changelog.release(root, "0.2.0", "2026-12-01")


def test_the_command_says_a_wrong_version_plainly() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.rendering", "release", "v1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == EXIT_USAGE
    assert "→ invoke assets.release --version 0.2.0" in done.stderr

"""A profile is one registry entry: four are added to a copy of the checkout, and everything else follows.

The copy's own programs run, as a reader would call them; nothing but the registry is edited.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.environments.layout import REGISTRY_PATH, ROOT
from tools.environments.model import Profile
from tools.environments.registry import registry
from tools.rendering import links

LEFT_BEHIND = (".git", ".nox", ".envs", "runs", "__pycache__", ".*_cache", ".coverage*", ".hypothesis")
NEW = {  # one for each kind of page: handwritten, the guide, generated; and one that judges
    "NEW-CUDA-LAB": {"extends": "TRAIN-CUDA-MECHANISM", "environment": "llm_new_cu128", "cuda130": True},
    "NEW-CPU": {"extends": "BASE-CPU", "environment": "llm_new_cpu"},
    "NEW-PAR-CPU": {"extends": "TRAIN-CPU", "environment": "llm_new_par", "topic": "parallelism", "experiments": []},
    "NEW-DELIVERY": {"extends": "PERF-DELIVERY", "environment": "llm_new_delivery", "judgements": ["new_judgement"]},
}
ADDED = [*NEW, "NEW-CUDA130-LAB"]


def texts(name: str) -> dict[str, str]:
    return {f"{field}{lang}": f"{field}{lang} of {name}" for field in ("title", "purpose") for lang in ("", "_zh")}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with the new entries, its documents renewed."""
    root = tmp_path_factory.mktemp("one") / "checkout"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    path = root / REGISTRY_PATH.relative_to(ROOT)
    document: dict[str, Any] = json.loads(path.read_bytes())
    document["profiles"] += [{"id": name, **texts(name), **entry} for name, entry in NEW.items()]
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    assert run(root, "-m", "tools.rendering", "sync")
    return root


NUMBER = r"(?:[0-9]{2,}|(?:twen|thir|for|fif)ty(?:-\w+)?|\w+teen)"  # from ten up: fewer may be a group of them
NUMBER_ZH = "[二三四五六七八九]?十[一二三四五六七八九]?个"
COUNTED = re.compile(
    rf"(?i)\b{NUMBER} (?:\w+ )?profiles?\b|\ball {NUMBER}\b|{NUMBER_ZH}[^，。；]{{0,6}}Profile|全部{NUMBER_ZH}"
)


def run(root: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def profiles(root: Path) -> dict[str, Profile]:
    return dict(registry.load(root).profiles)


def test_the_loader_knows_them(checkout: Path) -> None:
    known = profiles(checkout)
    assert set(known) == {*registry.load().profiles, *ADDED}
    assert known["NEW-CUDA130-LAB"].companion_of == "NEW-CUDA-LAB"
    assert known["NEW-DELIVERY"].judgements == ("new_judgement",)


def test_preflight_lists_them(checkout: Path) -> None:
    text = run(checkout, "tools/environment_preflight.py", "--list-profiles")
    assert set(ADDED) <= {line.split()[0] for line in text.splitlines() if line}
    assert "title of NEW-DELIVERY; judges new_judgement" in text
    listed = json.loads(run(checkout, "tools/environment_preflight.py", "--list-profiles", "--json"))
    assert [entry["id"] for entry in listed["profiles"]] == list(profiles(checkout))


def test_nox_has_a_session_for_each_the_companion_under_its_parent(checkout: Path) -> None:
    lines = run(checkout, "-m", "nox", "--non-interactive", "-l").splitlines()
    sessions = [line.split()[1] for line in lines if line.startswith("- ")]
    assert [name for name in sessions if name in profiles(checkout)] == list(profiles(checkout))
    for name in NEW:
        assert any(line.startswith(f"- {name} ") and f"title_zh of {name} · title of {name}" in line for line in lines)


def test_the_matrix_has_their_rows(checkout: Path) -> None:
    rows = json.loads(run(checkout, "-m", "invoke", "ci.matrix", "--format", "json"))
    for name, profile in profiles(checkout).items():
        mine = [row for row in rows if row["profile"] == name]
        assert [row["python"] for row in mine] == list(profile.python)
        assert {row["arguments"] for row in mine} == {"" if profile.gpu is None else "--dry-run"}


def test_the_documents_follow_with_every_link_and_anchor(checkout: Path) -> None:
    run(checkout, "-m", "tools.rendering", "check", "--links")
    for profile in profiles(checkout).values():
        for entry in (profile.docs.quickstart, profile.docs.assets):
            name, _, anchor = entry.partition("#")
            for path in (checkout / name, checkout / name.replace(".md", ".zh.md")):
                assert anchor in links.headings(path.read_text(encoding="utf-8")), (profile.id, path.name)
    guide = (checkout / "docs" / "guide.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in guide for name in ADDED)
    page = (checkout / "docs" / "performance_optimization" / "quickstart.md").read_text(encoding="utf-8")
    assert "- judgements: `new_judgement`" in page


def test_each_gets_an_image_and_none_of_the_others_is_changed(checkout: Path) -> None:
    before, after = ((root / ".cnb.yml").read_text(encoding="utf-8").splitlines() for root in (ROOT, checkout))
    assert set(before) <= set(after)
    assert all(f"    - name: image {name}" in after for name in ADDED)


def test_no_document_counts_the_profiles() -> None:
    """Such a number is wrong as soon as somebody adds one."""
    for said in ("Twenty-one environment profiles", "All twenty-one: see", "二十一个环境 Profile", "全部二十一个："):
        assert COUNTED.search(said)
    found = []
    for path in (*ROOT.glob("*.md"), *ROOT.glob("changelog.d/*.md"), *(ROOT / "docs").rglob("*.md")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if COUNTED.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line}")
    assert found == []

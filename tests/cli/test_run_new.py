"""What `new` writes is an experiment of the house: it runs, its test passes, and every check of the house holds.

Of each kind that has a template some are written into a copy of this checkout: into topics that are there and new,
whose names come first and last in order, with short names and with the longest.
"""

from __future__ import annotations

import contextlib
import json
import sysconfig
from itertools import count
from pathlib import Path

import pytest
import stages
from working_tree import command, copy_to

from experiments.cli import new, templates
from tools.environments.errors import LabError

SCRIPTS = Path(sysconfig.get_path("scripts"))
TOPICS = ("a", "quantization", "zzz_a_topic_made_tomorrow")
KINDS = sorted(templates.having_one(), key=lambda kind: (kind != "operator", kind))  # the quickest first
FIRST = {kind: f"first_{kind}" for kind in KINDS}


def longest(kind: str, topic: str, root: Path, end: str) -> str:
    """The longest name with this end that is not refused."""
    name = f"l{end}"
    with contextlib.suppress(LabError):
        for letters in count(1):
            new.refuse_long(dict(templates.find(kind, root).files(topic, longer := f"{'l' * letters}{end}")))
            name = longer
    return name


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy with all of them."""
    root = copy_to(tmp_path_factory.mktemp("new") / "checkout")
    for number, kind in enumerate(KINDS):
        done = command(root, "-m", "experiments", "new", f"{TOPICS[1]}/{FIRST[kind]}", "--kind", kind)
        assert done.returncode == 0, done.stderr
        new.create(f"{TOPICS[0]}/a{number}", kind, (), root)
        new.create(f"{TOPICS[0]}/{longest(kind, TOPICS[0], root, str(number))}", kind, (), root)
        new.create(f"{TOPICS[2]}/z{number}", kind, (), root)
    return root


def test_the_linters_have_nothing_to_say(clone: Path) -> None:
    for words in (("check",), ("format", "--check")):
        done = command(clone, "-m", "ruff", *words, "--no-cache", "experiments", "tests")
        assert done.returncode == 0, done.stdout


def test_all_of_them_are_listed(clone: Path) -> None:
    done = command(clone, "-m", "experiments", "list", "--json")
    assert done.returncode == 0, done.stdout
    listed = {one["name"]: one for one in json.loads(done.stdout)}
    for name in FIRST.values():
        assert listed[name]["profiles"] == ["TRAIN-CPU"]
        assert listed[name]["error"] is None
    assert {name for name in listed if name[-1].isdigit()} >= {f"{a}{n}" for a in "az" for n in range(len(KINDS))}


@pytest.mark.parametrize("kind", stages.few(1, KINDS))
def test_its_test_runs_it_and_passes(clone: Path, kind: str) -> None:
    test = templates.test_of(TOPICS[1], FIRST[kind])
    done = command(clone, "-m", "pytest", "-q", "-p", "no:cacheprovider", test)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_it_runs_as_the_command_says_and_its_record_is_verified(clone: Path, kind: str) -> None:
    name = FIRST[kind]
    done = command(clone, "-m", "experiments", "run", name, "--run-label", kind, "--json")
    assert done.returncode == 0, done.stderr
    verified = command(clone, "-m", "experiments", "results", "verify", kind, "--json")
    assert verified.returncode == 0, verified.stdout
    (answer,) = json.loads(verified.stdout)
    statuses = {check["id"]: check["status"] for check in answer["checks"]}
    assert {statuses[f"record.{one}"] for one in ("kind", "conclusions", "sentences", "summaries")} == {"ok"}, statuses
    shown = command(clone, "-m", "experiments", "show", name)
    assert shown.returncode == 0, shown.stderr
    assert "wrong on purpose" in shown.stdout


@pytest.mark.full
def test_types_imports_documents_and_the_rules_of_the_house_hold(clone: Path) -> None:
    for words in (("sync",), ("check", "--links")):  # as the command says
        rendered = command(clone, "-m", "tools.rendering", *words)
        assert rendered.returncode == 0, rendered.stdout
    typed = command(clone, "-m", "mypy", "--cache-dir", str(clone.parent / "types"))
    assert typed.returncode == 0, typed.stdout
    linted = command(clone, str(SCRIPTS / "lint-imports"), "--no-cache")
    assert linted.returncode == 0, linted.stdout
    house = command(
        clone, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not full", "tests/house", "tests/cli/test_cli.py"
    )
    assert house.returncode == 0, house.stdout

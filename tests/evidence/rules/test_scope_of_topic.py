"""A topic's `shared/` is part of the sources of its experiments' new records, and of no older record."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.evidence import rules, source
from experiments.evidence.rules import CURRENT

OWN = "experiments/topic_a/one"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two topics, of which only the second has something to share."""
    for name in (f"{OWN}/worker.py", "experiments/topic_b/two/worker.py", "experiments/topic_b/shared/tables.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one = 1\n")
    return tmp_path


def digest(tree: Path, own: str, version: int = CURRENT.version) -> str:
    used = rules.KNOWN[version]
    return source.look(used.scope_of(own), tree, takes_part=used.takes_part).digest


def test_a_change_in_shared_is_another_source_for_every_experiment_of_the_topic(tree: Path) -> None:
    other = "experiments/topic_b/two"
    before = {own: digest(tree, own) for own in (OWN, other)}
    (tree / "experiments" / "topic_b" / "shared" / "tables.py").write_text("one = 2\n")
    assert digest(tree, other) != before[other]
    assert digest(tree, OWN) == before[OWN]


def test_a_topic_that_begins_to_share_has_other_sources_from_then_on(tree: Path) -> None:
    before = digest(tree, OWN)
    shared = tree / "experiments" / "topic_a" / "shared" / "deep" / "er.py"
    shared.parent.mkdir(parents=True)
    assert digest(tree, OWN) == before  # an empty folder is no source
    shared.touch()
    assert digest(tree, OWN) != before


def test_the_faults_of_a_page_are_sources_of_new_records_and_of_no_older_one(tree: Path) -> None:
    before = {version: digest(tree, OWN, version) for version in (1, CURRENT.version)}
    (tree / OWN / "mutants.toml").write_text("[a]\n")
    assert digest(tree, OWN) != before[CURRENT.version]
    assert digest(tree, OWN, version=1) == before[1]
    now = digest(tree, OWN)
    (tree / OWN / "__pycache__").mkdir()
    (tree / OWN / "__pycache__" / "left.toml").write_text("[a]\n")
    (tree / OWN / "notes.md").touch()
    assert digest(tree, OWN) == now


def test_records_of_version_1_keep_their_scope(tree: Path) -> None:
    before = digest(tree, "experiments/topic_b/two", version=1)
    (tree / "experiments" / "topic_b" / "shared" / "tables.py").write_text("one = 2\n")
    assert digest(tree, "experiments/topic_b/two", version=1) == before


def test_what_experiments_begin_from_takes_no_part_in_one(tree: Path) -> None:
    own = tree / "experiments" / "kinds" / "one"
    (own / "template").mkdir(parents=True)
    (own / "kind.py").write_text("one = 1\n")
    before = digest(tree, OWN)
    (own / "template" / "worker.py").write_text("one = 1\n")
    assert digest(tree, OWN) == before
    (own / "template.py").write_text("one = 1\n")
    assert digest(tree, OWN) != before

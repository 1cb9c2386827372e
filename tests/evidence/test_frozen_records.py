"""The committed records are frozen: bytes, digests, claims, level, limits, decision, and what `verify` answers.

tests/data/frozen_records.json holds what the commit it names said of each. An answer that `verify` adds is no change.
A record committed later is added by this command, which leaves every entry that is there as it is:

    PYTHONPATH=. python tests/evidence/test_frozen_records.py --write
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from experiments.evidence import rules, source, store
from experiments.evidence.digests import digest_of
from experiments.evidence.record import Record
from tools.environments.errors import LabError
from tools.environments.layout import ROOT

EXPECTED = ROOT / "tests" / "data" / "frozen_records.json"
RESULTS = ROOT / "experiments" / "results"
BY_HISTORY = "record.sources"  # the one question that git history answers


def _expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return found


FROZEN: Mapping[str, Any] = _expected()["records"]


def answers(data: bytes) -> dict[str, Any]:
    """What the lab reads in a record's bytes and computes from them, `verify` apart."""
    record = store.parse(data, "a frozen record")
    document = record.to_json()
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "digests": {
            "record, computed": digest_of(document),
            "workload.knobs, computed": digest_of(record.workload.knobs),
            **dict(_digests(document, "")),
        },
        "evidence_level": document["evidence_level"],
        "limits": document["limits"],
        "claims": document["claims"],
        "decision": document["decision"],
        "graded": _graded(record),
    }


def _digests(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every field of a document whose name ends in digest, by its place."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("digest") and isinstance(inner, str):
                yield f"{place}{name}", inner
            yield from _digests(inner, f"{place}{name}.")


def _graded(record: Record) -> dict[str, Any]:
    """Level and limits as computed now, by their codes: advice in a limit's text may follow the commands it names."""
    grade = rules.of(record).grade(record)
    return {
        "level": grade.level,
        "limits": [limit.code for limit in grade.limits],
        "claims": [[claim.level, *(limit.code for limit in claim.limits)] for claim in grade.claims],
    }


def verify() -> dict[str, dict[str, str]]:
    """Status by check of each committed record, as the command answers it."""
    environment = {name: value for name, value in os.environ.items() if name != "TMLAB_RESULTS"}
    command = (sys.executable, "-m", "experiments", "results", "verify", "--json")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {
        entry["record"]: {check["id"]: check["status"] for check in entry["checks"]}
        for entry in json.loads(done.stdout)
    }


@pytest.fixture(scope="module")
def verified() -> dict[str, dict[str, str]]:
    """The command is run once for all."""
    return verify()


def full_history() -> bool:
    """Whether this is a clone that has the commit the expectations were made from, and is not cut off below it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    asked = ("git", "-C", os.fspath(ROOT), "rev-parse", "--is-shallow-repository")
    try:
        done = subprocess.run(asked, env=clean, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return False
    known = source.digest_at(_expected()["made_from"], ("experiments/results",), ROOT) is not None
    return source.has_git(ROOT) and done.stdout.strip() == "false" and known


@pytest.mark.parametrize("name", FROZEN)
def test_a_record_says_what_it_said(name: str) -> None:
    expected = {part: value for part, value in FROZEN[name].items() if part != "verify"}
    assert answers((RESULTS / f"{name}.json").read_bytes()) == expected


@pytest.mark.parametrize("name", FROZEN)
def test_verify_answers_what_it_answered(name: str, verified: dict[str, dict[str, str]]) -> None:
    expected = {check: status for check, status in FROZEN[name]["verify"].items() if check != BY_HISTORY}
    assert {check: verified[name].get(check) for check in expected} == expected


@pytest.mark.parametrize("name", FROZEN)
def test_in_a_full_clone_each_record_belongs_to_a_commit(name: str, verified: dict[str, dict[str, str]]) -> None:
    if not full_history():
        pytest.skip("git history is absent or cut off")
    assert verified[name].get(BY_HISTORY) == FROZEN[name]["verify"][BY_HISTORY]


def test_every_committed_record_is_frozen() -> None:
    assert {f"{path.parent.name}/{path.stem}" for path in RESULTS.rglob("*.json")} == FROZEN.keys()


def _replaced(before: bytes, after: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(before, after)


@pytest.mark.parametrize(
    ("edit", "parts"),
    [
        (lambda data: data + b"\n", {"sha256"}),
        (_replaced(b"largest relative", b"smallest relative"), {"sha256", "digests", "claims"}),
        (
            _replaced(b'"reason": "random weights', b'"reason": "some weights'),
            {"sha256", "digests", "claims", "limits"},
        ),
        (_replaced(b'"code": "inconclusive"', b'"code": "adopt"'), {"sha256", "digests", "decision"}),
        (_replaced(b'"registry_digest": "sha256:73a', b'"registry_digest": "sha256:000'), {"sha256", "digests"}),
    ],
    ids=["bytes", "statement", "limit", "decision", "digest"],
)
def test_an_edit_shows(edit: Callable[[bytes], bytes], parts: set[str]) -> None:
    name = "mixed_precision_backward/h200-a"
    data = (RESULTS / f"{name}.json").read_bytes()
    edited = edit(data)
    assert edited != data
    found = answers(edited)
    assert {part for part, value in found.items() if value != FROZEN[name][part]} == parts


def test_an_edited_level_is_not_even_read() -> None:
    data = (RESULTS / "mixed_precision_backward/h200-a.json").read_bytes()
    with pytest.raises(LabError, match="as recomputed"):
        answers(data.replace(b'"evidence_level": "gpu_measured"', b'"evidence_level": "gpu_smoke"'))


def add() -> None:
    """Freeze what is committed and not frozen yet; entries that are there stay as they are."""
    whole, verified = _expected(), verify()
    for path in sorted(RESULTS.rglob("*.json")):
        name = f"{path.parent.name}/{path.stem}"
        if name not in whole["records"]:
            whole["records"][name] = {**answers(path.read_bytes()), "verify": verified[name]}
    EXPECTED.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    add()

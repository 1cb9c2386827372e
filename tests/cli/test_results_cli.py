"""`results` and the command line around it: list, verify, promote, clear, and errors without tracebacks."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import record_command
from record_command import LABEL, NAME, call, run_of
from sample_records import cpu_record, gpu_record

from experiments.cli import discovery, results_verify
from experiments.cli import results as results_command
from experiments.evidence import labels, source, store
from experiments.evidence.record import Record
from experiments.evidence.rules.v2 import statistics
from experiments.evidence.sentences import decision, say
from tools.environments.errors import LabError
from tools.environments.layout import ROOT


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return record_command.folders(tmp_path, monkeypatch)


def committed() -> Record:
    """A record whose sources are those of this checkout's own commit."""
    scope = ("experiments/__init__.py", "tools/__init__.py")
    return gpu_record(source=source.look(scope, ROOT))


def test_nothing_yet(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "results", "list")[0] == 0
    code, out, _ = call(capsys, "results", "list", "--json")
    assert (code, json.loads(out)) == (0, [])
    assert "no committed records yet" in call(capsys, "results", "verify")[1]


def test_the_list_tells_finished_interrupted_and_unreadable(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(gpu_record())
    torn = labels.record_path(NAME, "torn")
    torn.parent.mkdir(parents=True)
    torn.write_text("{")
    begun = labels.run_folder(NAME, "begun")
    begun.mkdir(parents=True)
    (begun / "journal.jsonl").write_text("{}\n")
    _, out, _ = call(capsys, "results", "list", "--json")
    told = {row["run_label"]: row for row in json.loads(out)}
    assert {label: row["state"] for label, row in told.items()} == {
        LABEL: "finished",
        "torn": "unreadable",
        "begun": "interrupted",
    }
    assert told[LABEL]["evidence_level"] == "gpu_measured"
    assert "JSON" in told["torn"]["error"]
    code, out, _ = call(capsys, "results", "list")
    assert code == 0
    assert "gpu_measured" in out
    assert "interrupted" in out


def test_a_record_in_the_wrong_place_is_not_that_run(capsys: pytest.CaptureFixture[str]) -> None:
    path = run_of(gpu_record())
    other = labels.record_path("activation_offload", LABEL)
    other.parent.mkdir(parents=True)
    path.rename(other)
    _, out, _ = call(capsys, "results", "list", "--json")
    (row,) = json.loads(out)
    assert row["state"] == "unreadable"
    assert f"{NAME}/{LABEL}" in row["error"]


def test_promote_copies_a_verified_record_and_only_once(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    path = run_of(committed())
    code, out, _ = call(capsys, "results", "promote", LABEL)
    target = places / "results" / NAME / f"{LABEL}.json"
    assert code == 0
    assert f"git add results/{NAME}/{LABEL}.json" in out
    assert target.read_bytes() == path.read_bytes()
    code, _, err = call(capsys, "results", "promote", LABEL)
    assert code == 1
    assert "never replaced" in err
    _, out, _ = call(capsys, "results", "list", "--json")
    assert [row["state"] for row in json.loads(out)] == ["promoted"]
    code, out, _ = call(capsys, "results", "verify")
    assert code == 0
    assert "valid, gpu_measured" in out


def test_promote_refuses_sources_that_are_of_no_commit(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    run_of(gpu_record())
    code, _, err = call(capsys, "results", "promote", LABEL)
    assert code == 1
    assert "record.sources" in err
    assert "commit the sources" in err
    assert not (places / "results").exists()


def test_promote_refuses_plans_torn_and_interrupted_runs(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    plan = replace(committed(), identity=replace(committed().identity, run_mode="dry_run"))
    plan = replace(plan, evidence_level=None, candidates=(), noise_floors=(), comparisons=(), claims=())
    run_of(plan)
    assert "a plan" in call(capsys, "results", "promote", LABEL)[2]
    begun = labels.run_folder(NAME, "begun")
    begun.mkdir(parents=True)
    (begun / "journal.jsonl").write_text("{}\n")
    assert "--resume begun" in call(capsys, "results", "promote", "begun")[2]
    torn = labels.record_path(NAME, "torn")
    torn.parent.mkdir(parents=True)
    torn.write_text("{")
    code, _, err = call(capsys, "results", "promote", "torn")
    assert (code, "JSON" in err) == (1, True)
    assert not (places / "results").exists()


def forged() -> dict[str, Record]:
    record = committed()
    step = record.candidates[2].summary
    assert step is not None
    prettier = replace(step, intervals={**step.intervals, "step_ms": replace(step.intervals["step_ms"], median=1.0)})
    better = (*record.candidates[:2], replace(record.candidates[2], summary=prettier), record.candidates[3])
    quiet = tuple(replace(floor, relative=0.0) for floor in record.noise_floors)
    kind = tuple(replace(c, verdict="faster") for c in record.comparisons)
    eve = replace(record, decision=decision("adopt", say({"a": "see {place}"}, "a", place="/" + "home/eve/notes")))
    free = replace(record.claims[0], statement="100 x faster on any card")
    return {
        "record.summaries": replace(record, candidates=better),
        "record.comparisons": replace(record, noise_floors=quiet),
        "record.comparisons ": replace(record, comparisons=kind),
        "record.privacy": eve,
        "record.sentences": replace(record, claims=(free, *record.claims[1:])),
    }


@pytest.mark.parametrize(
    "check",
    ["record.summaries", "record.comparisons", "record.comparisons ", "record.privacy", "record.sentences"],
)
def test_a_forged_record_is_found_out(check: str, capsys: pytest.CaptureFixture[str], places: Path) -> None:
    path = labels.record_path(NAME, LABEL)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(forged()[check].to_json()), encoding="utf-8")
    code, out, _ = call(capsys, "results", "verify", LABEL, "--json")
    (told,) = json.loads(out)
    assert (code, told["status"]) == (1, "blocked")
    assert [c["id"] for c in told["checks"] if c["status"] == "blocked"] == [check.strip()]
    assert call(capsys, "results", "promote", LABEL)[0] == 1
    assert not (places / "results").exists()


def test_verify_tells_what_it_recomputed(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(committed())
    code, out, _ = call(capsys, "results", "verify", LABEL)
    assert code == 0
    for words in ("ok", "recomputed from 45 samples", "record.workload", "record.sources", "nothing found"):
        assert words in out


def test_a_copied_record_is_refused_among_the_results(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    run_of(committed())
    assert call(capsys, "results", "promote", LABEL)[0] == 0
    folder = places / "results" / NAME
    (folder / "zz.json").write_bytes((folder / f"{LABEL}.json").read_bytes())
    code, out, _ = call(capsys, "results", "verify")
    assert (code, f"blocked · {NAME}/zz\n" in out) == (1, True)
    code, out, _ = call(capsys, "report", "--json")
    told = json.loads(out)
    assert (code, len(told["refused"]), sum(len(row["run_labels"]) for row in told["rows"])) == (1, 1, 1)


def test_verify_of_a_broken_or_missing_record_is_blocked(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    (places / "torn.json").write_text("{")
    code, out, _ = call(capsys, "results", "verify", "torn.json", "nobody")
    assert code == 1
    assert out.count("record.valid") == 2


def test_a_workload_that_is_registered_otherwise_now_is_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(committed())
    for digests in ({}, {NAME: {"large": "sha256:" + "00" * 32}}):
        monkeypatch.setattr(discovery, "registered_digests", lambda digests=digests: digests)
        code, out, _ = call(capsys, "results", "verify", LABEL, "--json")
        assert (code, json.loads(out)[0]["status"]) == (0, "warning")


def test_an_unregistered_workload_and_a_folder_without_git_are_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of(gpu_record(workload=replace(gpu_record().workload, registered_digest=None)))
    monkeypatch.setattr(source, "has_git", lambda root: False)
    _, out, _ = call(capsys, "results", "verify", LABEL, "--json")
    told = {check["id"]: check["status"] for check in json.loads(out)[0]["checks"]}
    assert (told["record.workload"], told["record.sources"]) == ("skipped", "skipped")


def test_clear_moves_aside_and_deletes_nothing(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    path = run_of(gpu_record())
    content = path.read_bytes()
    code, out, _ = call(capsys, "results", "clear", LABEL)
    assert (code, "moved" in out) == (0, True)
    assert not path.exists()
    (kept,) = (places / "runs" / labels.CLEARED).glob("*/*/record.json")
    assert kept.read_bytes() == content
    assert call(capsys, "results", "clear", LABEL)[0] == 1
    run_of(gpu_record())
    assert call(capsys, "results", "clear", LABEL)[0] == 0  # twice the same label: two places
    assert len(list((places / "runs" / labels.CLEARED).glob("*/*/record.json"))) == 2


def test_clear_never_touches_a_promoted_record(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    path = run_of(committed())
    call(capsys, "results", "promote", LABEL)
    other = run_of(cpu_record())
    code, out, _ = call(capsys, "results", "clear", LABEL)
    assert code == 0
    assert f"kept    {NAME}/{LABEL}" in out
    assert path.exists()
    assert (places / "results" / NAME / f"{LABEL}.json").exists()
    assert not other.exists()
    assert call(capsys, "results", "clear", LABEL, "--json")[0] == 1


def test_clear_leaves_a_run_that_is_going_on(capsys: pytest.CaptureFixture[str]) -> None:
    folder = labels.run_folder(NAME, "going")
    folder.mkdir(parents=True)
    with (folder / "journal.jsonl").open("w") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        code, _, err = call(capsys, "results", "clear", "going")
    assert (code, "it is going on" in err) == (1, True)
    assert folder.exists()


@pytest.mark.parametrize("action", ["promote", "clear", "verify", "show"])
@pytest.mark.parametrize("label", ["", "..", "a..b", "x" * 65, "a b", "/etc/passwd", "../x"])
def test_labels_that_are_none_are_refused(action: str, label: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "results", action, label)
    assert code in (1, 2)
    assert "blocked" in err + out
    assert "Traceback" not in err


def test_a_label_used_by_two_experiments_has_to_be_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(gpu_record())
    run_of(cpu_record())
    code, _, err = call(capsys, "results", "show", LABEL)
    assert (code, "--experiment" in err) == (2, True)
    code, out, _ = call(capsys, "results", "show", LABEL, "--experiment", NAME)
    assert (code, "every layer" in out) == (0, True)


def test_an_error_with_json_is_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "results", "promote", "nobody", "--json")
    told = json.loads(out)
    assert (code, err, told["status"]) == (1, "", "blocked")
    assert set(told) == {"status", "wanted", "found", "next", "where"}


def test_the_list_says_why_a_file_does_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    torn = labels.record_path(NAME, "torn")
    torn.parent.mkdir(parents=True)
    torn.write_text("{")
    code, out, _ = call(capsys, "results", "list")
    assert code == 0
    assert "blocked" in out
    assert "wanted JSON" in out


def test_a_run_folder_that_cannot_be_moved_is_a_finding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(gpu_record())

    def refuse(*_: object) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(os, "rename", refuse)
    code, _, err = call(capsys, "results", "clear", LABEL)
    assert (code, "Permission denied" in err) == (1, True)


def test_summaries_are_compared_to_the_last_bits_only() -> None:
    record = gpu_record()
    taken = record.candidates[0]
    assert taken.summary == statistics.summarise(taken.name, taken.samples, record.quantities)


def test_a_usage_error_among_labels_is_still_wrong_usage() -> None:
    with pytest.raises(LabError, match="run label"):
        results_verify._entry("..x", None)
    assert results_command.ABOUT.keys() >= {"list", "show", "verify", "promote", "clear"}


def test_several_records_are_told_in_a_line_each_unless_something_stands_in_the_way(
    capsys: pytest.CaptureFixture[str], places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run_of(committed())
    measured = ROOT / "experiments" / "results" / "gradient_accumulation" / "2026-11-30-b.json"
    (places / "good.json").write_bytes(measured.read_bytes())
    registered = [store.read(path).workload, store.read(measured).workload]
    digests = {NAME: {registered[0].name: registered[0].digest}, measured.parent.name: {"smoke": registered[1].digest}}
    monkeypatch.setattr(discovery, "registered_digests", lambda: digests)
    (places / "torn.json").write_text("{")
    code, out, _ = call(capsys, "results", "verify", "good.json", str(path), "torn.json")
    assert code == 1
    assert "ok · good.json · cpu_mechanism · numerics_ok\n" in out
    assert f"warning · {path.relative_to(places)} · gpu_measured · {committed().decision.code}\n" in out
    assert out.count("record.conclusions") == 1
    assert "blocked · torn.json\n  blocked   record.valid" in out
    assert "record.summaries" not in out

"""`show` and the text of a record: the table, what it says, what it does not, how to reproduce it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import record_command
from record_command import NAME, call, run_of
from sample_records import H200, candidate, cpu_record, gpu_record, second

from experiments import kinds
from experiments.cli import discovery
from experiments.evidence import labels, record_text, validation
from experiments.evidence.candidate import Failure, Floor
from experiments.evidence.limits import LEVEL_LIMITS
from experiments.evidence.quantities import gib, milliseconds, percent
from experiments.evidence.record import Record
from experiments.kinds.training_step.kind import WORDS


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return record_command.folders(tmp_path, monkeypatch)


def test_a_gpu_record_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(gpu_record())
    code, out, _ = call(capsys, "show", NAME)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == (
        "large: 8 x 1024, bf16, SGD · Qwen/Qwen2.5-0.5B shape, random weights · one NVIDIA H200 · gpu_measured"
    )
    assert lines[2].split("   ")[0].strip() == "candidate"
    for words in (
        "step ms (95 % interval)",
        "vs none",
        "after forward GiB",
        "where",
        "+22 % slower",
        "out of memory in backward",
        "loss head",
        "noise floor",
        "says          every layer peaks at 12.00 GiB allocated, none at 58.00",
        "does not say  anything about loss quality",
        "or other cards",
        "→ --workload fit-8gib",
        "--workload large --profile TRAIN-CUDA130-MECHANISM --run-mode real_gpu",
        "--run-label NEW",
    ):
        assert words in out, words


def test_two_runs_that_agree_are_said_to(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(gpu_record())
    run_of(second())
    _, out, _ = call(capsys, "show", NAME)
    assert "runs agree (gpu_reproduced)" in out.splitlines()[0]
    assert "others        2026-12-01-a" in out


def test_a_path_a_folder_and_a_label_show_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    path = run_of(gpu_record())
    shown = [
        call(capsys, "show", str(path)),
        call(capsys, "show", str(path.parent)),
        call(capsys, "show", NAME, "--run-label", "2026-12-01-a"),
        call(capsys, "show", NAME, "--device", "h200"),
        call(capsys, "show", NAME, "--workload", "large"),
    ]
    assert len(set(shown)) == 1
    assert shown[0][0] == 0


def test_options_that_fit_nothing_offer_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(gpu_record())
    for option, value, offered in (
        ("--device", "L40", "NVIDIA H200"),
        ("--workload", "smoke", "large"),
        ("--run-label", "z", "2026-12-01-a"),
    ):
        code, _, err = call(capsys, "show", NAME, option, value)
        assert (code, offered in err) == (2, True)


def test_the_best_level_comes_first_then_the_newest(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(gpu_record())
    newer = replace(second().identity, run_label="dirty", created_at="2026-12-09T10:00:00Z")
    run_of(gpu_record(identity=newer, source=replace(gpu_record().source, dirty=True)))
    _, out, _ = call(capsys, "show", NAME, "--json")
    assert json.loads(out)["identity"]["run_label"] == "2026-12-01-a"


def test_json_is_the_record_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(gpu_record())
    code, out, err = call(capsys, "show", NAME, "--json")
    assert (code, err) == (0, "")
    assert Record.from_json(json.loads(out)) == gpu_record()


def test_what_cannot_be_shown_is_a_finding(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    (places / "torn.json").write_text('{"identity": ')
    (places / "empty").mkdir()
    for argv, code in (
        (("torn.json",), 1),
        (("missing.json",), 1),
        (("empty",), 1),
        (("./nowhere/",), 1),
        (("mixed_precision_backwards",), 2),
        (("mixed_precision_backward",), 1),
    ):
        found, _, err = call(capsys, "show", *argv)
        assert (found, err.startswith("blocked"), "→" in err) == (code, True, True), argv


def test_an_interrupted_run_is_offered_to_be_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    folder = labels.run_folder("mixed_precision_backward", "begun")
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text("{}\n")
    assert "begun (interrupted)" in call(capsys, "show", "mixed_precision_backward")[2]
    assert "--resume begun" in call(capsys, "results", "show", "begun")[2]


def test_an_experiment_that_left_the_checkout_is_still_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(gpu_record())
    monkeypatch.setattr(discovery, "packages", dict)
    code, out, _ = call(capsys, "show", NAME)
    assert (code, "every layer" in out) == (0, True)


def test_a_cpu_record_never_speaks_of_cards(capsys: pytest.CaptureFixture[str]) -> None:
    path = run_of(cpu_record())
    code, out, _ = call(capsys, "show", str(path))
    assert code == 0
    assert "does not say  anything about GPU memory or speed" in out
    assert "or other machines" in out
    assert "CPU (Some CPU)" in out.splitlines()[0]


def test_columns_without_a_value_are_left_out() -> None:
    head, rows = record_text.table(cpu_record(), {})
    assert head == ("candidate", "step ms (95 % interval)", "vs fp32")
    assert [row[0] for row in rows] == ["fp32 (baseline)", "fp32 again (A/A)", "fp16 + scaler"]


def test_marks_are_told_with_what_to_do() -> None:
    marked = replace(gpu_record().candidates[2], marks=("head_limited", "launch_bound"))
    _, rows = record_text.table(gpu_record(candidates=(*gpu_record().candidates[:2], marked)), WORDS.marks)
    assert rows[2][-1] == "head_limited: try --head chunked · launch_bound: the device waits for Python"


def test_failed_and_skipped_candidates_have_their_own_words() -> None:
    failure = Failure(phase="warm_up", kind="Killed", message="signal 9")
    lost = candidate("lost", "candidate", 1.0, 9, status="failed", failure=failure, samples=(), summary=None)
    _, rows = record_text.table(gpu_record(candidates=(*gpu_record().candidates[:2], lost)), {})
    assert rows[2][1] == "failed in warm-up"
    _, rows = record_text.table(
        gpu_record(candidates=(*gpu_record().candidates[:2], replace(lost, status="skipped"))), {}
    )
    assert rows[2][1] == "skipped"


def test_floors_and_caps_are_told() -> None:
    floor = Floor(quantity="step_ms", limited_by="pinned bandwidth", unit="ms", floor=690.0, distance=1.05)
    state = Floor(quantity="peak_allocated_bytes", limited_by="state bytes", unit="bytes", floor=2.0 * 2**30)
    layer = replace(gpu_record().candidates[2], floors=(floor, state))
    record = gpu_record(
        candidates=(*gpu_record().candidates[:2], layer),
        runtime=replace(gpu_record().runtime, devices=(replace(H200, memory_cap_gib=12.0),)),
    )
    told = record_text.floors(record)
    assert "pinned bandwidth 690.0 ms: every layer at 1.05x" in told
    assert "state bytes 2.00 GiB" in told
    assert record_text.device(record) == "one NVIDIA H200 capped at 12 GiB"
    assert "--memory-cap-gib 12" in kinds.reproduce(record)


def test_a_floor_that_several_share_is_told_once_and_without_the_twin() -> None:
    rate = Floor(quantity="step_ms", limited_by="bfloat16 matmul rate", unit="ms", floor=7.87)
    none, twin, every, lost = gpu_record().candidates
    record = gpu_record(
        candidates=(
            replace(none, floors=(replace(rate, distance=2.0),)),
            replace(twin, floors=(replace(rate, distance=1.9),)),
            replace(every, floors=(replace(rate, distance=2.5),)),
            replace(lost, floors=(rate,)),
        ),
        noise_floors=(),
    )
    assert record_text.floors(record) == "bfloat16 matmul rate 7.87 ms: none at 2.00x · every layer at 2.50x"


def test_a_claim_of_a_lower_level_says_so() -> None:
    quality = replace(gpu_record().claims[0], kind="quality", statement="loss fell", rests_on=())
    assert "loss fell (only plan)" in record_text.says(gpu_record(claims=(quality,)))


def test_every_limit_of_a_level_has_its_silence() -> None:
    assert set(LEVEL_LIMITS) <= set(record_text.SILENCES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (milliseconds(20233.4), "20233"),
        (milliseconds(222.64), "222.6"),
        (milliseconds(12.25), "12.2"),
        (milliseconds(7.361), "7.36"),
        (milliseconds(0.0413), "0.0413"),
        (milliseconds(None), ""),
        (gib(58.1 * 2**30), "58.1"),
        (gib(7.362 * 2**30), "7.36"),
        (gib(None), ""),
        (gib(0), "0"),
        (percent(0.22, signed=True), "+22 %"),
        (percent(-0.004, signed=True), "-0.4 %"),
        (percent(0.008), "0.8 %"),
        (percent(0.0004), "0.04 %"),
        (percent(None), ""),
    ],
)
def test_numbers(text: str, expected: str) -> None:
    assert text == expected


def test_the_newest_record_that_does_not_read_is_told_and_not_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(gpu_record())
    torn = run_of(second())
    torn.write_bytes(torn.read_bytes()[:500])
    label = torn.parent.name
    code, out, _ = call(capsys, "show", NAME)
    assert code == 0
    assert f"unreadable    {label}  → python -m experiments results verify {label}" in out
    code, _, err = call(capsys, "show", NAME, "--run-label", label)
    assert code == 1
    assert "a record is never edited" in err
    assert "mend that line" not in err


def test_a_changed_workload_is_called_so_and_can_be_reproduced(capsys: pytest.CaptureFixture[str]) -> None:
    changed = replace(gpu_record().workload, registered_digest="sha256:" + "0" * 64)
    run_of(gpu_record(workload=changed))
    _, out, _ = call(capsys, "show", NAME)
    assert out.startswith("large, changed: 8 x 1024")
    assert "--run-mode real_gpu --steps 5 --rounds 3 --precision auto --batch 8 --sequence 1024 --model" in out
    assert "--batch" not in kinds.reproduce(gpu_record())
    assert call(capsys, "show", NAME, "--workload", "large")[0] == 2
    newer = replace(second().identity, run_label="newer", created_at="2026-12-09T10:00:00Z")
    run_of(cpu_record())
    run_of(cpu_record(identity=replace(newer, run_mode="cpu_mechanism"), workload=changed))
    best = json.loads(call(capsys, "show", cpu_record().identity.experiment, "--json")[1])
    assert best["identity"]["run_label"] == cpu_record().identity.run_label


def test_how_to_reproduce_names_the_weights() -> None:
    record = gpu_record()
    hub = replace(record.model, weights_source="hub", resolved_commit="c0" * 20)
    assert f"--model-source hub --revision {'c0' * 20}" in kinds.reproduce(gpu_record(model=hub))
    local = replace(record.model, weights_source="local")
    assert "--model-source local --model FOLDER" in kinds.reproduce(gpu_record(model=local))


def test_without_the_package_that_validates_the_environment_is_to_blame_and_not_the_record(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(cpu_record())
    monkeypatch.setattr(validation, "_validator", validation._validator.__wrapped__)
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    name = cpu_record().identity.experiment
    for argv in (("show", name), ("results", "list"), ("run", name, "--run-mode", "dry_run", "--run-label", "dry")):
        code, out, err = call(capsys, *argv)
        assert (code, out) == (1, "")
        assert "the package jsonschema" in err
    assert not labels.run_folder(name, "dry").exists()

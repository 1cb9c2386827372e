"""`python -m experiments run` as a user meets it: what it prints, what it refuses, what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from stages import few
from zygote import ROOT, Forks, Zygote

from experiments.evidence import store

NAME = "mixed_precision_backward"
SMALL = ("--batch", "1", "--sequence", "16", "--steps", "1", "--rounds", "1", "--warmup", "0")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def zygote(forks: Zygote, runs: Path) -> Forks:
    return forks.at(runs)


@pytest.mark.slow
def test_the_smoke_run_in_a_new_interpreter_writes_a_valid_record_and_prints_only_json(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments", "run", NAME, "--json", "--run-label", "first"]
    environment = {**os.environ, "TMLAB_RUNS": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    record = store.read(tmp_path / NAME / "first" / "record.json")
    assert printed == record.to_json()
    assert record.evidence_level == "cpu_mechanism"
    assert record.workload.registered
    assert record.profile.preflight is not None
    assert record.decision.code == "numerics_ok"
    assert {claim.kind for claim in record.claims} == {"gradient_equivalence", "scaler_semantics"}
    assert done.stderr == ""


def test_a_person_gets_the_table_the_level_and_the_picture(zygote: Forks, runs: Path) -> None:
    done = zygote.run("run", NAME, *SMALL, "--run-label", "table")
    assert done.code == 0, done.stderr
    for word in ("fp32 (baseline)", "fp16 + scaler", "65536 → 32768", "cpu_mechanism", "record.json", "gradients.svg"):
        assert word in done.stdout
    assert "tf32 did not run" in done.stdout
    assert "unregistered" not in done.stderr
    picture = (runs / NAME / "table" / "gradients.svg").read_text(encoding="utf-8")
    assert picture.startswith("<?xml")
    assert "fp16, unscaled" in picture
    assert "gate / fp32  ok" in done.stderr  # plain lines where there is no terminal
    verified = zygote.run("results", "verify", "table")
    assert verified.code == 0, verified.stdout
    assert "record.conclusions" in verified.stdout


def test_events_are_one_json_object_per_line(zygote: Forks) -> None:
    done = zygote.run("run", NAME, *SMALL, "--json-events", "--run-label", "events")
    assert done.code == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[-1] == "finished"
    assert kinds.count("task_began") == kinds.count("task_ended") == events[kinds.index("began")]["tasks"]
    assert events[-1]["level"] == "cpu_mechanism"


def test_a_dry_run_is_a_plan_and_needs_no_torch(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from experiments.cli.entry import main\n"
        f"code = main(['run', '{NAME}', '--run-mode', 'dry_run', '--workload', 'default', '--run-label', 'dry'])\n"
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules), 'imported torch'\n"
        "sys.exit(code)"
    )
    environment = {**os.environ, "TMLAB_RUNS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    record = store.read(tmp_path / NAME / "dry" / "record.json")
    assert record.evidence_level == "plan"
    assert record.profile.preflight is None
    assert record.procedure is None
    assert {candidate.status for candidate in record.candidates} == {"skipped"}
    assert not any(candidate.samples for candidate in record.candidates)
    assert "plan" in done.stdout


def test_real_gpu_without_a_card_is_blocked_with_the_repair(zygote: Forks, runs: Path) -> None:
    done = zygote.run("run", NAME, "--profile", "TRAIN-CUDA-MECHANISM", "--run-label", "card")
    assert done.code == 1
    assert done.stderr.splitlines()[-4].startswith("blocked")
    assert "→" in done.stderr
    assert not (runs / NAME / "card").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--workload", "smok"), 2, ("--workload", "smoke, default, fit-8gib, large")),
        (("--profile", "TRAIN-CPUX"), 2, ("TRAIN-CPU",)),
        (("--run-mode", "real_gpu", "--profile", "TRAIN-CPU"), 2, ("CUDA profile",)),
        (("--batch", "0"), 2, ("--batch", "at least 1", "found  0")),
        (("--sequence", "513"), 2, ("512 positions", "--sequence")),
        (("--sequence", "1"), 2, ("at least 2",)),
        (("--rounds", "0"), 2, ("--rounds",)),
        (("--piece-of", "0"), 2, ("--piece-of",)),
        (("--model", "tiny-qwen"), 2, ("tiny-qwen2",)),
        (("--model-source", "local", "--model", "/nonexistent/model"), 2, ("model",)),
        (("--revision", "main"), 2, ("--revision", "random weights")),
        (("--run-label", "../up"), 2, ("label",)),
        (("--run-label", "a/b"), 2, ("label",)),
        (("--run-label", ""), 2, ("label",)),
        (("--memory-cap-gib", "0"), 2, ("--memory-cap-gib",)),
        (("--memory-cap-gib", "nan"), 2, ("--memory-cap-gib",)),
        (("--model", "Qwen/Qwen2.5-0.5B", "--memory-cap-gib", "3"), 1, ("model's state: 3.68 GiB",)),
        (("--accept", "no.such.check"), 2, ("no.such.check",)),
        (("--resume", "never"), 1, ("no run labelled never",)),
        (("--resume", "x", "--batch", "2"), 2, ("--resume LABEL alone",)),
    ],
)
def test_wrong_input_is_refused_in_words_and_nothing_is_left(
    zygote: Forks, runs: Path, arguments: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    before = sorted(runs.rglob("*"))
    done = zygote.run("run", NAME, *arguments)
    assert done.code == code, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert "→" in done.stderr
    assert sorted(path for path in runs.rglob("*") if path.is_file()) == [path for path in before if path.is_file()]


def test_a_label_is_used_once(zygote: Forks) -> None:
    assert zygote.run("run", NAME, *SMALL, "--run-label", "once").code == 0
    again = zygote.run("run", NAME, *SMALL, "--run-label", "once")
    assert again.code != 0
    assert "finished record" in again.stderr
    assert "choose another label" in again.stderr


@pytest.mark.race
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(zygote: Forks, runs: Path, repetition: int) -> None:
    label = f"stopped-{repetition}"
    run = zygote.start("run", NAME, *SMALL, "--rounds", "3", "--run-label", label)
    journal = runs / NAME / label / "journal.jsonl"
    _until(lambda: journal.exists() and journal.read_bytes().count(b'"task"') >= 3)
    run.kill(signal.SIGINT)
    done = run.wait()
    assert done.code == 130
    assert "finished tasks are kept" in done.stderr
    assert f"resume   python -m experiments run {NAME} --resume {label}" in done.stderr
    resumed = zygote.run("run", NAME, "--resume", label)
    assert resumed.code == 0, resumed.stderr
    assert f"going on with {label}" in resumed.stderr


@pytest.mark.race
def test_two_runs_of_one_label_at_once_the_second_is_told(zygote: Forks, runs: Path, repetition: int) -> None:
    label = f"both-{repetition}"
    first = zygote.start("run", NAME, *SMALL, "--rounds", "3", "--run-label", label)
    journal = runs / NAME / label / "journal.jsonl"
    _until(journal.exists)
    second = zygote.run("run", NAME, "--resume", label)
    assert second.code == 1
    assert "another process is writing" in second.stderr
    assert first.wait().code == 0


def test_a_resumed_run_whose_model_changed_stops(zygote: Forks, runs: Path) -> None:
    journal = _interrupted(zygote, runs, "moved")
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    plan = json.loads(lines[0])
    plan["plan"]["subject"]["model"]["config_digest"] = "sha256:" + "0" * 64
    journal.write_text(json.dumps(plan) + "\n" + "".join(lines[1:]), encoding="utf-8")
    done = zygote.run("run", NAME, "--resume", "moved")
    assert done.code == 1
    assert "the configuration this run began with" in done.stderr


def test_a_local_model_runs_its_folder_stays_private_and_other_weights_stop_a_resume(
    zygote: Forks, runs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "my-secret-model"
    _write_tiny_model(folder, seed=3)
    local = ("--model-source", "local", "--model", str(folder))
    done = zygote.run("run", NAME, *SMALL, *local, "--run-label", "local")
    assert done.code == 0, done.stderr
    record = store.read(runs / NAME / "local" / "record.json")
    assert record.model.weights_source == "local"
    assert record.model.weights_digest is not None
    assert "secret" not in (runs / NAME / "local" / "record.json").read_text(encoding="utf-8")
    assert not any(limit.code == "random_init" for limit in record.limits)
    _interrupted(zygote, runs, "local-moved", *local)
    _write_tiny_model(folder, seed=4)
    resumed = zygote.run("run", NAME, "--resume", "local-moved")
    assert resumed.code == 1
    assert "the weights this run began with" in resumed.stderr


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [("torch", "2.0.0", "torch"), ("driver", "1.2", "driver")],
)
def test_a_resumed_run_on_another_torch_stops(zygote: Forks, runs: Path, field: str, value: str, word: str) -> None:
    journal = _interrupted(zygote, runs, f"other-{field}")
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    plan = json.loads(lines[0])
    plan["plan"]["device"][field] = value
    journal.write_text(json.dumps(plan) + "\n" + "".join(lines[1:]), encoding="utf-8")
    done = zygote.run("run", NAME, "--resume", f"other-{field}")
    assert done.code == 1
    assert f"the {word} this run began with: {value}" in done.stderr


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root to mount a small file system")
@pytest.mark.parametrize("size", few(1, ["400k", "24k"]))
def test_a_full_disk_is_said_and_finished_tasks_are_kept(forks: Zygote, tmp_path: Path, size: str) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)], check=False)
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        zygote = forks.at(small)
        done = zygote.run("run", NAME, *SMALL, "--run-label", "full")
        assert done.code == 1, done.stdout
        assert "the disk is full" in done.stderr
        assert "Traceback" not in done.stderr
        journal = small / NAME / "full" / "journal.jsonl"
        if journal.exists():
            assert all(json.loads(line) for line in journal.read_bytes().split(b"\n")[:-1])
            assert "--resume full" in done.stderr
            subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
            assert zygote.run("run", NAME, "--resume", "full").code == 0
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def _write_tiny_model(folder: Path, seed: int) -> None:
    """config.json and one safetensors file, as Transformers would save them."""
    from safetensors.torch import save_file

    from experiments.models import causal_lm, registered_config

    folder.mkdir(exist_ok=True)
    asset = registered_config.asset("tiny-qwen2")
    weights = causal_lm.build(asset, seed, torch.device("cpu")).parameters()
    save_file({name: value.detach() for name, value in weights.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(asset.config), encoding="utf-8")


def _interrupted(zygote: Forks, runs: Path, label: str, *more: str) -> Path:
    run = zygote.start("run", NAME, *SMALL, *more, "--run-label", label)
    journal = runs / NAME / label / "journal.jsonl"
    _until(lambda: journal.exists() and b'"task"' in journal.read_bytes())
    run.kill()
    run.wait()
    return journal


def _until(condition: object, limit_s: float = 60.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.005)

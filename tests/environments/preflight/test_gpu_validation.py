"""The mark of a validated GPU: in force for one profile, one boot, one requirement text; asked where it counts."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.environments.errors import LabError
from tools.environments.layout import ROOT
from tools.environments.model import Check, Report
from tools.environments.preflight import gpu_validation, gpu_validation_steps, report_text
from tools.environments.registry import registry

PROFILES = registry.load(ROOT).profiles
GPU, OTHER = PROFILES["TRAIN-CUDA130-MECHANISM"], PROFILES["TRAIN-CUDA-MECHANISM"]
IN_IMAGE = {"TMLAB_IMAGE_PROFILE": GPU.id}


def proc(folder: Path, machine: str = "b1", started: int = 20) -> Path:
    """A /proc whose process 1 has a space and a bracket in its name."""
    (folder / "sys/kernel/random").mkdir(parents=True, exist_ok=True)
    (folder / "sys/kernel/random/boot_id").write_text(machine)
    (folder / "1").mkdir(exist_ok=True)
    fields = " ".join(str(number) for number in range(4, 22))
    (folder / "1/stat").write_text(f"1 (sl) eep) S {fields} {started} 99 98")
    return folder


def test_the_boot_of_this_machine_is_told_and_stays() -> None:
    assert len(gpu_validation.boot()) == 64
    assert gpu_validation.boot() == gpu_validation.boot()


def test_another_machine_start_or_container_start_is_another_boot(tmp_path: Path) -> None:
    boots = {gpu_validation.boot(proc(tmp_path, *it)) for it in (("b1", 20), ("b2", 20), ("b1", 21))}
    assert len(boots) == 3
    assert gpu_validation.boot(tmp_path / "nothing") == ""


def test_a_mark_holds_for_its_profile_its_boot_and_its_requirements_alone(tmp_path: Path) -> None:
    path, here = tmp_path / "runs" / "mark", proc(tmp_path / "proc")
    assert gpu_validation.read(GPU, path, proc=here) is None
    gpu_validation.mark(GPU, "passed", path, proc=here)
    assert gpu_validation.read(GPU, path, proc=here) == "passed"
    assert gpu_validation.read(OTHER, path, proc=here) is None
    assert gpu_validation.read(dataclasses.replace(GPU, requirements=("base.txt",)), path, proc=here) is None
    assert gpu_validation.read(GPU, path, proc=proc(tmp_path / "proc", started=21)) is None
    gpu_validation.mark(GPU, None, path, proc=here)
    assert not path.exists()
    gpu_validation.mark(GPU, None, path, proc=here)  # twice is no fault


def test_a_machine_that_tells_no_boot_is_never_validated(tmp_path: Path) -> None:
    gpu_validation.mark(GPU, "passed", tmp_path / "mark", proc=tmp_path / "none")
    assert gpu_validation.read(GPU, tmp_path / "mark", proc=tmp_path / "none") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"state": "passed"}', "\x00"])
def test_a_torn_mark_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "mark").write_text(text)
    assert gpu_validation.read(GPU, tmp_path / "mark") is None


def test_a_folder_that_refuses_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(LabError, match="TMLAB_RUNS"):
        gpu_validation.mark(GPU, "passed", tmp_path / "runs" / "mark")


@pytest.mark.parametrize("environ", [{"CNB": "true"}, {"CNB_REPO_SLUG_LOWERCASE": "team/lab"}, IN_IMAGE])
def test_real_gpu_waits_in_cnb_and_in_an_image(tmp_path: Path, environ: dict[str, str]) -> None:
    environ = {**environ, "TMLAB_RUNS": str(tmp_path)}
    with pytest.raises(LabError, match="has not passed since the start") as refusal:
        gpu_validation.refuse_unvalidated(GPU, "smoke", environ)
    assert refusal.value.next == f"sh tools/validate_cnb_gpu.sh --profile {GPU.id}"
    gpu_validation.mark(GPU, "checked", gpu_validation.place(environ))
    gpu_validation.refuse_unvalidated(GPU, "smoke", environ)
    with pytest.raises(LabError, match="still running its smoke"):
        gpu_validation.refuse_unvalidated(GPU, "default", environ)
    gpu_validation.mark(GPU, "passed", gpu_validation.place(environ))
    gpu_validation.refuse_unvalidated(GPU, "default", environ)
    with pytest.raises(LabError):
        gpu_validation.refuse_unvalidated(OTHER, "default", environ)


def test_elsewhere_nobody_waits(tmp_path: Path) -> None:
    gpu_validation.refuse_unvalidated(GPU, "large", {"TMLAB_RUNS": str(tmp_path)})


def test_the_run_command_waits_too_and_other_modes_do_not(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments", "run", "mixed_precision_backward", "--profile", OTHER.id]
    environ = {**os.environ, "CNB": "true", "TMLAB_RUNS": str(tmp_path)}
    done = subprocess.run([*command, "--run-mode", "real_gpu"], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"→ sh tools/validate_cnb_gpu.sh --profile {OTHER.id}" in done.stderr
    assert not [*tmp_path.iterdir()]
    done = subprocess.run([*command, "--run-mode", "dry_run"], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def report(*checks: Check, accepted: tuple[str, ...] = ()) -> dict[str, Any]:
    return report_text.to_json(Report(GPU.id, "sha256:00", checks, accepted))


def test_a_report_becomes_a_step_and_one_for_each_dtype() -> None:
    checks = [Check("gpu.count", "ok", "1", "1"), Check("operation.float32", "ok", "exact", "exact")]
    checks += [Check("operation.float16", "ok", "exact", "exact"), Check("operation.tf32", "skipped", "exact", "none")]
    rows = list(gpu_validation_steps.rows(report(*checks), GPU))
    assert [row[:2] for row in rows] == [("preflight", "ok"), ("operation.float32", "ok"), ("operation.float16", "ok")]
    assert rows[0][3] == "status=ok, 3 checks ok"


def test_a_claimed_dtype_that_was_not_tried_is_blocked() -> None:
    skipped = Check("operation.float16", "skipped", "exact", "no card that torch can use")
    rows = list(gpu_validation_steps.rows(report(skipped), GPU))
    assert rows[1][:2] == ("operation.float16", "blocked")


def test_a_warning_blocks_unless_it_was_accepted_as_for_real_gpu() -> None:
    warning = Check("host.memory", "warning", "16 GiB", "8 GiB", "more memory")
    (row,) = gpu_validation_steps.rows(report(warning), GPU)
    assert row == ("preflight", "blocked", row[2], "host.memory: wanted 16 GiB, found 8 GiB", "more memory")
    (row,) = gpu_validation_steps.rows(report(warning, accepted=("host.memory",)), GPU)
    assert row[1] == "ok"


def test_the_commands_of_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMLAB_RUNS", str(tmp_path))
    assert gpu_validation_steps.main(["experiment", "--profile", GPU.id]) == 0
    assert capsys.readouterr().out == "mixed_precision_backward\n"
    assert gpu_validation_steps.main(["checked", "--profile", GPU.id]) == 0
    assert gpu_validation.read(GPU, tmp_path / gpu_validation.NAME) == "checked"
    assert gpu_validation_steps.main(["clear", "--profile", GPU.id]) == 0
    (tmp_path / "report.json").write_text(json.dumps(report(Check("torch.cuda", "blocked", "13.0", "a\tb", ""))))
    assert gpu_validation_steps.main(["rows", "--profile", GPU.id, "--report", str(tmp_path / "report.json")]) == 0
    assert capsys.readouterr().out.split("\x1f")[3:] == ["torch.cuda: wanted 13.0, found a b", "\n"]
    assert gpu_validation_steps.main(["experiment", "--profile", "NOPE"]) == 2

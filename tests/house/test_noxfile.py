"""The sessions as nox itself sees them, and a profile's session run through nox against stand-ins at its doors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from stages import few

from tools.environments.layout import ROOT
from tools.environments.registry import registry

RECORDER = """
import json, pathlib, sys
with open("calls", "a") as calls:
    print(json.dumps(sys.argv), file=calls)
"""
STAND_INS = {
    "tools/install_environment_profile.py": """
if "--json" in sys.argv:
    print(json.dumps({"python": sys.executable}))
sys.exit(5 if "--recreate" in sys.argv else 0)
""",
    "tools/environment_preflight.py": "",
    "experiments/__main__.py": """
if sys.argv[1] == "run":
    for name in sys.argv[2:sys.argv.index("--workload")]:
        folder = pathlib.Path("runs", name, "L")
        folder.mkdir(parents=True)
        (folder / "record.json").touch()
""",
    "tools/test_framework_conformance.py": """
folder = pathlib.Path("runs", "conformance", "L")
folder.mkdir(parents=True)
(folder / "record.json").touch()
""",
}
NOX = [sys.executable, "-m", "nox", "--non-interactive"]


def nox(*arguments: str, cwd: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*NOX, *arguments], cwd=cwd, env={**os.environ, **environ}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The parts of a checkout that nox reads, with the scripts behind a profile's session replaced by recorders."""
    for name in ("noxfile.py", "requirements", "tools", "experiments"):
        source, target = ROOT / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "results"))
        else:
            shutil.copy(source, target)
    for name, body in STAND_INS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(RECORDER + body)
    return tmp_path


def calls(clone: Path) -> list[list[str]]:
    lines = (clone / "calls").read_text().splitlines()
    return [[Path(first).name, *rest] for first, *rest in map(json.loads, lines)]


def test_every_profile_is_a_session_with_its_title_and_tags() -> None:
    listed = nox("-l").stdout
    for profile in registry.load(ROOT).profiles.values():
        (line,) = [line for line in listed.splitlines() if f" {profile.id} " in line]
        assert line.startswith("- ")
        assert f"[{','.join(profile.tags)}]" in line
        assert line.endswith(f"-> {profile.title_zh} · {profile.title}")
    assert [line.split()[1] for line in listed.splitlines() if line.startswith("* ")] == ["lint", "tests"]
    assert {"full", "bench", "docs"} <= {line.split()[1] for line in listed.splitlines() if line.startswith("- ")}


@pytest.mark.parametrize("tag", few(1, ["cpu", "cuda", "serving", "multi-gpu"]))
def test_tags_select_groups(tag: str) -> None:
    chosen = json.loads(nox("-t", tag, "-l", "--json").stdout)
    wanted = {profile.id for profile in registry.load(ROOT).profiles.values() if tag in profile.tags}
    assert wanted
    assert {session["name"] for session in chosen} == wanted


def test_a_profile_s_session_installs_checks_runs_and_verifies(clone: Path) -> None:
    done = nox("-s", "TRAIN-CPU", "--", "--workload", "default", "--backend", "venv", cwd=clone)
    assert done.returncode == 0, done.stderr
    first, asked, measured, held, verified = calls(clone)
    assert first == ["install_environment_profile.py", "--profile", "TRAIN-CPU", "--backend", "venv"]
    assert asked == [*first, "--locate", "--json"]
    names = registry.load(ROOT).get("TRAIN-CPU").experiments
    start = ["--workload", "default", "--profile", "TRAIN-CPU", "--stop-if-blocked"]
    assert measured == ["__main__.py", "run", *(name for name in names if name != "conformance"), *start]
    assert "conformance" in names
    assert held == ["test_framework_conformance.py", *["--all-part02", "--require-passed", "--profile", "TRAIN-CPU"]]
    assert verified[1:3] == ["results", "verify"]
    assert len(verified) == 3 + len(names)


def test_a_blocked_install_ends_the_session_before_anything_else(clone: Path) -> None:
    done = nox("-s", "TRAIN-CPU", "--", "--recreate", cwd=clone)
    assert done.returncode == 1
    assert len(calls(clone)) == 1


def test_a_dry_run_only_plans(clone: Path) -> None:
    assert nox("-s", "TRAIN-CUDA-MECHANISM", "--", "--dry-run", cwd=clone).returncode == 0
    assert calls(clone) == [["install_environment_profile.py", "--profile", "TRAIN-CUDA-MECHANISM", "--dry-run"]]


def test_in_the_image_the_session_is_one_command(clone: Path) -> None:
    (clone / "tools" / "containers" / "__main__.py").write_text(RECORDER)
    done = nox("-s", "TRAIN-CPU", "--", "--image", "--base-image", "b", "--run-label", "L", cwd=clone)
    assert done.returncode == 0, done.stderr
    (command,) = calls(clone)
    wanted = ["run", "--profile", "TRAIN-CPU", "--base-image", "b", "--workload", "smoke", "--run-label", "L"]
    assert command == ["__main__.py", *wanted]


def test_a_profile_without_an_experiment_says_so(clone: Path) -> None:
    bare = next(profile.id for profile in registry.load(ROOT).profiles.values() if not profile.experiments)
    done = nox("-s", bare, cwd=clone)
    assert done.returncode == 0
    assert f"{bare}: environment only, it has no experiment yet" in done.stderr
    assert len(calls(clone)) == 3


def test_an_unknown_option_is_told_plainly(clone: Path) -> None:
    done = nox("-s", "TRAIN-CPU", "--", "--workloads", "default", cwd=clone)
    assert done.returncode == 1
    assert "unrecognized arguments: --workloads default" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (clone / "calls").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    few(
        3,
        [
            ("--workload nope", "a workload of mixed_precision_backward: smoke, default"),
            ("--experiment nope", "an experiment of TRAIN-CPU: mixed_precision_backward"),
            ("--run-label a..b", "a run label of 1 to 64 letters"),
            ("--accept nonsense", "the id of a check"),
            ("--experiment mixed_precision_backward --precision half", "argument --precision: invalid choice"),
            ("--memory-cap-gib 0", "a cap in GiB above zero"),
            ("--run-mode real_gpu", "a CUDA profile for run mode real_gpu"),
            ("--resume L", "--resume with one --experiment"),
            ("--resume L --experiment gradient_accumulation", "an interrupted run of gradient_accumulation"),
            ("--image --workload nope", "a workload of mixed_precision_backward"),
            ("--dry-run --workload nope", "a workload of mixed_precision_backward"),
        ],
    ),
)
def test_a_value_that_no_run_takes_is_told_before_the_install(clone: Path, given: str, words: str) -> None:
    done = nox("-s", "TRAIN-CPU", "--", *given.split(), cwd=clone)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (clone / "calls").exists()


def test_an_interrupted_run_is_resumed(clone: Path) -> None:
    folder = clone / "runs" / "gradient_accumulation" / "L"
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").touch()
    (clone / "experiments" / "__main__.py").write_text(RECORDER)
    done = nox("-s", "TRAIN-CPU", "--", "--resume", "L", "--experiment", "gradient_accumulation", cwd=clone)
    assert done.returncode == 0, done.stderr
    assert calls(clone)[-1] == ["__main__.py", "run", "gradient_accumulation", "--resume", "L"]


def test_help_is_the_options_and_installs_nothing(clone: Path) -> None:
    done = nox("-s", "TRAIN-CPU", "--", "--help", cwd=clone)
    assert done.returncode == 0
    assert "--workload NAME" in done.stderr
    assert not (clone / "calls").exists()


def test_the_full_stop_that_nox_adds_does_not_touch_the_command(clone: Path) -> None:
    done = nox("-s", "TRAIN-CPU", "--", "--experiment", "nobody-has-this", cwd=clone)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert "  → python -m experiments list" in lines
    assert lines[lines.index("  → python -m experiments list") + 1].startswith("This session ends here")


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_stream_that_has_no_chinese_lists_the_profiles_all_the_same(encoding: str) -> None:
    done = subprocess.run(
        [*NOX, "-l"], cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    for profile in registry.load(ROOT).profiles.values():
        assert f"- {profile.id} ".encode() in done.stdout
        assert profile.title.encode() in done.stdout


def test_a_reader_of_the_list_that_has_gone_has_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*NOX, "-l"], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.stderr == ""


def test_a_broken_registry_is_told_plainly(clone: Path) -> None:
    (clone / "requirements" / "environment-profiles.json").write_text("{")
    done = nox("-l", cwd=clone)
    assert done.returncode == 1
    assert "requirements/environment-profiles.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_cpu_torch_the_checks_stop_before_any_download(clone: Path, tmp_path: Path) -> None:
    empty = tmp_path / "wheels"
    empty.mkdir()
    settings = {"TMLAB_FIND_LINKS": str(empty), "TMLAB_TORCH_INDEX": "http://127.0.0.1:9/whl/cpu"}
    done = nox("-s", "tests", cwd=clone, **settings)
    assert done.returncode == 1
    assert "--find-links" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((clone / ".nox" / "tests").rglob("coverage"))

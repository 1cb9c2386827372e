"""A run judged from its command line alone: the same words as the run's own, before there is an environment."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.cli import asked
from experiments.evidence import labels
from experiments.harness import journal
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import ROOT

NAME = "gradient_accumulation"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(labels.RUNS_VARIABLE, str(tmp_path / "runs"))
    monkeypatch.setenv(labels.RESULTS_VARIABLE, str(tmp_path / "results"))
    return tmp_path / "runs" / NAME


@pytest.mark.parametrize(
    "given",
    [
        "",
        "--workload large --profile TRAIN-CPU --run-label L --accept host.memory",
        "--run-mode real_gpu --profile TRAIN-CUDA-MECHANISM --head both --precision bf16 --memory-cap-gib 8",
        "--model-source hub --revision main",
    ],
)
def test_what_may_begin_is_let_through(given: str) -> None:
    asked.check(["run", NAME, *shlex.split(given)])


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ("--workload nope", "--workload"),
        ("--run-label a/..", "run label"),
        ("--profile PT-CPU", "--profile"),
        ("--profile TRAIN-CPU --run-mode real_gpu", "--run-mode"),
        ("--revision main", "--revision"),
        ("--memory-cap-gib 0", "--memory-cap-gib"),
        ("--peer-path /somewhere", "--peer-path"),
        ("--head none", ""),
        ("--memory-cap-gib much", ""),
        ("--no-such", ""),
        ("--resume L --workload smoke", "--resume"),
    ],
)
def test_what_may_not_begin_is_wrong_usage(given: str, where: str) -> None:
    with pytest.raises(LabError) as refused:
        asked.check(["run", NAME, *shlex.split(given)])
    assert (refused.value.where, refused.value.code) == (where, EXIT_USAGE)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ("int8_weight_product --rows 0", "--rows"),
        ("all_reduce_cost --unseen 1024", "--unseen"),
        ("all_reduce_cost --ranks 1", "--ranks"),
    ],
)
def test_a_workload_without_a_subject_is_judged_whole(given: str, where: str) -> None:
    with pytest.raises(LabError) as refused:
        asked.check(["run", *shlex.split(given), "--profile", "BASE-CPU"])
    assert (refused.value.where, refused.value.code) == (where, EXIT_USAGE)


def test_a_label_is_looked_up(runs: Path) -> None:
    (runs / "begun").mkdir(parents=True)
    (runs / "begun" / journal.NAME).touch()
    asked.check(["run", NAME, "--resume", "begun"])
    with pytest.raises(LabError, match="no run labelled never; there are begun"):
        asked.check(["run", NAME, "--resume", "never"])
    (runs / "begun" / labels.RECORD_NAME).touch()
    for option in ("--run-label", "--resume"):
        with pytest.raises(LabError, match="finished"):
            asked.check(["run", NAME, option, "begun"])


def test_only_runs_of_experiments_are_judged() -> None:
    asked.check_all([["tools/environment_preflight.py", "--nope"], ["-m", "experiments.conformance.exercise", "--all"]])
    with pytest.raises(LabError, match="the name of an experiment"):
        asked.check_all([[*asked.RUN, "gradient_acumulation"]])


def test_it_needs_nothing_but_the_standard_library() -> None:
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from experiments.cli import asked; asked.check(['run', {NAME!r}])"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)

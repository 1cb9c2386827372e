"""A page's choices, its kernel check, and the command line it runs in a child, without a kernel."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_doors import Terminal, answer, page_with
from sample_records import gpu_record

from experiments.harness import journal
from experiments.notebooks import command_child, kernel
from experiments.notebooks.choices import Choices
from experiments.notebooks.command_child import Ended
from experiments.notebooks.notebook_page import prepare
from experiments.training_mechanism.activation_checkpointing.experiment import EXPERIMENT as CHECKPOINTING
from experiments.training_mechanism.gradient_accumulation.experiment import EXPERIMENT as ACCUMULATION
from tools.environments.errors import LabError
from tools.environments.installed import stamp
from tools.environments.model import Check, Report
from tools.environments.registry import registry
from tools.environments.registry.registry import Registry

GPU, CPU = "TRAIN-CUDA130-MECHANISM", "TRAIN-CPU"
WARNED = Check("python.path", "warning", "this environment only", "PYTHONPATH adds /opt/ros", "unset PYTHONPATH")


@pytest.fixture(scope="module", name="known")
def fixture_known() -> Registry:
    return registry.load()


@pytest.fixture(autouse=True)
def fixture_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMLAB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


# ---- the first cell


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("run_mode", "gpu"),
        ("workload", "huge"),
        ("model_source", "local"),
        ("local_files_only", "yes"),
        ("run_label", 7),
        ("profile", ["TRAIN-CPU"]),
        ("accept", "python.path"),
        ("accept", (1,)),
    ],
)
def test_a_wrong_choice_is_named_and_nothing_runs(
    variable: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(tmp_path / "runs")
    page = page_with(terminal, **{variable: value})
    told = page._repr_markdown_()
    assert "blocked · the first cell: wanted" in told
    assert f"set {variable.upper()} = " in told
    assert page.run() is None
    assert f"set {variable.upper()} = " in capsys.readouterr().out
    assert not terminal.asked


def test_an_unknown_profile_and_an_unknown_check_are_findings(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "runs")
    assert "TRAIN-CUDA-MECHANISM" in repr(page_with(terminal, profile="TRAIN-CUDA-MECHANSIM"))
    told = repr(prepare(CHECKPOINTING, profile=CPU, accept=("python.pth",), command=terminal))
    assert "the id of a check" in told


# ---- the kernel and the profile


def made_for(profile: str, prefix: Path) -> Path:
    prefix.mkdir()
    written = stamp.Stamp(
        profile=profile,
        requirement_digest="sha256:0",
        prefix=str(prefix),
        interpreter={"version": "3.12.3", "base": "python"},
        torch=None,
        backend="venv",
        index={},
        packages={},
    )
    stamp.write(written)
    return prefix


def test_the_kernel_is_judged_by_the_stamp_of_its_environment(known: Registry, tmp_path: Path) -> None:
    profile = known.get(GPU)
    own, other = made_for(GPU, tmp_path / "own"), made_for(CPU, tmp_path / "other")
    assert kernel.check(profile, own, "its/python").status == "ok"
    wrong = kernel.check(profile, other, "its/python")
    assert wrong.status == "blocked"
    assert f"its/python, of an environment made for {CPU}" in wrong.found
    assert f'set PROFILE = "{CPU}"' in wrong.repair
    assert profile.environment in wrong.repair
    (own / stamp.FILE_NAME).write_text("{")
    torn = kernel.check(profile, own, "its/python")
    assert (torn.status, "stamp is torn" in torn.found) == ("blocked", True)
    assert kernel.check(profile, tmp_path, "its/python").status == "skipped"


@pytest.mark.parametrize("mode", ["cpu_mechanism", "real_gpu"])
def test_a_mode_is_refused_until_preflight_is_ok(known: Registry, mode: str) -> None:
    profile = known.get(GPU)
    fine, bad = Check("a", "ok", "", ""), Check("torch.build", "blocked", "2.11.0+cu130", "2.11.0", "a new environment")
    with pytest.raises(LabError, match=r"torch\.build"):
        kernel.refuse(profile, mode, fine, Report(GPU, "", (fine, bad)))
    with pytest.raises(LabError) as caught:
        kernel.refuse(profile, mode, fine, Report(GPU, "", (WARNED,)))
    assert 'ACCEPT = ("python.path",)' in caught.value.next
    kernel.refuse(profile, mode, fine, Report(GPU, "", (fine, WARNED), ("python.path",)))
    kernel.refuse(profile, "dry_run", bad, Report(GPU, "", (bad,)))


def test_real_gpu_needs_a_cuda_profile(tmp_path: Path) -> None:
    told = repr(page_with(Terminal(tmp_path), profile=CPU, run_mode="real_gpu"))
    assert "blocked · RUN_MODE stays dry_run: wanted a CUDA profile for real_gpu; found TRAIN-CPU" in told


def test_a_dry_run_says_whether_the_mode_may_change(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    assert 'RUN_MODE may become "real_gpu"' in repr(page_with(terminal, profile=GPU))
    assert 'RUN_MODE may become "cpu_mechanism"' in repr(page_with(terminal, profile=CPU))
    told = repr(page_with(terminal, answer(WARNED), profile=CPU))
    assert "a run is not possible yet: blocked · RUN_MODE stays dry_run: wanted python.path" in told


def test_the_full_preflight_is_asked_only_where_the_quick_one_found_nothing(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    def preflight(status: str) -> Callable[..., Report]:
        def run(profile: Any, known: Any, **options: Any) -> Report:
            asked.append(options)
            return Report(profile.id, known.digest, (Check("gpu.count", status, "", ""),))  # type: ignore[arg-type]

        return run

    page_with(Terminal(tmp_path), preflight("blocked"), profile=GPU)
    assert [options.get("quick") for options in asked] == [True]
    page_with(Terminal(tmp_path), preflight("ok"), profile=GPU, run_mode="real_gpu", workload="default")
    assert [options.get("quick") for options in asked[1:]] == [True, None]
    assert asked[-1]["will_download"] is True
    assert asked[-1]["model"] == "Qwen/Qwen2.5-0.5B"
    assert all(options["notebook"] for options in asked)


# ---- the run


def test_the_command_line_follows_from_the_first_cell(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "runs", gpu_record())
    accepted = answer(WARNED)
    page = page_with(terminal, accepted, profile=GPU, run_mode="real_gpu", workload="default", accept=("python.path",))
    assert page.run() is not None
    assert terminal.asked[-1][:2] == ["run", "activation_checkpointing"]
    assert (terminal.option("--run-mode"), terminal.option("--workload")) == ("real_gpu", "default")
    assert (terminal.option("--profile"), terminal.option("--accept")) == (GPU, "python.path")
    assert terminal.option("--model-source") == "hub"
    assert "--local-files-only" not in terminal.asked[-1]
    local = Choices(run_mode="real_gpu", local_files_only=True)
    assert "--local-files-only" in list(local.arguments(CHECKPOINTING, CHECKPOINTING.workloads["default"], GPU, "x"))


@pytest.mark.parametrize(
    "choices",
    [
        Choices(run_mode="real_gpu", workload="smoke", local_files_only=True),  # the embedded model is on no hub
        Choices(run_mode="dry_run", workload="default", local_files_only=True),  # a plan downloads nothing
        Choices(run_mode="real_gpu", workload="default", model_source="config", local_files_only=True),
    ],
)
def test_nothing_is_asked_of_the_hub_where_nothing_is_taken_from_it(choices: Choices) -> None:
    words = list(choices.arguments(CHECKPOINTING, CHECKPOINTING.workloads[choices.workload], GPU, "x"))
    assert words[words.index("--model-source") + 1] == "config"
    assert "--local-files-only" not in words
    assert choices.downloads(CHECKPOINTING) is None


def test_the_record_is_read_back_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(tmp_path / "runs", gpu_record())
    page = page_with(terminal, profile=GPU, run_mode="real_gpu", run_label="mine")
    record = page.run()
    assert record is not None
    assert record.identity.run_label == "mine"
    out = capsys.readouterr().out
    assert "on the way" in out
    assert "record mine · level gpu_measured" in out


def test_an_interrupt_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = page_with(Terminal(tmp_path / "runs", code=130), profile=CPU, run_label="mine")
    assert page.run() is None
    assert "interrupted; nothing was begun" in capsys.readouterr().out
    begun = tmp_path / "runs" / "activation_checkpointing" / "mine" / journal.NAME
    begun.parent.mkdir(parents=True)
    begun.touch()
    assert page.run() is None
    assert 'RUN_LABEL = "mine", and page.run(resume=True) goes on' in capsys.readouterr().out
    terminal = Terminal(tmp_path / "runs", gpu_record())
    again = page_with(terminal, profile=CPU, run_label="mine")
    assert again.run(resume=True) is not None
    assert terminal.asked == [["run", "activation_checkpointing", "--resume", "mine", "--json-events"]]
    assert page_with(terminal, profile=CPU).run(resume=True) is None
    assert "set RUN_LABEL to it" in capsys.readouterr().out


def test_a_finding_of_the_run_is_told_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(tmp_path / "runs", code=1, errors="blocked hub\n  wanted ...")
    assert page_with(terminal, profile=CPU).run() is None
    assert "blocked hub" in capsys.readouterr().out
    assert page_with(terminal, profile=CPU, run_label="../up").run() is None
    assert "not run · blocked · run label" in capsys.readouterr().out
    assert page_with(Terminal(tmp_path / "runs"), profile=CPU).run() is None  # it said ok and left no record
    assert "not run · blocked" in capsys.readouterr().out


def test_a_rung_runs_only_under_a_label_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(tmp_path / "runs", gpu_record())
    page = page_with(terminal, profile=GPU, run_mode="real_gpu", run_label="mine", model_source="config")
    assert page.run_ladder(None) is None
    assert not terminal.asked
    assert page.run_ladder("small", workload="default", sequence=256, batch=4) is not None
    assert terminal.option("--run-label") == "small"
    assert (terminal.option("--sequence"), terminal.option("--batch")) == ("256", "4")
    assert page.run_ladder("wrong", workload="tiny") is None
    assert "wanted a workload of this page: smoke, default, fit-8gib" in capsys.readouterr().out


# ---- the child process


def test_the_child_is_the_kernels_own_interpreter_and_answers_with_findings(tmp_path: Path) -> None:
    words = ["run", "mixed_precision_backward", "--run-mode", "dry_run", "--run-label", "a b", "--json-events"]
    heard: list[dict[str, Any]] = []
    ended = command_child.experiments(words, heard.append)
    assert (ended.code, heard) == (2, [])
    assert ended.errors.startswith("blocked run label")


def test_a_dry_run_of_a_rung_is_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = prepare(ACCUMULATION, check=answer(), profile=GPU)
    record = page.run_ladder("rung", workload="default", sequence=128)
    assert record is not None
    assert (record.workload.sequence_length, record.workload.registered) == (128, False)
    assert (record.evidence_level, record.profile.id) == ("plan", GPU)
    assert "1 x 8" in page.table(record).text
    assert page.run_ladder("rung", workload="default", sequence=128) is None
    assert "rung names a finished record" in capsys.readouterr().out  # a label is used once
    assert page.run_ladder("none", workload="default", sequence=0) is None
    assert "--sequence" in capsys.readouterr().out


@pytest.mark.race
def test_an_interrupt_reaches_the_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The stand-in answers SIGTERM as a run does: it says its last word and exits with 130."""
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable}\nimport signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (sys.stderr.write('kept'), sys.stderr.flush(), sys.exit(130)))\n"
        'print(\'{"event": "began"}\', flush=True)\ntime.sleep(60)\n'
    )
    os.chmod(program, 0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(command_child, "HEARD_S", 0.2)

    def hear(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    ended = command_child.experiments(["run"], hear)
    assert ended == Ended(130, "kept")

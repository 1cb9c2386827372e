"""The conformance command line: what it refuses, in which order it looks, what it prints, and the record it leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from experiments.conformance import catalogue, command, conformance_record, page_choice, report_lines, running
from experiments.conformance.frameworks import Framework
from experiments.conformance.page import Mutant
from experiments.evidence import store
from experiments.evidence.rules.v1.gates import control_caught
from tools.environments.layout import ROOT
from tools.environments.model import Check, Profile, Report
from tools.environments.registry import registry
from tools.environments.registry.registry import Registry

SCRIPT = ROOT / "tools" / "test_framework_conformance.py"


def healthy(profile: Profile, known: Registry, accept: Sequence[str]) -> Report:
    """The preflight of an environment in which all is well."""
    return Report(profile.id, known.digest, (Check("python.version", "ok", "3.11", "3.11"),))


@pytest.fixture(name="runs", autouse=True)
def fixture_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMLAB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs" / "conformance"


def run(*arguments: str) -> int:
    return command.main(arguments, healthy)


@pytest.mark.parametrize("seed", ["99999999999999999999999", "-9007199254740992"])
def test_a_seed_that_no_record_can_hold_is_refused_first(
    seed: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--page", "cross_entropy", f"--seed={seed}") == 2
    assert "blocked --seed" in capsys.readouterr().err
    assert not runs.exists()


def test_one_page_passes_and_its_record_is_whole(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--page", "cross_entropy", "--run-label", "first", "--require-passed") == 0
    out = capsys.readouterr().out
    assert out.startswith("TRAIN-CPU · training_mechanism · 1 pages · checked against torch ")
    assert "cross_entropy" in out
    assert "7 of 7 checks, 12 of 12 faults" in out
    assert "level    cpu_mechanism" in out
    record = store.read(runs / "first" / "record.json")
    assert record.evidence_level == "cpu_mechanism"
    assert record.workload.registered
    assert record.profile.preflight is not None
    assert record.decision.code == "numerics_ok"
    checks = [candidate for candidate in record.candidates if candidate.role == "candidate"]
    faults = [candidate for candidate in record.candidates if candidate.role == "control"]
    assert len(checks) == 7
    assert len(faults) == 12
    assert all(one.checks.gates["oracle"].passed for one in checks)
    assert all(control_caught(one) for one in faults)
    gate = next(one.checks.gates["oracle"] for one in checks if one.name == "cross_entropy/transformers_loss")
    assert gate is not None
    assert gate.error is not None
    assert gate.tolerance is not None
    assert 0 <= gate.error < gate.tolerance
    assert "float32" in gate.yardstick


def test_with_json_stdout_is_json_and_nothing_else(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--page", "optimizer", "--json", "--no-mutants", "--run-label", "j") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["status"] == "passed"
    (page,) = document["pages"]
    for field in ("id", "title", "status", "reason", "tolerance", "worst_error", "worst_check", "versions", "checks"):
        assert field in page
    assert set(page["versions"]) == {"torch", "transformers", "accelerate"}
    assert Path(document["record"]) == runs / "j" / "record.json"


@pytest.mark.parametrize("page", ["crossentropy", "cross-entropy", "", "3", "\x1b[31m", "x" * 5000])
def test_an_unknown_page_offers_the_nearest_before_torch_is_imported(page: str, tmp_path: Path) -> None:
    code = f"""
import sys
from experiments.conformance.command import main
code = main(["--page", {page!r}])
assert "torch" not in sys.modules and "hypothesis" not in sys.modules
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "cross_entropy" in done.stderr
    assert "\x1b" not in done.stderr


def test_the_wrong_environment_is_refused_with_the_repair(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def blocked(profile: Profile, known: Registry, accept: Sequence[str]) -> Report:
        found = Check("package.x", "blocked", "transformers >=5.17,<5.25", "none", "pip install transformers")
        return Report(profile.id, known.digest, (found, Check("python.path", "blocked", "a", "b", "c")))

    assert command.main(["--page", "attention", "--run-label", "b"], blocked) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "wanted TRAIN-CPU: transformers >=5.17,<5.25" in shown.err
    assert "(and 1 more)" in shown.err
    assert "pip install transformers" in shown.err
    assert not runs.exists()


def test_the_tests_own_environment_is_no_profile_s() -> None:
    """The real door: this interpreter was made for tests, so the real preflight stops the real script."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--page", "attention", "--profile", "TRAIN-CPU"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("blocked ")
    assert "→ " in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [["--page"], ["--all-part02", "--page", "attention"], ["--page", "attention", "--seed", "x"], ["--pages"]],
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2


def test_an_unknown_profile_offers_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--page", "attention", "--profile", "TRAIN-CPUU") == 2
    assert "TRAIN-CPU" in capsys.readouterr().err


def test_a_try_needs_no_profile_and_leaves_no_record(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def never(*_: object) -> Report:
        raise AssertionError("a try asks no preflight")

    assert command.main(["--page", "optimizer", "--no-mutants", "--try-here"], never) == 0
    out = capsys.readouterr().out
    assert out.startswith("outside any profile · training_mechanism · 1 pages")
    assert "record   none" in out
    assert not runs.exists()
    assert command.main(["--page", "optimizer", "--no-mutants", "--try-here", "--json"], never) == 0
    assert json.loads(capsys.readouterr().out)["record"] is None


def test_without_faults_it_is_another_workload(runs: Path) -> None:
    assert run("--page", "optimizer", "--no-mutants", "--run-label", "n") == 0
    assert not store.read(runs / "n" / "record.json").workload.registered


def test_a_label_is_used_once(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--page", "optimizer", "--no-mutants", "--run-label", "once") == 0
    before = (runs / "once" / "record.json").read_bytes()
    assert run("--page", "optimizer", "--no-mutants", "--run-label", "once") == 2
    assert (runs / "once" / "record.json").read_bytes() == before
    assert "once" in capsys.readouterr().err
    assert run("--page", "optimizer", "--run-label", "../up") == 2


@pytest.mark.parametrize(
    ("pages", "module", "name"),
    [(("cross_entropy",), running, "run_page"), (("cross_entropy", "attention"), report_lines, "page_line")],
)
def test_an_interrupted_run_leaves_no_half_record(
    pages: tuple[str, ...],
    module: ModuleType,
    name: str,
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, interrupt)
    asked = [part for page in pages for part in ("--page", page)]
    assert run(*asked, "--run-label", "cut", "--no-mutants") == 130
    assert "no record was written" in capsys.readouterr().err
    assert not list(runs.rglob("*.json")) if runs.exists() else True


def test_a_missing_framework_is_skipped_or_fails_when_required(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = running.prepare("training_mechanism", {})
    old = Framework("transformers", "4.0", "transformers 4.0 is outside the registered >=5")
    without = {**real, "transformers": old}
    monkeypatch.setattr(running, "prepare", lambda topic, ranges: without)
    assert run("--page", "attention", "--no-mutants", "--run-label", "s1") == 0
    out = capsys.readouterr().out
    assert "skipped  attention: transformers 4.0 is outside the registered >=5: 5 of 7 checks held" in out
    assert run("--page", "attention", "--no-mutants", "--run-label", "s2", "--require-passed") == 1
    record = store.read(runs / "s1" / "record.json")
    assert record.decision.code == "inconclusive"
    assert sum(candidate.status == "skipped" for candidate in record.candidates) == 2


def test_a_failing_page_fails_the_run_and_says_what_differs(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from experiments.mechanisms import adamw

    monkeypatch.setattr(adamw.Settings, "__init__", _other_epsilon(adamw.Settings.__init__))
    assert run("--page", "optimizer", "--run-label", "f") == 1
    out = capsys.readouterr().out
    assert "failed   optimizer/adamw_float64: " in out
    assert " differs at [0]: adamw.step gives" in out
    assert "torch.optim.AdamW gives" in out
    assert "--page optimizer" in out
    record = store.read(runs / "f" / "record.json")
    assert record.decision.code == "numerics_broken"


def _other_epsilon(original: Any) -> Any:
    def changed(self: Any, **options: Any) -> None:
        original(self, **{**options, "beta1": 0.5})

    return changed


def test_a_survivor_fails_the_run_and_is_a_limit_of_the_record(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harmless = Mutant("harmless", "attention", "import math", "import math as math", "nothing")
    monkeypatch.setattr(catalogue, "mutants", lambda page: (harmless,))
    assert run("--page", "attention", "--run-label", "m") == 1
    assert "survived attention/harmless: nothing; no check notices it" in capsys.readouterr().out
    record = store.read(runs / "m" / "record.json")
    assert "control_not_caught" in [limit.code for limit in record.limits]


def test_hypothesis_is_asked_for_plainly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    assert run("--page", "attention") == 1
    assert "wanted hypothesis" in capsys.readouterr().err


def test_the_registered_ranges_are_the_requirement_text_s() -> None:
    known = registry.load(ROOT)
    found = page_choice.registered_ranges(known, "training_mechanism", known.get("TRAIN-CUDA-MECHANISM"))
    torch_pin = known.get("TRAIN-CPU").torch
    assert torch_pin is not None
    assert found["torch"] == torch_pin.specifier
    assert "5.17" in found["transformers"]
    assert "accelerate" in found


def test_all_ten_pages_and_each_alone_are_registered_workloads() -> None:
    registered = conformance_record.registered()
    assert set(registered) == {"part02", *catalogue.ids("training_mechanism")}
    for name, pages in (("part02", catalogue.ids("training_mechanism")), ("attention", ("attention",))):
        assert conformance_record.workload(pages, conformance_record.SEED).digest == registered[name]
        assert not conformance_record.workload(pages, 1).registered
    assert not conformance_record.workload(("attention", "autograd"), conformance_record.SEED).registered


def test_pytest_leaves_the_script_alone() -> None:
    import tools.test_framework_conformance as script

    assert script.__test__ is False
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", str(SCRIPT)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "no tests" in done.stdout

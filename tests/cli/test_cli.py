"""The command line around the records: list, compare, report, usage errors, interrupts, pipes, colour."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import record_command
from record_command import LABEL, NAME, REAL_DIGESTS, call, run_of
from sample_records import gpu_record, second

from experiments.cli import discovery, printing
from experiments.evidence import labels, store
from tools.environments.layout import ROOT


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return record_command.folders(tmp_path, monkeypatch)


def test_compare_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(gpu_record())
    run_of(second(every_ms=240.0))
    code, out, _ = call(capsys, "compare", LABEL, "2026-12-01-b")
    assert code == 0
    assert "faster" in out
    code, out, _ = call(capsys, "compare", LABEL, "2026-12-01-b", "--json")
    assert {pair["candidate"] for pair in json.loads(out)["pairs"]} == {c.name for c in gpu_record().candidates}
    code, _, err = call(capsys, "compare", LABEL, "2026-12-01-b", "--across", "mood")
    assert (code, "model_commit" in err) == (2, True)


def test_compare_across_a_field_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    run_of(gpu_record())
    run_of(second(runtime=replace(gpu_record().runtime, torch="2.12.0+cu130")))
    code, _, err = call(capsys, "compare", LABEL, "2026-12-01-b")
    assert (code, "torch" in err, "--across torch" in err) == (1, True, True)
    code, out, _ = call(capsys, "compare", LABEL, "2026-12-01-b", "--across", "torch")
    assert code == 0
    assert "across torch: 2.11.0+cu130 against 2.12.0+cu130\n" in out


def test_report_on_the_command_line(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    store.write(gpu_record(), labels.promoted_path(NAME, LABEL))
    code, out, _ = call(capsys, "report", "--json")
    rows = json.loads(out)["rows"]
    mine = [row for row in rows if row["experiment"] == NAME and row["run_labels"]]
    assert [(row["profile"], row["status"]) for row in mine] == [("TRAIN-CUDA130-MECHANISM", "gpu_measured")]
    assert code == 0
    (places / "results" / NAME / "torn.json").write_text("{")
    code, out, _ = call(capsys, "report")
    assert (code, "blocked" in out) == (1, True)
    code, _, err = call(capsys, "report", "--profile", "TRAIN-CPUU")
    assert (code, "TRAIN-CPU" in err) == (2, True)


def test_colour_is_only_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    terminal: Any = Terminal()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in printing.status("ok", terminal)
    assert printing.width(printing.status("ok", terminal)) == 2
    monkeypatch.setenv("NO_COLOR", "1")
    assert printing.status("ok", terminal) == "ok"


def test_columns_align_also_with_wide_characters() -> None:
    lines = printing.table(("a", "b"), [("训练", "x"), ("plain", "y")])
    assert [printing.width(line[: line.rindex(mark)]) for line, mark in zip(lines, "bxy", strict=True)] == [10, 10, 10]
    assert printing.table((), []) == []


def python(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-m", "experiments", *argv], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )


def test_the_real_command_line_starts_without_heavy_packages() -> None:
    code = (
        "import sys\nfrom experiments.cli.entry import main\nmain(['list', '--json'])\n"
        "heavy = {'torch', 'jsonschema', 'rich', 'matplotlib'} & set(sys.modules)\n"
        "sys.stderr.write(' '.join(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert isinstance(json.loads(done.stdout), list)


def test_the_experiments_are_listed_with_what_to_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = call(capsys, "list")
    assert code == 0
    assert "mixed_precision_backward" in out
    assert "→ python -m experiments run NAME" in out
    monkeypatch.setattr(discovery, "packages", dict)
    assert "no experiment" in call(capsys, "list")[1]


def test_the_registered_digests_are_those_of_the_experiments() -> None:
    assert REAL_DIGESTS()["mixed_precision_backward"].keys() >= {"smoke", "default", "fit-8gib", "large"}
    assert all(digest.startswith("sha256:") for digest in REAL_DIGESTS()["mixed_precision_backward"].values())


def test_wrong_usage_and_unknown_names_have_no_traceback() -> None:
    for argv, code in ((("lst",), 2), ((), 2), (("show", "mixed_precision_backwrd"), 2), (("results",), 2)):
        done = python(*argv)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr


def test_output_that_nobody_reads_is_no_error() -> None:
    shell = f"{sys.executable} -m experiments --help | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr


@pytest.mark.race
def test_interrupted_is_130(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom experiments.cli import entry, listing\n"
        "def slow(args):\n print('ready', flush=True)\n time.sleep(30)\n"
        "listing.run = slow\nsys.exit(entry.main(['list']))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=20)
    assert (child.returncode, err) == (130, "interrupted\n")

"""The benchmarks' own measuring: what a ratio, a peak and a limit mean."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as runner
from benchmarks.measure import Row, duration, ratio, seconds, watched
from tools.environments.layout import ROOT


def test_a_ratio_is_of_medians_in_alternating_order_without_the_first_round() -> None:
    order: list[str] = []
    mine, other = iter([99.0, 2.0, 4.0, 40.0]), iter([0.1, 1.0, 2.0, 3.0])

    def ours() -> float:
        order.append("ours")
        return next(mine)

    def theirs() -> float:
        order.append("theirs")
        return next(other)

    row = ratio("r", ours, theirs, against="other", limit=2, rounds=3)
    assert (row.value, row.unit, row.holds) == (2.0, "x", True)
    assert order == ["theirs", "ours", "ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert row.detail == "4.000 s against 2.000 s of other, 3 pairs"


def test_a_duration_drops_its_first_run_unless_there_is_only_one() -> None:
    taken = iter([9.0, 1.0, 3.0, 2.0])
    assert duration("d", lambda: next(taken), limit=1.5, detail="x", rounds=3) == Row("d", 2.0, "s", 1.5, "x, 3 runs")
    assert duration("d", lambda: 9.0, limit=None, detail="x", rounds=1).value == 9.0


def test_a_limit_is_kept_up_to_itself() -> None:
    assert Row("n", 2.0, "x", 2.0, "").holds
    assert not Row("n", 2.001, "x", 2.0, "").holds
    assert Row("n", 1e9, "x", None, "").holds


def test_a_command_that_fails_is_no_measurement() -> None:
    assert seconds([sys.executable, "-c", "pass"]) > 0
    with pytest.raises(subprocess.CalledProcessError):
        seconds([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(subprocess.CalledProcessError) as failed:
        watched([sys.executable, "-c", "raise SystemExit('why')"], cwd=Path.cwd(), env=os.environ)
    assert failed.value.output == "why\n"


def test_the_peak_is_that_of_the_whole_tree(tmp_path: Path) -> None:
    hold = "import sys, time; held = b'1' * (150 << 20); time.sleep(1.5)"
    start = f"[subprocess.Popen([sys.executable, '-c', {hold!r}]) for _ in 'ab']"
    spawn = f"import subprocess, sys; [child.wait() for child in {start}]"
    taken, peak = watched([sys.executable, "-c", spawn], cwd=tmp_path, env=os.environ)
    assert taken > 1.5
    assert 0.29 < peak < 0.5  # twice 150 MiB and three interpreters


def test_the_table_tells_what_is_over_and_the_exit_code_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import benchmarks.bench_start

    rows = [Row("quick", 1.5, "x", 6, "against nothing"), Row("slow", 7, "s", 4, "")]
    monkeypatch.setattr(benchmarks.bench_start, "rows", lambda: rows)
    assert runner.main(["start"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:6] == ["ok", "quick", "1.5", "x", "at", "most"]
    assert lines[2].startswith("over  slow")
    monkeypatch.setattr(benchmarks.bench_start, "rows", lambda: rows[:1])
    assert runner.main(["start"]) == 0


def test_a_command_that_failed_is_told_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import benchmarks.bench_start

    def rows() -> list[Row]:
        raise subprocess.CalledProcessError(3, ["a", "b c"], "first\n\nlast\n")

    monkeypatch.setattr(benchmarks.bench_start, "rows", rows)
    assert runner.main(["start"]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "failed start: a 'b c' ended with 3",
        "       first",
        "       last",
    ]


def test_a_table_that_cannot_be_written_is_a_finding() -> None:
    code = (
        "import runpy, sys; import benchmarks.bench_start as bench; bench.rows = list\n"
        "sys.argv = ['benchmarks', 'start']; runpy.run_module('benchmarks', run_name='__main__')"
    )
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert told.returncode == 1
    assert "wanted output that can be written" in told.stderr
    assert "Traceback" not in told.stderr


def test_an_unknown_benchmark_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as refused:
        runner.main(["no-such"])
    assert refused.value.code == 2
    assert {"start", "main_job"} <= set(runner.modules())

"""Probing children: what they answer, how their deaths are told, and that nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tools.environments.preflight import child_probe, probe_child
from tools.environments.preflight.child_probe import Probe, ProbeFacts, ProbeOutcome, outcome

MODULES = {
    "good_one": "x = 1\n",
    "good_two": "print('BANNER')\n",
    "raises": "raise ValueError('why ' + 'x' * 1000)\n",
    "crashes": "import os\nos.abort()\n",
    "quits": "import os\nos._exit(7)\n",
    "hangs": "import time\ntime.sleep(3600)\n",
    "orphans": "import os, pathlib, subprocess\nleft = subprocess.Popen(['sleep', '600'])\n"
    "pathlib.Path(__file__).with_name('orphan').write_text(str(left.pid))\nos._exit(4)\n",
    "chatty": "import sys\nsys.stdout.write('y' * 500_000)\n",
    "odd_signal": "import os, signal\nos.kill(os.getpid(), signal.SIGRTMIN + 1)\n",
}


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def probe(*names: str, time_limit_s: float = 20) -> ProbeFacts:
    return Probe([("import", name) for name in names], time_limit_s=time_limit_s).finish()


def test_every_step_is_answered_and_what_is_printed_stays_apart(tmp_path: Path) -> None:
    facts = probe("good_one", "good_two", "raises", "good_one")
    assert facts.died is None
    assert facts.outcomes["import good_one"] == ProbeOutcome(True, "", {"file": str(tmp_path / "good_one.py")})
    failed = facts.outcomes["import raises"]
    assert (failed.ok, failed.error.startswith("ValueError: why x"), len(failed.error)) == (False, True, 500)
    assert "BANNER" in facts.tail


@pytest.mark.race
@pytest.mark.parametrize(
    ("name", "died"),
    [("crashes", "killed by SIGABRT"), ("quits", "ended with exit code 7"), ("orphans", "ended with exit code 4")],
)
def test_a_death_is_told_with_the_step_it_happened_in(name: str, died: str, tmp_path: Path) -> None:
    facts = probe("good_one", name, "good_two")
    if name == "orphans":  # it holds the pipe open, and its end is not waited for
        os.kill(int((tmp_path / "orphan").read_text()), signal.SIGKILL)
    assert (facts.died, facts.died_in) == (died, f"import {name}")
    assert outcome([facts], f"import {name}") == ProbeOutcome(False, died, {})
    assert outcome([facts], "import good_two") is None
    assert outcome([facts], "import good_one") is not None


def test_a_signal_without_a_name_is_told_by_number() -> None:
    assert str(probe("odd_signal").died).startswith("killed by signal ")


def test_a_hang_costs_the_time_limit() -> None:
    facts = probe("hangs", time_limit_s=0.7)
    assert (facts.died, facts.died_in) == ("no answer within 0.7 s", "import hangs")


def test_a_child_that_prints_much_does_not_block() -> None:
    facts = probe("chatty", "good_one")
    assert facts.died is None
    assert len(facts.tail) == child_probe.TAIL_BYTES


def test_abandoned_child_is_gone() -> None:
    running = Probe([("import", "hangs")], time_limit_s=30)
    running.abandon()
    running.abandon()
    assert running._child.poll() is not None


def test_interpreter_that_does_not_start_is_told() -> None:
    facts = Probe([("import", "good_one")], time_limit_s=10, flags=("--no-such-option",)).finish()
    assert facts.died == "ended with exit code 2"
    found = outcome([facts], "import good_one")
    assert found is not None
    assert found.error == "the interpreter itself ended with exit code 2"


def test_python_that_is_not_there_raises_and_leaks_no_pipe() -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(OSError, match="nonexistent"):
        Probe([("import", "good_one")], time_limit_s=5, python="/nonexistent/python")
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before


def test_lines_that_are_no_message_are_dropped() -> None:
    assert child_probe._message(b'{"step": "import to') == {}
    assert child_probe._message(b"[]") == {}


def test_the_child_runs_its_steps_in_this_process_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same program, read line by line here, where its coverage and its real torch can be seen."""
    monkeypatch.setattr(probe_child.signal, "alarm", lambda _seconds: 0)
    monkeypatch.setattr(probe_child, "SKIPPED_OPTIONAL", ())
    monkeypatch.syspath_prepend(str(tmp_path))
    steps = [
        ("import", "good_one"),
        ("import", "raises"),
        ("torch-facts", ""),
        ("torch-facts", "cuda"),
        ("operate", "float32 cpu"),
        ("operate", "bfloat16 cpu"),
        ("operate", "float16 cpu"),
        ("operate", "float99 cpu"),
    ]
    read, write = os.pipe()
    probe_child.main({"fd": write, "time_limit_s": 60, "steps": steps})
    os.close(write)
    with os.fdopen(read) as pipe:
        lines = [json.loads(line) for line in pipe]
    answers = {line["step"]: line for line in lines if "ok" in line}
    assert lines[-1] == {"end": True}
    assert answers["torch-facts"]["facts"]["version"] == sys.modules["torch"].__version__
    assert "cards" not in answers["torch-facts"]["facts"]
    seen = answers["torch-facts cuda"]["facts"]
    assert seen["available"] == ("why" not in seen)
    assert answers["operate float32 cpu"]["ok"]
    assert answers["operate bfloat16 cpu"]["ok"]
    assert answers["operate float16 cpu"]["ok"]
    assert "AttributeError" in answers["operate float99 cpu"]["error"]


def test_why_not_tells_the_first_line_or_says_that_no_card_is_visible() -> None:
    def silent() -> None:
        raise RuntimeError

    def loud() -> None:
        raise RuntimeError("\nno driver\nat line 3")

    for init, words in (
        (silent, "no CUDA device is visible"),
        (loud, "no driver"),
        (lambda: None, "no CUDA device is visible"),
    ):
        torch = type("Torch", (), {"cuda": type("Cuda", (), {"init": staticmethod(init)})})
        assert probe_child._why_not(torch) == words

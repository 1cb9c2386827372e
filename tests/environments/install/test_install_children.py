"""One child of an install: its output, its end, a sign of life, and what stops it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.environments.errors import LabError
from tools.environments.install import children, install_text
from tools.environments.install.install_text import Narrator

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)"
)


def run(tmp_path: Path, code: str, **options: object) -> children.ChildEnded:
    argv = [sys.executable, "-c", code]
    return children.run(argv, env={}, cwd=tmp_path, log=tmp_path / "log", **options)  # type: ignore[arg-type]


def test_output_and_exit_code(tmp_path: Path) -> None:
    ended = run(tmp_path, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (ended.code, ended.lines()) == (3, ["out", "err"])
    assert ended.seconds > 0


def test_no_log_is_no_line(tmp_path: Path) -> None:
    ended = run(tmp_path, "pass")
    ended.out.unlink()
    assert ended.lines() == []


def test_a_sign_of_life_with_the_last_line(tmp_path: Path) -> None:
    heard: list[tuple[float, str]] = []
    code = "import time; print('downloading torch', flush=True); time.sleep(0.6)"
    run(tmp_path, code, tick=lambda seconds, last: heard.append((seconds, last)), every_s=0.1)
    assert heard[-1][1] == "downloading torch"


def test_work_beside_it_is_done_while_it_runs(tmp_path: Path) -> None:
    """The child waits for a file that only the work beside it makes."""
    made = tmp_path / "made"
    code = f"import pathlib, time\nwhile not pathlib.Path({str(made)!r}).exists(): time.sleep(0.01)"
    assert run(tmp_path, code, beside=made.touch).code == 0


def test_what_the_watch_raises_ends_the_child(tmp_path: Path) -> None:
    def watch() -> None:
        raise LabError("an index that answers", "none", "")

    with pytest.raises(LabError):
        run(tmp_path, "import time; time.sleep(3600)", watch=watch)


def test_a_child_that_will_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "GRACE_S", 0.2)
    marker = tmp_path / "alive"

    def watch() -> None:
        if marker.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, f"{STUBBORN}\nopen({str(marker)!r}, 'w').close()\ntime.sleep(30)", watch=watch)
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    assert not any(str(marker).encode() in command for command in running)


@pytest.mark.race
def test_a_second_ctrl_c_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-c", f"{STUBBORN}; print(1, flush=True); time.sleep(30)"], stdout=-1)
    assert child.stdout is not None
    child.stdout.readline()

    def interrupted(_seconds: float) -> int:
        raise KeyboardInterrupt

    real = child.wait
    monkeypatch.setattr(child, "wait", lambda timeout=None: interrupted(timeout) if timeout else real())
    children._end(child)
    assert child.returncode == -signal.SIGKILL
    child.stdout.close()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        children.run(["/nowhere/uv"], env={}, cwd=tmp_path, log=tmp_path / "log")


class Screen:
    """A terminal, as far as a narrator asks."""

    def __init__(self, terminal: bool) -> None:
        self.terminal = terminal
        self.text = ""

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_a_terminal_sees_one_line_that_changes_and_a_log_sees_whole_lines() -> None:
    screen, log = Screen(True), Screen(False)
    for stream in (screen, log):
        say = Narrator(stream)  # type: ignore[arg-type]
        say.progress("torch", 31.0, "Downloading torch from https://me:pw@mirror.example")
        say.step("torch", "done", "2.13.0+cpu", 31.4)
        assert "pw@" not in stream.text
        assert "31 s" in stream.text
    assert screen.text.startswith("\r\x1b[K")
    assert screen.text.count("\n") == 1
    assert "\x1b" not in log.text
    assert log.text.count("\n") == 2
    assert Narrator(screen).every_s < Narrator(log).every_s <= 60 / 2  # type: ignore[arg-type]
    assert install_text.LOG_EVERY_S < 60

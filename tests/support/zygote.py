"""Many real runs for the price of one import: a process that has imported torch and forks a command line per request.

    run = zygote.at(runs).start("run", "mixed_precision_backward", ...)
    run.kill(); run.wait()

All tests of one process share it (the fixture `forks`); each file has runs of its own.

Each run is `experiments.cli.entry.main` in a fresh fork with its own output files, as good as a new process but for
the imports. Preflight runs in its quick form there; one test runs the whole command in a new interpreter.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Done:
    """How a run ended."""

    code: int  # negative: ended by that signal
    stdout: str
    stderr: str


class Run:
    """One forked command line."""

    def __init__(self, zygote: Zygote, pid: int, out: Path) -> None:
        self._zygote = zygote
        self.pid = pid
        self._out = out

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal, if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self) -> Done:
        """Its exit code and what it wrote."""
        code = self._zygote.ask({"wait": self.pid})["code"]
        assert isinstance(code, int)
        read = [(self._out / name).read_text(encoding="utf-8") for name in ("stdout", "stderr")]
        return Done(code, *read)


class Zygote:
    """The importing process."""

    def __init__(self, outputs: Path) -> None:
        self._outputs = outputs
        self._count = 0
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def ask(self, request: dict[str, object]) -> dict[str, object]:
        """One line there, one line back."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, object] = json.loads(self._process.stdout.readline())
        return answer

    def at(self, runs: Path) -> Forks:
        """Command lines whose runs are written into this folder."""
        return Forks(self, runs)

    def fork(self, runs: Path, argv: Sequence[str]) -> Run:
        """Fork a command line."""
        self._count += 1
        out = self._outputs / str(self._count)
        out.mkdir(parents=True)
        pid = self.ask({"argv": list(argv), "out": str(out), "runs": str(runs)})["pid"]
        assert isinstance(pid, int)
        return Run(self, pid, out)


@dataclass(frozen=True)
class Forks:
    """Command lines with one folder of runs."""

    zygote: Zygote
    runs: Path

    def start(self, *argv: str) -> Run:
        """Fork a command line."""
        return self.zygote.fork(self.runs, argv)

    def run(self, *argv: str) -> Done:
        """Fork a command line and wait for its end."""
        return self.start(*argv).wait()


def _serve() -> None:
    import importlib
    import warnings
    from functools import partial

    from experiments.cli import entry
    from tools.environments.preflight import preflight

    preflight.run = partial(preflight.run, quick=True)  # type: ignore[assignment]
    importlib.import_module("experiments.harness.tasks")
    importlib.import_module("experiments.kinds.training_step.child")
    importlib.import_module("experiments.training_mechanism.mixed_precision_backward.worker")
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            answer: dict[str, object] = {"code": os.waitstatus_to_exitcode(status)}
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                for number, name in ((1, "stdout"), (2, "stderr")):
                    os.dup2(os.open(f"{request['out']}/{name}", os.O_WRONLY | os.O_CREAT, 0o644), number)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
                os.environ["TMLAB_RUNS"] = request["runs"]
                code = 1
                try:
                    code = entry.main(request["argv"])
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
            answer = {"pid": pid}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()

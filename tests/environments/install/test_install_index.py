"""The question to the index: not asked by a machine that is refused, and never in the way when the process ends."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path

import install_checkout
import pytest

from tools.environments.command_line import LEFT_BEHIND
from tools.environments.errors import LabError
from tools.environments.install import install, install_index
from tools.environments.install.install_text import Narrator
from tools.environments.install.planning import InstallRequest
from tools.environments.sources import indexes
from tools.environments.sources.index_settings import IndexSettings


def test_a_machine_that_is_refused_asks_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = install_checkout.make(tmp_path)
    path = checkout.root / "requirements" / "environment-profiles.json"
    document = json.loads(path.read_text())
    document["profiles"][0]["host"]["disk_gib"] = 10**7
    path.write_text(json.dumps(document))
    asked: list[IndexSettings] = []
    monkeypatch.setattr(install, "IndexProbe", asked.append)
    with pytest.raises(install.GateBlockedError):
        install.install(InstallRequest("TINY-CPU", backend="venv"), os.environ, Narrator(io.StringIO()), checkout.root)
    assert asked == []


def test_both_of_its_threads_may_be_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is what the end of a command line looks for."""
    names: list[str] = []

    def fetch(*_: object, **__: object) -> bytes:
        names.append(threading.current_thread().name)
        return b""

    def answers(index: str) -> LabError | None:
        names.append(threading.current_thread().name)
        return ask(index)

    ask = indexes.answers
    monkeypatch.setattr(indexes, "_fetch", fetch)
    monkeypatch.setattr(indexes, "answers", answers)
    install_index.IndexProbe(IndexSettings(index_url="http://127.0.0.1:9/simple")).wait()
    assert names == [LEFT_BEHIND, LEFT_BEHIND]

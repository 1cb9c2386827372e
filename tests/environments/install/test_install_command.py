"""The installer's options and the variables that stand for them."""

from __future__ import annotations

import json
import signal

import pytest

from tools.environments.install import install_command


@pytest.fixture(autouse=True)
def own_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """main answers a polite request to end; here that stays the test runner's."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--locate",)])
def test_a_variable_that_names_no_backend_is_blamed_itself(
    more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMLAB_BACKEND", "banana")
    assert install_command.main(["--profile", "TRAIN-CPU", "--json", *more]) == 2
    told = json.loads(capsys.readouterr().out)
    assert (told["status"], told["error"]["where"], told["error"]["found"]) == ("usage", "TMLAB_BACKEND", "'banana'")


def test_a_variable_that_says_neither_yes_nor_no_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMLAB_OFFLINE", "maybe")
    assert install_command.main(["--profile", "TRAIN-CPU", "--json", "--dry-run"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["where"] == "TMLAB_OFFLINE"

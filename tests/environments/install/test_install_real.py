"""TRAIN-CPU for real: by uv from nothing, and by the reference text's own commands, then adopted."""

from __future__ import annotations

import json
import os
import subprocess

import install_checkout
import pytest
from install_checkout import Checkout

pytestmark = [pytest.mark.slow, pytest.mark.network]
NAME = "llm_train_cpu"
NO_HUB = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return install_checkout.real(tmp_path_factory.mktemp("real"))


def found_off(checkout: Checkout, name: str) -> list[str]:
    """What preflight has to say where no hub can be reached; not of the machine's room, which other work may take."""
    python = str(checkout.prefix(name) / "bin" / "python")
    command = [python, "tools/environment_preflight.py", "--profile", "TRAIN-CPU", "--json"]
    env = {**checkout.environ, **NO_HUB}
    answer = subprocess.run(command, cwd=checkout.root, env=env, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    checks = [check for check in json.loads(answer.stdout)["checks"] if not check["id"].startswith("host.")]
    assert len(checks) > 20
    return [f"{check['id']}: {check['found']}" for check in checks if check["status"] in ("warning", "blocked")]


def test_by_uv_from_nothing(checkout: Checkout) -> None:
    checkout.install("--backend", "uv", profile="TRAIN-CPU", offline=False, timeout=580)
    answer = checkout.install("--backend", "uv", "--json", profile="TRAIN-CPU", offline=False)
    told = json.loads(answer.stdout)
    assert told["status"] == "current"
    assert told["torch"].endswith("+cpu")
    assert found_off(checkout, NAME) == []
    assert checkout.whole(NAME).broken == ()
    code = "import torch; print(torch.__version__, torch.version.cuda)"
    ran = subprocess.run([told["python"], "-c", code], capture_output=True, text=True)
    assert ran.stdout.split() == [told["torch"], "None"]


@pytest.mark.full
def test_by_hand_with_the_reference_commands_then_adopted(checkout: Checkout) -> None:
    """conda creates Python alone there, so venv stands in for its first line; the rest is word for word."""
    prefix = checkout.prefix("by_hand")
    # One try is enough where PyTorch's index cannot be reached: pip's default makes over a minute of that.
    env = {name: value for name, value in checkout.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PIP_RETRIES": "0", "PYTHONNOUSERSITE": "1", "PYTHONPATH": ""}
    env = {**env, "PATH": f"{prefix / 'bin'}{os.pathsep}{env['PATH']}"}
    install_checkout.make_venv(prefix)
    for line in (
        "python -m pip install --upgrade pip",
        "python -m pip install -r requirements/torch-cpu.txt",
        "python -m pip install -r requirements/training-mechanism.txt",
        "python tools/register_notebook_runtime.py",
        "python -m pip check",
    ):
        ran = subprocess.run(line, shell=True, cwd=checkout.root, env=env, capture_output=True, text=True, timeout=580)
        assert ran.returncode == 0, f"{line}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}"
    assert found_off(checkout, "by_hand") == []
    adopted = checkout.install(
        "--adopt", "--env-name", "by_hand", "--json", profile="TRAIN-CPU", offline=False, timeout=200
    )
    assert json.loads(adopted.stdout)["status"] == "adopted"
    current = checkout.install("--env-name", "by_hand", profile="TRAIN-CPU", offline=False)
    assert "environment current" in current.stdout

"""kill -9 at random moments of every step: the next call finishes, and every installed file is whole.

Tiny wheels give many moments in little time; a few kills hit the real TRAIN-CPU packages. The random moments come from
the seed of the run (--seed), which a failure prints. The gate kills three times, the full stage at every moment.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import install_checkout
import pytest
from install_checkout import Checkout, Index
from stages import CURRENT, few

from tools.environments.install import install
from tools.environments.install.install_journal import InstallJournal
from tools.environments.installed import stamp

STEPS = ("create", "pip", "torch", "tiny", "register", "pip-check", "preflight", "stamp")
# (backend, step, latest moment after its start in seconds): every step of uv three times, the steps that take longer in
# pip twice.
MOMENTS = [("uv", step, 0.15) for step in STEPS for _ in range(3)]
MOMENTS += [
    ("venv", step, longest) for step, longest in (("pip", 2.5), ("torch", 1.5), ("tiny", 1.5)) for _ in range(2)
]
IN_GATE = {MOMENTS.index(moment) for moment in (("uv", "torch", 0.15), ("uv", "tiny", 0.15), ("venv", "torch", 1.5))}
NUMBERS = [n if n in IN_GATE else pytest.param(n, marks=pytest.mark.full) for n in range(len(MOMENTS))]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return install_checkout.make(tmp_path_factory.mktemp("kill"))


def draw(*what: int) -> random.Random:
    """A source of moments for one kill of this run."""
    return random.Random(f"{CURRENT.seed} {what}")


def assert_finished(checkout: Checkout, name: str) -> None:
    assert checkout.whole(name).broken == ()
    progress = InstallJournal(checkout.state(name) / "journal.jsonl").read()
    assert progress is not None
    assert progress.finished
    written = stamp.read(checkout.prefix(name))
    assert written is not None
    assert written.packages == stamp.installed(checkout.prefix(name))


@pytest.mark.slow
@pytest.mark.race(moments=len(MOMENTS))
@pytest.mark.parametrize("number", NUMBERS)
def test_kill_at_a_random_moment(checkout: Checkout, number: int, repetition: int) -> None:
    backend, step, longest = MOMENTS[number]
    delay = draw(repetition, number).uniform(0, longest)
    told = f"--seed {CURRENT.seed}: {backend}, {step} after {delay:.3f} s"
    name = f"k{repetition}_{number}"
    child = checkout.start_to_kill("--backend", backend, "--env-name", name)
    reached = checkout.wait_for("start", step, child, name=name)
    time.sleep(delay)
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    out, err = child.communicate()
    assert reached, f"{told}\n{out}{err}"
    again = checkout.install("--backend", backend, "--env-name", name)
    assert again.returncode == 0, f"{told}\n{out}\n{again.stdout}"
    assert_finished(checkout, name)
    assert any(word in again.stdout for word in ("resuming at", "starting over", "environment current")), told
    current = checkout.install("--env-name", name)
    assert "environment current" in current.stdout, f"{told}\n{current.stdout}"


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.race
def test_killed_again_and_again_it_gets_there_in_the_end(checkout: Checkout, repetition: int) -> None:
    """Each call is killed a little later than the one before."""
    name = f"again{repetition}"
    for number in range(1, 40):
        child = checkout.start_to_kill("--backend", "uv", "--env-name", name)
        time.sleep(0.1 * number)
        ended = child.poll()
        if ended is None:
            os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        assert "Traceback" not in out + err
        if ended is not None:
            assert ended == 0, out + err
            break
    else:
        pytest.fail("not finished after 39 calls")
    assert_finished(checkout, name)


@pytest.mark.slow
@pytest.mark.race
@pytest.mark.parametrize(("step", "held"), few(1, [("torch", "torch-"), ("tiny", "tiny_alpha-")]))
def test_the_installer_alone_is_killed_and_its_child_goes_on(
    checkout: Checkout, tmp_path: Path, step: str, held: str, repetition: int
) -> None:
    """The next call waits for the orphan, since it still writes, and then resumes."""
    name = f"alone_{step}_{repetition}"
    served = shutil.copytree(checkout.wheels, tmp_path / "served")
    install_checkout.seeds(served)
    index = Index(served, held=held)
    sources = ("--backend", "venv", "--env-name", name, "--index-url", index.url, "--torch-index", index.url)
    child = checkout.start_to_kill(*sources, offline=False)
    assert checkout.wait_for("start", step, child, name=name)
    assert index.holding.wait(60)  # its pip waits for the file
    child.kill()
    child.communicate()
    again = checkout.start(*sources, offline=False)
    assert again.stdout is not None
    assert any(f"waiting for process {child.pid}" in line for line in again.stdout)
    index.release.set()
    told, _ = again.communicate(timeout=120)
    index.stop()
    assert again.returncode == 0, told
    assert_finished(checkout, name)
    assert f"resuming at {step}" in told


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.race
def test_killed_while_recreating(checkout: Checkout, repetition: int) -> None:
    name = f"re{repetition}"
    assert checkout.install("--backend", "uv", "--env-name", name).returncode == 0
    for number in range(4):
        child = checkout.start_to_kill("--backend", "uv", "--env-name", name, "--recreate")
        time.sleep(0.15 + 0.1 * number)
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    again = checkout.install("--backend", "uv", "--env-name", name)
    assert again.returncode == 0, again.stdout
    assert_finished(checkout, name)
    assert not (checkout.state(name) / "removed").exists()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout with the real registry, where a CPU torch can be had."""
    return install_checkout.real(tmp_path_factory.mktemp("real"))


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.full
@pytest.mark.parametrize("number", range(4))
def test_kill_the_real_install(real: Checkout, number: int) -> None:
    """TRAIN-CPU: 33,000 files, of which a kill leaves some missing."""
    step, longest = [("torch", 1.0), ("training-mechanism", 2.0)][number % 2]
    delay = draw(1000, number).uniform(0.05, longest)
    told = f"--seed {CURRENT.seed}: {step} after {delay:.3f} s"
    there = real.prefix("llm_train_cpu").exists()  # left by another number: tests run in any order
    arguments = ("--backend", "uv", *(["--recreate"] if there else []))
    (real.state("llm_train_cpu") / "journal.jsonl").unlink(missing_ok=True)
    child = real.start_to_kill(*arguments, profile="TRAIN-CPU", offline=False)
    assert real.wait_for("start", step, child, name="llm_train_cpu"), told
    time.sleep(delay)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    again = real.install("--backend", "uv", profile="TRAIN-CPU", offline=False, timeout=400)
    assert again.returncode == 0, f"{told}\n{again.stdout}"
    assert "preflight" in again.stdout
    assert_finished(real, "llm_train_cpu")


def test_install_is_importable_without_side_effects() -> None:
    """The library half is used by others too; importing it starts nothing."""
    code = "import tools.environments.install.install, sys; sys.exit('urllib.request' in sys.modules)"
    root = Path(install.__file__).parents[3]
    ran = subprocess.run([sys.executable, "-c", code], cwd=root)
    assert ran.returncode == 0

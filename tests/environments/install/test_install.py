"""Installs from beginning to end with real uv and real pip: current, resumed, refused, recreated, adopted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import install_checkout
import pytest
from install_checkout import Checkout, answered
from stages import few

from tools.environments.installed import installed_files, registration, stamp


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return install_checkout.installed(tmp_path_factory.mktemp("template"))


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    return install_checkout.make(tmp_path)


@pytest.fixture
def ready(template: Checkout) -> Checkout:
    return install_checkout.put_back(template)


@pytest.mark.parametrize("backend", ["uv", "venv"])
def test_from_nothing_to_a_stamped_environment(fresh: Checkout, backend: str) -> None:
    told = answered(fresh, "--backend", backend)
    assert (told["status"], told["backend"], told["torch"]) == ("installed", backend, "2.13.0+cpu")
    assert told["environment"] == "tiny_cpu"
    assert told["prefix"] == str(fresh.prefix())
    assert list(told["steps"]) == ["create", "pip", "torch", "tiny", "register", "pip-check", "preflight", "stamp"]
    assert fresh.packages().keys() == {"pip", "tiny-alpha", "tiny-beta", "torch"}
    assert fresh.whole().broken == ()
    written = stamp.read(fresh.prefix())
    assert written is not None
    assert written.index["find_links"] == [str(fresh.wheels)]
    ran = subprocess.run([told["python"], "-c", "import tools, tiny_alpha"], cwd="/", capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert (fresh.prefix() / "bin" / "pip").exists()


def test_a_second_call_finds_it_current_and_does_nothing(ready: Checkout) -> None:
    before = ready.journal()
    told = answered(ready)
    assert told["status"] == "current"
    assert ready.journal() == before
    assert "environment current (" in ready.install().stdout


def test_locate_says_where_it_is_and_writes_nothing(ready: Checkout) -> None:
    (installed_files.site_packages(ready.prefix()) / registration.PTH_NAME).unlink()
    before = sorted(ready.root.glob(".envs/**/*"))
    told = answered(ready, "--locate")
    assert (told["status"], told["python"]) == ("current", str(ready.prefix() / "bin" / "python"))
    assert "environment current · .envs/tiny_cpu" in ready.install("--locate").stdout
    assert sorted(ready.root.glob(".envs/**/*")) == before
    assert "it belongs to TINY-CPU" in ready.install("--locate", "--env-name", "tiny_cpu", profile="OTHER-CPU").stdout
    (ready.prefix() / stamp.FILE_NAME).unlink()
    told = answered(ready, "--locate", code=1)
    assert told["error"]["found"] == "one whose install did not finish"


@pytest.mark.parametrize("more", [(), ("--locate",), ("--dry-run",)])
def test_a_python_that_the_profile_does_not_take_is_that_before_all_else(
    ready: Checkout, more: tuple[str, ...]
) -> None:
    told = answered(ready, "--python", "3.9", *more, code=2)
    assert told["error"]["found"] == "3.9"
    assert told["error"]["next"].startswith("--python 3.1")


def test_a_plan_says_what_is_there_already(ready: Checkout) -> None:
    def notes(*arguments: str) -> str:
        return " ".join(answered(ready, "--dry-run", *arguments)["notes"])

    assert "environment current: nothing of this would run" in notes()
    assert "note: environment current" in ready.install("--dry-run").stdout
    assert ".envs/tiny_cpu is removed first" in notes("--recreate")
    assert notes("--env-name", "another") == ""
    assert notes("--target", "image") == ""
    refused = answered(ready, "--dry-run", "--env-name", "tiny_cpu", profile="OTHER-CPU", code=1)
    assert refused["error"]["found"] == "it belongs to TINY-CPU"
    (ready.prefix() / stamp.FILE_NAME).unlink()
    assert "the steps that it finished are kept" in notes()
    (ready.state() / "journal.jsonl").unlink()
    assert "neither a stamp nor a journal" in answered(ready, "--dry-run", code=1)["error"]["found"]


def test_locate_of_an_absent_environment_names_the_command(fresh: Checkout) -> None:
    told = answered(fresh, "--locate", "--env-name", "mine", code=1)
    assert told["error"]["found"] == "none"
    assert told["error"]["next"].endswith("--profile TINY-CPU --env-name mine")
    assert not (fresh.root / ".envs").exists()


@pytest.mark.parametrize(
    "pair",
    [("--adopt", "--dry-run"), ("--locate", "--dry-run"), ("--adopt", "--recreate"), ("--layers", "x", "--adopt")],
)
def test_options_of_which_one_would_be_ignored_are_refused(fresh: Checkout, pair: tuple[str, ...]) -> None:
    told = answered(fresh, *pair, code=2)
    assert told["status"] == "usage"
    assert told["error"]["wanted"].startswith("either --")
    assert not (fresh.root / ".envs").exists()


def test_a_current_environment_that_lost_its_registration_gets_it_back(ready: Checkout) -> None:
    site = installed_files.site_packages(ready.prefix())
    (site / registration.PTH_NAME).unlink()
    answer = ready.install()
    assert "it was missing" in answer.stdout
    assert (site / registration.PTH_NAME).exists()
    assert "it was missing" not in ready.install().stdout


def test_the_output_is_one_line_a_step(fresh: Checkout) -> None:
    lines = fresh.install("--backend", "uv").stdout.splitlines()
    assert lines[0].startswith("TINY-CPU · tiny packages · about 0.1 GiB to download, 0.1 GiB on disk")
    assert " GiB free" in lines[1]
    named = [line.split("  ")[1] for line in lines[1:]]
    wanted = ["host gate", "create", "pip", "torch", "tiny", "register", "pip check", "preflight", "stamp"]
    assert named == [*wanted, "activate", "check", "remove"]
    assert all("\x1b" not in line for line in lines)


def test_fault_26_changed_requirements_are_not_passed_over(ready: Checkout) -> None:
    (ready.root / "requirements" / "tiny.txt").write_text("tiny-alpha>=1,<2\ntiny-beta>=1.1\n")
    told = answered(ready, code=1)
    assert "asks for other packages" in told["error"]["found"]
    assert "--env-name tiny_cpu_2" in told["error"]["next"]
    assert answered(ready, "--recreate")["status"] == "installed"
    assert answered(ready)["status"] == "current"


def test_another_profiles_environment_is_refused(ready: Checkout) -> None:
    told = answered(ready, "--env-name", "tiny_cpu", profile="OTHER-CPU", code=1)
    assert told["error"]["found"] == "it belongs to TINY-CPU"
    assert "create a new environment" in told["error"]["next"]
    assert "--profile OTHER-CPU --env-name other_cpu" in told["error"]["next"]


def test_packages_changed_by_hand_are_refused(ready: Checkout) -> None:
    site = installed_files.site_packages(ready.prefix())
    command = [
        install_checkout.UV,
        "pip",
        "install",
        "-q",
        "--offline",
        "--no-index",
        "--find-links",
        str(ready.wheels),
    ]
    subprocess.run([*command, "--python", str(ready.prefix() / "bin/python"), "tiny-beta==1.0.0"], check=True)
    assert "tiny-beta 1.1.0 -> 1.0.0" in answered(ready, code=1)["error"]["found"]
    assert (site / "tiny_beta").is_dir()


def test_files_removed_by_hand_are_refused(ready: Checkout) -> None:
    (installed_files.site_packages(ready.prefix()) / "tiny_alpha" / "m7.py").unlink()
    assert "tiny_alpha/m7.py is missing" in answered(ready, code=1)["error"]["found"]


def test_another_python_than_the_environments_is_refused(ready: Checkout) -> None:
    other = "3.12" if install_checkout.PYTHON == "3.11" else "3.11"
    error = answered(ready, "--python", other, code=1)["error"]
    assert f"not {other}" in error["found"]
    new, anew = error["next"].splitlines()
    assert f"--env-name tiny_cpu_2 --python {other}" in new
    assert f"--env-name tiny_cpu --recreate --python {other}" in anew


def test_a_torn_stamp_and_a_torn_journal_are_findings(ready: Checkout) -> None:
    path = ready.prefix() / stamp.FILE_NAME
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    told = answered(ready, code=1)
    assert "not whole JSON" in told["error"]["found"]
    path.unlink()
    (ready.state() / "journal.jsonl").write_text('{"event":"begin"\nrubbish\n')
    told = answered(ready, code=1)
    assert "line 1 is damaged" in told["error"]["found"]
    assert answered(ready, "--recreate")["status"] == "installed"


def test_an_environment_it_did_not_make_is_left_alone(fresh: Checkout) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh.prefix())], check=True)
    told = answered(fresh, code=1)
    assert "one that it did not make" in told["error"]["found"]
    assert "--adopt" in told["error"]["next"]


def test_recreate_removes_no_folder_that_is_no_environment(fresh: Checkout) -> None:
    fresh.prefix().mkdir(parents=True)
    (fresh.prefix() / "thesis.tex").touch()
    for content in (None, "rubbish\n"):
        if content:
            (fresh.state() / "journal.jsonl").write_text(content)
        told = answered(fresh, "--env-name", "tiny_cpu", "--recreate", code=1)
        assert "no environment" in told["error"]["found"]
        assert "--recreate" not in told["error"]["next"]  # which is what was typed
        assert (fresh.prefix() / "thesis.tex").exists()


def test_a_step_that_fails_is_resumed_at_that_step(fresh: Checkout) -> None:
    hidden = fresh.wheels.parent / "hidden"
    hidden.mkdir()
    for name in fresh.wheels.glob("tiny_beta*"):
        shutil.move(name, hidden)
    told = answered(fresh, "--backend", "uv", code=1)
    assert "tiny-beta" in told["error"]["found"]
    for name in list(hidden.iterdir()):
        shutil.move(name, fresh.wheels)
    answer = fresh.install("--backend", "uv")
    assert answer.returncode == 0
    assert "resuming at tiny" in answer.stdout
    kept = [line.split()[0] for line in answer.stdout.splitlines() if line.rstrip().endswith("kept")]
    assert kept == ["create", "pip", "torch"]


@pytest.mark.race
def test_files_that_vanish_while_it_is_unfinished_are_installed_anew(fresh: Checkout) -> None:
    """A killed package step: metadata there, files missing; neither pip nor uv notices."""
    child = fresh.start("--backend", "uv")
    assert fresh.wait_for("done", "tiny", child)
    os.killpg(child.pid, 9)
    child.wait()
    site = installed_files.site_packages(fresh.prefix())
    (site / "torch" / "part_7.py").unlink()
    (site / "tiny_alpha" / "m9.py").unlink()  # not emptied in place: uv's cache shares the file
    (site / "tiny_alpha" / "m9.py").touch()
    (site / "half_there").mkdir()
    answer = fresh.install("--backend", "uv")
    assert answer.returncode == 0, answer.stdout
    assert "half installed, taken out: tiny-alpha, torch, half_there" in answer.stdout
    assert fresh.whole().broken == ()
    assert not (site / "half_there").exists()


@pytest.mark.race
def test_changed_requirements_start_an_unfinished_one_over(fresh: Checkout) -> None:
    child = fresh.start("--backend", "uv")
    assert fresh.wait_for("done", "torch", child)
    os.killpg(child.pid, 9)
    child.wait()
    (fresh.root / "requirements" / "tiny.txt").write_text("tiny-alpha>=1,<2\ntiny-beta>=1.1\n")
    answer = fresh.install("--backend", "uv")
    assert answer.returncode == 0, answer.stdout
    assert "starting over: the unfinished one was made for another requirement text" in answer.stdout


@pytest.mark.race
def test_an_unfinished_one_of_another_profile_is_refused(fresh: Checkout) -> None:
    child = fresh.start("--backend", "uv")
    assert fresh.wait_for("done", "create", child)
    os.killpg(child.pid, 9)
    child.wait()
    told = answered(fresh, "--env-name", "tiny_cpu", profile="OTHER-CPU", code=1)
    assert "belongs to TINY-CPU, and is unfinished" in told["error"]["found"]


@pytest.mark.race
def test_a_second_installer_waits_and_says_for_whom(fresh: Checkout) -> None:
    first = fresh.start("--backend", "uv")
    assert fresh.wait_for("start", "create", first)
    second = fresh.install("--backend", "uv")
    assert first.wait(60) == 0
    assert second.returncode == 0
    assert f"waiting for process {first.pid} (install of TINY-CPU" in second.stdout
    assert "environment current" in second.stdout
    first.communicate()


def test_a_profile_without_torch(fresh: Checkout) -> None:
    told = answered(fresh, "--backend", "uv", profile="TINY-DELIVERY")
    assert told["torch"] is None
    assert "torch" not in told["steps"]


def test_a_preflight_that_blocks_leaves_no_stamp(fresh: Checkout) -> None:
    document = json.loads((fresh.root / "requirements" / "environment-profiles.json").read_text())
    document["profiles"][0]["required_modules"].append("not_there")
    (fresh.root / "requirements" / "environment-profiles.json").write_text(json.dumps(document))
    told = answered(fresh, "--backend", "uv", code=1)
    assert told["error"]["where"] == "preflight"
    assert "not_there" in told["error"]["found"]
    assert stamp.read(fresh.prefix()) is None
    document["profiles"][0]["required_modules"].pop()
    (fresh.root / "requirements" / "environment-profiles.json").write_text(json.dumps(document))
    assert list(answered(fresh, "--backend", "uv")["steps"]) == ["preflight", "stamp"]


def run(checkout: Checkout, *command: str) -> None:
    subprocess.run(command, cwd=checkout.root, env=checkout.environ, check=True, capture_output=True)


def by_hand(checkout: Checkout, prefix: Path) -> None:
    """The reference text's manual commands, on the tiny wheels."""
    python, folder = str(prefix / "bin" / "python"), ("--no-index", "--find-links", str(checkout.wheels))
    install_checkout.make_venv(prefix)
    run(checkout, python, "-m", "pip", "install", *folder, "torch==2.13.0+cpu")
    run(checkout, python, "-m", "pip", "install", *folder, "-r", "requirements/tiny.txt")
    run(checkout, python, "tools/register_notebook_runtime.py")
    run(checkout, python, "-m", "pip", "check")


def by_hand_with_uv(checkout: Checkout, prefix: Path) -> None:
    """The same by uv, which takes a tenth of the time."""
    install_checkout.pip_wheel(checkout.wheels)
    uv = (install_checkout.UV, "pip", "install", "--python", str(prefix / "bin" / "python"), "--offline", "--no-index")
    run(checkout, install_checkout.UV, "venv", "--python", sys.executable, str(prefix))
    run(checkout, *uv, "--find-links", str(checkout.wheels), "pip", "torch", "tiny-alpha")
    run(checkout, str(prefix / "bin" / "python"), "tools/register_notebook_runtime.py")


@pytest.mark.parametrize("maker", few(1, [by_hand_with_uv, by_hand]))
def test_adoption_by_name_path_and_running_interpreter(
    fresh: Checkout, tmp_path: Path, maker: Callable[[Checkout, Path], None]
) -> None:
    maker(fresh, fresh.prefix("mine"))
    told = answered(fresh, "--adopt", "--env-name", "mine")
    assert (told["status"], told["torch"], told["backend"]) == ("adopted", "2.13.0+cpu", "adopted")
    assert answered(fresh, "--env-name", "mine")["status"] == "current"
    assert answered(fresh, "--adopt", "--env-name", "mine")["status"] == "current"

    elsewhere = tmp_path / "elsewhere"
    by_hand_with_uv(fresh, elsewhere)
    assert answered(fresh, "--adopt", "--env-name", str(elsewhere))["prefix"] == str(elsewhere)

    running = tmp_path / "running"
    by_hand_with_uv(fresh, running)
    command = [str(running / "bin/python"), install_checkout.SCRIPT, "--profile", "TINY-CPU", "--adopt", "--json"]
    answer = subprocess.run(command, cwd=fresh.root, env=fresh.environ, capture_output=True, text=True)
    assert json.loads(answer.stdout)["prefix"] == str(running), answer.stderr


def test_adoption_refuses_what_is_off_profile(fresh: Checkout) -> None:
    """Fault 27: another torch than the profile's, however it came there."""
    install_checkout.torch_wheel(fresh.wheels, "2.13.0+cu130", "13.0")  # ranks above 2.13.0+cpu: a range takes it
    by_hand_with_uv(fresh, fresh.prefix("mine"))
    assert fresh.packages("mine")["torch"] == "2.13.0+cu130"
    told = answered(fresh, "--adopt", "--env-name", "mine", code=1)
    assert "torch.build" in told["error"]["found"]
    assert stamp.read(fresh.prefix("mine")) is None


@pytest.mark.race
def test_adoption_of_nothing_of_the_unfinished_and_of_the_dead(fresh: Checkout) -> None:
    told = answered(fresh, "--adopt", "--env-name", "none", code=2)
    assert told["status"] == "usage"
    child = fresh.start("--backend", "uv")
    assert fresh.wait_for("done", "create", child)
    os.killpg(child.pid, 9)
    child.wait()
    told = answered(fresh, "--adopt", "--env-name", "tiny_cpu", code=1)
    assert "has not finished" in told["error"]["found"]
    by_hand_with_uv(fresh, fresh.prefix("dead"))
    (fresh.prefix("dead") / "bin" / "python").unlink()
    assert "does not" in answered(fresh, "--adopt", "--env-name", "dead", code=1)["error"]["found"]

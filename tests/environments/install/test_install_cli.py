"""What a user can do wrong, or a machine can lack: each a clear finding with an exit code, and nothing lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import install_checkout
import pytest
from install_checkout import Checkout, Index
from stages import few

from tools.environments.installed import stamp

BACKENDS = few(1, ["uv", "venv"])  # what is told does not depend on it
NAMESPACES = (
    subprocess.run(["unshare", "-m", "-n", "true"], capture_output=True).returncode == 0
    if shutil.which("unshare")
    else False
)
needs_namespaces = pytest.mark.skipif(not NAMESPACES, reason="needs root and unshare, for a network or disk of its own")


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    return install_checkout.make(tmp_path)


@pytest.fixture
def index(fresh: Checkout) -> Iterator[Index]:
    """An index that has everything TINY-CPU needs, pip too."""
    install_checkout.seeds(fresh.wheels)
    running = Index(fresh.wheels)
    yield running
    running.stop()


@pytest.fixture
def closed() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def isolated(checkout: Checkout, script: str, *, network: bool = True) -> subprocess.CompletedProcess[str]:
    """A shell script in a mount (and network) namespace of its own, in the checkout."""
    flags = ["-m"] if network else ["-m", "-n"]
    return subprocess.run(
        ["unshare", *flags, "sh", "-c", script], cwd=checkout.root, env=checkout.environ, capture_output=True, text=True
    )


def shell(checkout: Checkout, *arguments: str, **options: Any) -> str:
    return " ".join(f"'{part}'" for part in checkout.command(*arguments, **options))


def test_an_unknown_profile_offers_the_nearest(fresh: Checkout) -> None:
    answer = fresh.install(profile="TINY-CPUS")
    assert answer.returncode == 2
    assert "did you mean TINY-CPU" in answer.stdout


def test_help_and_a_wrong_option(fresh: Checkout) -> None:
    assert "--find-links" in fresh.install("--help").stdout
    assert fresh.install("--backend", "poetry").returncode == 2
    assert fresh.install("--env-name", "../x").returncode == 2
    assert not (fresh.root / ".envs").exists()


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--locate",), ("--adopt",)])
def test_an_empty_name_is_no_name(fresh: Checkout, more: tuple[str, ...]) -> None:
    """What `--env-name "$UNSET"` becomes must not stand for the default environment."""
    answer = fresh.install("--env-name", "", *more)
    assert answer.returncode == 2
    assert "found  ''" in answer.stdout
    assert not (fresh.root / ".envs").exists()


def test_json_errors_are_json_alone(fresh: Checkout) -> None:
    """Fault 31: text before JSON on stdout."""
    answer = fresh.install("--json", profile="NOPE")
    told = json.loads(answer.stdout)
    assert (told["status"], told["python"]) == ("usage", None)
    assert set(told["error"]) == {"wanted", "found", "next", "where"}


def test_dry_run_does_nothing_and_asks_nothing(fresh: Checkout, closed: str) -> None:
    arguments = ["--dry-run", "--index-url", closed, "--torch-index", closed]
    answer = fresh.install(*arguments, offline=False)
    assert answer.returncode == 0
    assert "nothing was done" in answer.stdout
    assert "is assumed" in answer.stdout
    told = json.loads(fresh.install(*arguments, "--json", offline=False).stdout)
    assert told["steps"][0]["id"] == "gate"
    assert not (fresh.root / ".envs").exists()


def test_what_dry_run_prints_is_what_runs(fresh: Checkout) -> None:
    """The commands, pasted into a shell by hand in that order, make the environment."""
    told = json.loads(fresh.install("--dry-run", "--json", "--backend", "uv", "--offline").stdout)
    for step in told["steps"]:
        for path, text in step["writes"].items():
            (fresh.root / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh.root / path).write_text(text)
        if step["before"]:
            folder = fresh.state() / "pip-wheel"
            folder.mkdir(parents=True)
            install_checkout.pip_wheel(folder)
        env = {**fresh.environ, **{key: value for key, value in step["env"].items() if value is not None}}
        if step["argv"]:
            subprocess.run(step["argv"], cwd=fresh.root, env=env, check=True, capture_output=True)
    assert fresh.whole().broken == ()
    assert fresh.packages()["torch"] == "2.13.0+cpu"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_silent_index_is_told_in_seconds_with_the_option(fresh: Checkout, closed: str, backend: str) -> None:
    arguments = ["--backend", backend, "--find-links", str(fresh.wheels), "--index-url", f"{closed}/simple"]
    answer = fresh.install(*arguments, offline=False)
    assert answer.returncode == 1
    assert "refused" in answer.stdout
    assert "--index-url URL (TMLAB_INDEX_URL)" in answer.stdout
    assert "--offline uses the wheel folder alone" in answer.stdout
    assert '"step":"torch"' not in fresh.journal()


def test_no_torch_to_be_had_is_told_before_anything_is_made(fresh: Checkout, index: Index, closed: str) -> None:
    arguments = ["--index-url", index.url, "--torch-index", closed]
    answer = fresh.install(*arguments, offline=False)
    assert answer.returncode == 1
    assert "--torch-index URL (TMLAB_TORCH_INDEX)" in answer.stdout
    assert "--find-links DIR" in answer.stdout
    assert not fresh.prefix().exists()
    assert [path for path in index.asked if path.startswith("/files")] == []


def test_a_python_without_a_cpu_torch_is_told_which_would_do(fresh: Checkout, index: Index, closed: str) -> None:
    """A folder of wheels for another Python, and PyTorch's index out of reach."""
    (only,) = fresh.wheels.glob("torch-*.whl")
    other = "cp312" if install_checkout.TAG == "cp311" else "cp311"
    only.rename(only.with_name(only.name.replace(install_checkout.TAG, other)))
    arguments = ["--find-links", str(fresh.wheels), "--index-url", index.url, "--torch-index", closed]
    answer = fresh.install(*arguments, offline=False)
    assert answer.returncode == 1
    assert f"2.13.0+cpu for {other}" in answer.stdout
    assert f"--python 3.{other[3:]} can use the wheel that is there" in answer.stdout
    assert not fresh.prefix().exists()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mirror_serves_everything(fresh: Checkout, index: Index, backend: str) -> None:
    """--index-url and --torch-index by option and by variable, with a password that is recorded nowhere."""
    login = index.url.replace("http://", "http://me:s3cret@")
    fresh.extra = {"TMLAB_INDEX_URL": login, "TMLAB_TORCH_INDEX": login}
    answer = fresh.install("--backend", backend, offline=False)
    assert answer.returncode == 0, answer.stdout
    written = stamp.read(fresh.prefix())
    assert written is not None
    assert written.index["torch_index"] == index.url.replace("http://", "http://***@")
    kept = "".join(path.read_text(errors="replace") for path in fresh.state().rglob("*") if path.suffix == ".jsonl")
    assert "s3cret" not in answer.stdout + (fresh.prefix() / stamp.FILE_NAME).read_text() + kept


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mirror_that_lacks_a_package(fresh: Checkout, index: Index, backend: str) -> None:
    index.hidden = ("tiny-beta",)
    answer = fresh.install("--backend", backend, "--index-url", index.url, "--torch-index", index.url, offline=False)
    assert answer.returncode == 1
    assert "tiny-beta" in answer.stdout.partition("found")[2].partition("→")[0]
    assert "do not have it" in answer.stdout
    assert "--index-url" in answer.stdout
    index.hidden = ()
    again = fresh.install("--backend", backend, "--index-url", index.url, "--torch-index", index.url, offline=False)
    assert again.returncode == 0, again.stdout
    assert "resuming at tiny" in again.stdout


@pytest.mark.race
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_index_that_dies_on_the_way(fresh: Checkout, index: Index, backend: str) -> None:
    fresh.extra = {"UV_HTTP_RETRIES": "0", "PIP_RETRIES": "0"}  # both wait longer before each try
    child = fresh.start(
        "--backend", backend, "--index-url", index.url, "--torch-index", index.url, "--json", offline=False
    )
    assert fresh.wait_for("done", "create", child)
    index.stop()
    out, _ = child.communicate(timeout=120)
    assert child.returncode == 1
    told = json.loads(out)["error"]
    assert "--index-url" in told["next"] or "TMLAB_INDEX_URL" in told["next"]


@pytest.mark.parametrize("backend", ["uv", "venv"])  # each has variables of its own
def test_fault_27_preset_variables_do_not_choose_torch(fresh: Checkout, index: Index, backend: str) -> None:
    install_checkout.torch_wheel(fresh.wheels, "2.13.0+cu130", "13.0")  # ranks above +cpu
    preset = {"PIP_INDEX_URL": index.url, "PIP_EXTRA_INDEX_URL": index.url, "UV_INDEX": index.url, "PIP_PRE": "1"}
    preset |= {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_TORCH_BACKEND": "cu130",
        "PIP_FIND_LINKS": str(fresh.wheels),
    }
    fresh.extra = {**preset, "PIP_TARGET": str(fresh.root / "elsewhere"), "PYTHONPATH": "/opt/ros"}
    answer = fresh.install("--backend", backend, offline=False)
    assert answer.returncode == 0, answer.stdout
    assert fresh.packages()["torch"] == "2.13.0+cpu"
    assert not (fresh.root / "elsewhere").exists()


def test_a_cuda_profile_stops_at_the_gate_without_a_card(fresh: Checkout) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has a card")
    answer = fresh.install(profile="TRAIN-CUDA-MECHANISM", offline=False)
    assert answer.returncode == 1
    assert "gpu.count" in answer.stdout
    assert "python -m experiments fit --profile TRAIN-CUDA-MECHANISM" in answer.stdout
    assert answer.stdout.rstrip().endswith("nothing was downloaded")
    told = json.loads(fresh.install("--json", profile="TRAIN-CUDA-MECHANISM", offline=False).stdout)
    assert told["status"] == "blocked"
    assert any(check["id"] == "gpu.count" and check["status"] == "blocked" for check in told["checks"])
    assert not fresh.prefix("llm_train_mechanism_cu128").exists()


def test_an_image_of_a_cuda_profile_passes_the_gate_without_a_card(fresh: Checkout, index: Index) -> None:
    install_checkout.torch_wheel(fresh.wheels, "2.11.0+cu128", "12.8")
    document = json.loads((fresh.root / "requirements" / "environment-profiles.json").read_text())
    entry = next(entry for entry in document["profiles"] if entry["id"] == "TRAIN-CUDA-MECHANISM")
    entry["host"] |= {"disk_gib": 0.1}
    entry["cuda130"] = False  # a companion would save more than that
    (fresh.root / "requirements" / "environment-profiles.json").write_text(json.dumps(document))
    answer = fresh.install("--target", "image", "--backend", "uv", profile="TRAIN-CUDA-MECHANISM")
    assert answer.returncode == 0, answer.stdout
    assert fresh.packages("llm_train_mechanism_cu128")["torch"] == "2.11.0+cu128"


@pytest.mark.parametrize("given", ["3.9", "/bin/false", "/nowhere/python3.11"])
def test_a_python_that_cannot_be_used(fresh: Checkout, given: str) -> None:
    answer = fresh.install("--python", given)
    assert answer.returncode == 2
    assert "--python" in answer.stdout


def test_a_file_where_a_folder_belongs(fresh: Checkout) -> None:
    (fresh.root / ".envs").touch()
    answer = fresh.install()
    assert answer.returncode == 1
    assert "to write under" in answer.stdout


@needs_namespaces
def test_a_read_only_checkout(fresh: Checkout) -> None:
    (fresh.root / ".envs").mkdir()
    answer = isolated(fresh, f"mount -t tmpfs -o ro none .envs && {shell(fresh)}")
    assert answer.returncode == 1
    assert "Read-only file system" in answer.stdout
    assert "Traceback" not in answer.stderr


@needs_namespaces
def test_too_little_room_is_told_before_anything_is_made(fresh: Checkout) -> None:
    (fresh.root / ".envs").mkdir()
    answer = isolated(fresh, f"mount -t tmpfs -o size=20m none .envs && {shell(fresh)}; code=$?; ls .envs; exit $code")
    assert answer.returncode == 1
    assert "disk" in answer.stdout
    assert "nothing was downloaded" in answer.stdout
    assert "tiny_cpu" not in answer.stdout.splitlines()


@needs_namespaces
@pytest.mark.parametrize(
    ("backend", "size"), few(1, [("uv", "14m"), ("uv", "400k"), ("uv", "15m"), ("venv", "3m"), ("venv", "15m")])
)
def test_a_disk_that_fills_up_on_the_way(fresh: Checkout, backend: str, size: str) -> None:
    """Real ENOSPC at several moments; with room again the next call finishes."""
    (fresh.root / ".envs").mkdir()
    document = json.loads((fresh.root / "requirements" / "environment-profiles.json").read_text())
    document["profiles"][0]["host"] |= {"disk_gib": 0.0001}
    (fresh.root / "requirements" / "environment-profiles.json").write_text(json.dumps(document))
    install = shell(fresh, "--backend", backend)
    answer = isolated(
        fresh,
        f"mount -t tmpfs -o size={size} none .envs && {install}; echo code $?; "
        f"mount -o remount,size=900m .envs && {install} && cp -a .envs/tiny_cpu kept",
    )
    assert "Traceback" not in answer.stdout + answer.stderr, answer.stdout + answer.stderr
    first = answer.stdout.partition("code ")[0]
    if "code 1" in answer.stdout:
        assert "No space left on device" in first or "wanted room on the disk" in first, first
    assert answer.returncode == 0, answer.stdout + answer.stderr


@needs_namespaces
@pytest.mark.parametrize("backend", BACKENDS)
def test_without_any_network(fresh: Checkout, backend: str) -> None:
    answer = isolated(fresh, shell(fresh, "--backend", backend, offline=False), network=False)
    assert answer.returncode == 1
    assert "--find-links DIR" in answer.stdout
    offline = isolated(fresh, shell(fresh, "--backend", backend), network=False)
    assert offline.returncode == 0, offline.stdout


@pytest.mark.race
@pytest.mark.parametrize("step", few(2, ["torch", "preflight", "create", "pip", "tiny", "register", "pip-check"]))
def test_ctrl_c_at_every_stage(fresh: Checkout, step: str) -> None:
    child = fresh.start("--backend", "uv")
    assert fresh.wait_for("start", step, child)
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert "Traceback" not in out + err
    if child.returncode != 0:  # the last steps may be over before the signal is there
        assert child.returncode == 130
        assert "what was finished is kept" in out
        assert "resume   python tools/install_environment_profile.py --profile TINY-CPU" in out
    again = fresh.install("--backend", "uv")
    assert again.returncode == 0, again.stdout
    assert fresh.whole().broken == ()


@pytest.mark.full
@pytest.mark.race
def test_ctrl_c_to_the_installer_alone_and_a_polite_end(fresh: Checkout) -> None:
    for name, word in (("one", signal.SIGINT), ("tiny_cpu", signal.SIGTERM)):
        child = fresh.start("--backend", "venv", "--env-name", name, "--json")
        assert fresh.wait_for("start", "pip", child, name=name)
        child.send_signal(word)
        out, _ = child.communicate(timeout=60)
        assert child.returncode == 130
        assert json.loads(out)["status"] == "interrupted"
    again = fresh.install("--backend", "venv")
    assert again.returncode == 0
    assert "starting over: it was interrupted in step pip" in again.stdout


def test_a_lock_that_is_held_too_long_names_its_holder(fresh: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.environments.errors import LabError
    from tools.environments.installed import environment_lock

    path = fresh.state() / "lock"
    said: list[str] = []
    with environment_lock.hold(path, "install of X", said.append):
        monkeypatch.setattr(environment_lock, "REMIND_S", 0.0)
        with (
            pytest.raises(LabError) as caught,
            environment_lock.hold(path, "install of Y", said.append, wait_s=0.3),
        ):
            pass
    assert f"process {os.getpid()} (install of X" in caught.value.found
    assert len(said) > 1
    path.write_text("rubbish")
    assert environment_lock.holder(path) == "another process"
    with environment_lock.hold(path, "install of Z", said.append):
        pass


def test_a_file_system_without_locks_is_told_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.environments.errors import LabError
    from tools.environments.installed import environment_lock

    def refuse(number: int) -> None:
        raise OSError(number, os.strerror(number))

    said: list[str] = []
    monkeypatch.setattr(environment_lock.fcntl, "flock", lambda handle, how: refuse(errno.ENOLCK))
    with environment_lock.hold(tmp_path / "lock", "install of X", said.append):
        assert "knows no locks" in said[0]
    monkeypatch.setattr(environment_lock.fcntl, "flock", lambda handle, how: refuse(errno.EIO))
    with pytest.raises(LabError), environment_lock.hold(tmp_path / "lock", "install of X", said.append):
        pass


@pytest.mark.parametrize(
    ("arguments", "reader", "code"),
    [(("--backend", "uv"), "head -1", 0), (("--json", "--python", "3.9"), "true", 2), (("--env-name", ""), "true", 2)],
)
def test_a_reader_that_goes_away_changes_no_exit_code(
    fresh: Checkout, arguments: tuple[str, ...], reader: str, code: int
) -> None:
    """0 is said of a finished install alone, so that one goes on unheard."""
    command = f"{{ {shell(fresh, *arguments)}; echo $? >code; }} | {reader}"
    answer = subprocess.run(["sh", "-c", command], env=fresh.environ, cwd=fresh.root, capture_output=True, text=True)
    assert (fresh.root / "code").read_text() == f"{code}\n"
    assert "Traceback" not in answer.stderr
    assert (stamp.read(fresh.prefix()) is not None) == (code == 0)


def test_output_into_a_closed_pipe_is_no_crash(fresh: Checkout) -> None:
    command = f"{shell(fresh, '--dry-run')} | head -1"
    answer = subprocess.run(["sh", "-c", command], env=fresh.environ, cwd=fresh.root, capture_output=True, text=True)
    assert answer.stdout.startswith("TINY-CPU")
    assert answer.stderr == ""

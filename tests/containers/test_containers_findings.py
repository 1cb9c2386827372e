"""Each finding of the container side, provoked for real, and the engine's own words recognised where it cannot be."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from container_engine import KNOWN, base_or_skip, built, client_or_skip, own_engine, request, small_checkout, stop

from experiments.cli import asked
from tools.containers import container_command, engine, engine_findings, naming, smoke
from tools.environments import profile_session
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.install.install_text import Narrator
from tools.environments.layout import ROOT
from tools.environments.machine.gpu_facts import Card, GpuFacts
from tools.environments.sources import index_settings

NOBODY = 65534
CPU, GPU = KNOWN.get("TRAIN-CPU"), KNOWN.get("TRAIN-CUDA-MECHANISM")

WORDS = [
    ('could not select device driver "" with capabilities: [[gpu]]', "hand a GPU to a container"),
    ("failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=all", "hand a GPU to a container"),
    (
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to "
        "a newer version, or use an earlier cuda container: unknown",
        "new enough for the image",
    ),
    (
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object",
        "whose NVIDIA driver answers",
    ),
    ("manifest for python:9.9.9-slim not found: manifest unknown: manifest unknown", "the base image"),
    ("pull access denied for nope, repository does not exist or may require 'docker login'", "the base image"),
    ("write /var/lib/docker/tmp/x: no space left on device", "room on the engine's disk"),
    ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "certificate"),
    ("ERROR: No matching distribution found for torch==2.11.0+cu128", "build of torch"),
    ("Temporary failure in name resolution", "reaches the package index"),
]


@pytest.mark.parametrize(("said", "wanted"), WORDS)
def test_the_engine_s_own_words_are_known(said: str, wanted: str) -> None:
    error = engine_findings.explain(said, "something")
    assert wanted in error.wanted
    assert error.next


def test_words_nobody_knows_are_shown_as_they_are() -> None:
    error = engine_findings.explain("a  new\nsentence", "the image")
    assert (error.wanted, error.found) == ("the image", "a new sentence")
    assert "log" in error.next


def test_what_a_build_step_says_of_its_own_files_is_not_taken_for_the_engine_s() -> None:
    error = engine_findings.build_failed("Step 1/1 : RUN x", "lab", "returned 1", ["mkdir: Permission denied"], "log")
    assert "usermod" not in error.next
    assert "mkdir: Permission denied" in error.found


@pytest.mark.parametrize(
    ("driver", "refused"), [("470.57", True), ("524.9", True), ("525", False), ("580.65.06", False)]
)
def test_a_driver_below_the_floor_is_refused_before_a_container_starts(driver: str, refused: bool) -> None:
    facts = GpuFacts("nvml", driver, "12.8", (Card("c", 8, "8.9", "u"),))
    if refused:
        with pytest.raises(LabError, match=driver) as found:
            smoke.refuse_old_driver(GPU, facts)
        assert "525" in found.value.wanted
        assert found.value.where == "gpu.driver"
    else:
        smoke.refuse_old_driver(GPU, facts)


@pytest.mark.parametrize("driver", [None, "N/A"])
def test_a_driver_that_is_not_told_is_left_to_the_container(driver: str | None) -> None:
    smoke.refuse_old_driver(GPU, GpuFacts("none", driver))
    smoke.refuse_old_driver(CPU, GpuFacts("nvml", "1.0"))


def test_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(LabError) as found:
        engine.connect()
    assert "engine that answers" in found.value.wanted
    assert found.value.found == f"No such file or directory at unix://{tmp_path}/none.sock"
    assert "start one" in found.value.next


@pytest.mark.parametrize(
    ("address", "mend"),
    [
        ("nonsense", "export DOCKER_HOST=unix:///var/run/docker.sock"),
        ("tcp://here", "tcp://HOST:PORT"),
        ("tcp://here:abc", "tcp://HOST:PORT"),
        ("ssh://me@there", "/var/run/docker.sock me@there"),
    ],
)
def test_an_address_of_no_engine_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, address: str, mend: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(LabError) as refused:
        engine.connect()
    assert (refused.value.where, refused.value.code) == ("DOCKER_HOST", EXIT_USAGE)
    assert refused.value.found == repr(address)
    assert mend in refused.value.next


@pytest.mark.parametrize(
    "address", ["", "unix:///run/docker.sock", "tcp://127.0.0.1:2375", "127.0.0.1:2375", "unix://"]
)
def test_an_address_that_may_be_called_is_let_through(address: str) -> None:
    engine.refuse_address(address)


def test_a_socket_that_nobody_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place}")
    with pytest.raises(LabError, match="start one"):
        engine.connect()


def test_a_command_line_without_an_engine_ends_with_one_and_json_says_so(tmp_path: Path) -> None:
    environ = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    arguments = [sys.executable, "-m", "tools.containers", "list", "--json"]
    done = subprocess.run(arguments, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["next"].startswith("start one")
    assert done.stderr.startswith("blocked docker\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["build"],
        ["build", "--cpu", "--gpu"],
        ["build", "--profile", "NOPE"],
        ["list", "--nope"],
        ["build", "--cpu", "--ca", "/no"],
    ],
)
def test_wrong_usage_is_two(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "connect", lambda: None)
    assert container_command.main(arguments, asked.check_all) == 2
    assert "→" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["run", "smoke"])
@pytest.mark.parametrize("given", [("--workload", "nope"), ("--run-label", "a/b"), ("--experiment", "nope")])
def test_a_run_asked_for_wrongly_is_refused_before_the_engine_hears_of_it(
    action: str, given: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "connect", lambda: pytest.fail("the engine was asked"))
    assert container_command.main([action, "--profile", CPU.id, *given], asked.check_all) == 2
    assert given[1] in capsys.readouterr().out


def test_an_address_with_a_login_is_refused_before_the_engine_hears_of_it() -> None:
    wanted = request(
        "TRAIN-CPU", "b", settings=index_settings.IndexSettings(index_url="https://me:secret@mirror/simple")
    )
    with pytest.raises(LabError) as refused:
        built(None, wanted)
    assert "secret" not in str(refused.value)
    assert "stay in the image" in refused.value.wanted


def test_an_index_on_this_machine_s_disk_is_refused_too() -> None:
    with pytest.raises(LabError, match="--find-links DIR"):
        built(None, request("TRAIN-CPU", "b", settings=index_settings.IndexSettings(index_url="file:///mirror/simple")))


# What follows talks to a real engine.


@pytest.fixture(scope="module")
def client() -> Any:
    return client_or_skip()


@pytest.fixture
def throwaway(client: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Another name for images, and none of them left."""
    monkeypatch.setattr(naming, "REPOSITORY", "tmlab-findings")
    yield "tmlab-findings"
    for image in client.images.list("tmlab-findings"):
        for tag in image.tags:  # the same image may have names that are not ours
            if tag.startswith("tmlab-findings:"):
                client.images.remove(tag)


@pytest.mark.docker
@pytest.mark.full  # an engine of its own
def test_a_stopped_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_engine(tmp_path) as (address, process):
        monkeypatch.setenv("DOCKER_HOST", address)
        engine.connect().close()
        stop(process)
        with pytest.raises(LabError, match="start one"):
            engine.connect()


def as_nobody(action: Callable[[], object]) -> str:
    """What an action says when another user does it, in a child: they may not be able to start this interpreter."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            action()
            said = "it was let in"
        except BaseException as error:
            said = str(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    return said


@pytest.mark.docker
@pytest.mark.full  # an engine of its own
def test_a_socket_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_engine(tmp_path) as (address, _):
        for folder in (*reversed(tmp_path.parents), tmp_path):
            if folder.stat().st_uid == os.geteuid() and str(folder).startswith("/tmp/"):
                folder.chmod(folder.stat().st_mode | 0o055)
        path = address.removeprefix("unix://")
        os.chown(path, 0, 0)
        os.chmod(path, 0o660)
        monkeypatch.setenv("DOCKER_HOST", address)
        monkeypatch.setenv("HOME", "/nonexistent")
        engine.connect().close()  # as root it answers, and every module that it takes is imported
        said = as_nobody(engine.connect)
    assert "wanted a Docker engine this user may talk to" in said
    assert "usermod -aG docker" in said


@pytest.mark.docker
@pytest.mark.full  # an engine of its own
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(small)]).returncode != 0
    ):
        pytest.skip("a small file system of the test's own needs root")
    try:
        with own_engine(small) as (address, _):
            monkeypatch.setenv("DOCKER_HOST", address)
            root = small_checkout(tmp_path / "checkout", "FROM scratch AS base\nCOPY big /big\n", CPU)
            (root / "big").write_bytes(os.urandom(60_000_000))
            with pytest.raises(LabError) as found:
                built(engine.connect(), request("TRAIN-CPU", "", certificate=None, network=""), root)
        assert "room on the engine's disk" in found.value.wanted
        assert "docker system df" in found.value.next
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)


@pytest.mark.docker
def test_a_step_that_fails_is_named_with_its_last_lines(client: Any, throwaway: str, tmp_path: Path) -> None:
    base = base_or_skip(client)
    text = f"FROM {base} AS base\nFROM base AS torch\nRUN echo first && echo 'what went wrong' >&2 && exit 7\n"
    root = small_checkout(tmp_path / "checkout", text, CPU)
    with pytest.raises(LabError) as found:
        built(client, request("TRAIN-CPU", base), root)
    assert "stage torch" in found.value.wanted
    assert "Step 3/3 : RUN echo first" in found.value.found
    assert "non-zero code: 7" in found.value.found
    assert {line.strip() for line in found.value.found.splitlines()[2:]} == {"first", "what went wrong"}
    log = Path(found.value.next.partition("the whole output: ")[2])
    assert "what went wrong" in log.read_text(encoding="utf-8")


@pytest.mark.docker
def test_a_base_image_that_cannot_be_had(client: Any, throwaway: str, tmp_path: Path) -> None:
    root = small_checkout(tmp_path / "checkout", "ARG BASE_IMAGE\nFROM ${BASE_IMAGE} AS base\n", CPU)
    with pytest.raises(LabError) as found:
        built(client, request("TRAIN-CPU", "tmlab-no-such-base:1"), root)
    assert found.value.wanted == "the base image"
    assert "--base-image" in found.value.next


@pytest.mark.docker
def test_an_image_that_was_not_built(client: Any, throwaway: str) -> None:
    with pytest.raises(LabError) as found:
        smoke.find(CPU, client)
    assert found.value.next == "invoke image.build --profile TRAIN-CPU"


@pytest.mark.docker
def test_a_missing_nvidia_toolkit(client: Any, throwaway: str) -> None:
    if shutil.which("nvidia-smi") or "nvidia" in client.info().get("Runtimes", {}):
        pytest.skip("this machine has NVIDIA's toolkit")
    client.images.get(base_or_skip(client)).tag(naming.tag_of(GPU.id))
    with pytest.raises(LabError) as found:
        smoke.smoke(GPU, profile_session.parse([]), client, Narrator(sys.stderr))
    assert "hand a GPU to a container" in found.value.wanted
    assert "nvidia-ctk" in found.value.next
    assert not client.containers.list(all=True, filters={"label": f"{naming.OURS}=smoke {naming.tag_of(GPU.id)}"})


@pytest.mark.docker
def test_an_image_that_runs_as_root(client: Any, throwaway: str) -> None:
    client.images.get(base_or_skip(client)).tag(naming.tag_of(CPU.id))
    with pytest.raises(LabError, match="ordinary user") as found:
        smoke.smoke(CPU, profile_session.parse([]), client, Narrator(sys.stderr))
    assert found.value.found == "root"

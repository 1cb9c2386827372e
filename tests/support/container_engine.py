"""A Docker engine for the tests that need one, or the plain reason why there is none; and engines of their own."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.containers import build, context, engine, image_text
from tools.environments.errors import LabError
from tools.environments.install.install_text import Narrator
from tools.environments.layout import ROOT
from tools.environments.model import Profile
from tools.environments.registry import registry
from tools.environments.sources import index_settings

KNOWN = registry.load(ROOT)
# One build of a whole environment, on a machine that does other things too.
LONG = pytest.mark.timeout(1800)


def client_or_skip() -> Any:
    """A client of the engine here. Skips where none answers."""
    try:
        return engine.connect()
    except LabError as error:
        pytest.skip(f"no Docker engine can be had here: {error.found}")


def base_or_skip(client: Any) -> str:
    """A base image that is here, or that a registry gives. Skips where neither is."""
    named = os.environ.get("TMLAB_BASE_IMAGE") or image_text.BASE_IMAGE
    try:
        client.images.get(named)
    except Exception:
        try:
            client.images.pull(named)
        except Exception as error:
            pytest.skip(f"the base image {named} is not here and cannot be pulled: {str(error)[:200]}")
    return named


def request(profile: str, base: str, **changes: Any) -> build.BuildRequest:
    """A build as the command line would ask for it here: this machine's wheel folders, certificates and network."""
    certificate = os.environ.get("TMLAB_CA_FILE") or os.environ.get("SSL_CERT_FILE")
    given: dict[str, Any] = {
        "profile": KNOWN.get(profile),
        "settings": index_settings.resolve(index_settings.IndexOptions(), os.environ),
        "base_image": base,
        "certificate": Path(certificate) if certificate else None,
        "network": os.environ.get("TMLAB_BUILD_NETWORK", ""),
        "system_packages": "",  # a compiler for Triton is no part of what is tested here
        **changes,
    }
    return build.BuildRequest(**given)


def built(client: Any, asked: build.BuildRequest, root: Path = ROOT, commit: str = "c0ffee") -> tuple[build.Built, str]:
    """Build, and what was told while it did."""
    told = io.StringIO()
    return build.build(asked, KNOWN, client, Narrator(told), os.environ, commit, root), told.getvalue()


def copied(target: Path) -> Path:
    """A checkout of what a build sees, to be changed."""
    for kind in image_text.KINDS:
        for name in [*context.names(ROOT, kind.dockerfile), ".dockerignore"]:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


def small_checkout(target: Path, dockerfile: str, profile: Profile) -> Path:
    """A checkout whose image is built from this text: the registry, and nothing to install."""
    shutil.copytree(ROOT / "requirements", target / "requirements")
    (target / ".dockerignore").write_text("*\n!big\n")
    path = target / image_text.kind_of(profile).dockerfile
    path.parent.mkdir()
    path.write_text(dockerfile)
    return target


def ran(container: Any, *command: str) -> tuple[int, str]:
    """A command inside a running container: its exit code and everything it said."""
    code, output = container.exec_run(list(command))
    return code, output.decode("utf-8", "replace")


def file_from(container: Any, path: str) -> bytes:
    """The content of a file inside a container, running or not."""
    blocks, _ = container.get_archive(path)
    with tarfile.open(fileobj=io.BytesIO(b"".join(blocks))) as archive:
        content = archive.extractfile(archive.getmembers()[0])
        assert content is not None
        return content.read()


@contextlib.contextmanager
def own_engine(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A second engine that keeps everything below `folder`: its address and its process. Skips where none can run.

    It gets a network namespace of its own, since an engine without a bridge takes the bridge of the first one away, and
    a mount namespace, with which the mount that it makes of its data goes away.
    """
    if os.geteuid() != 0 or not all(map(shutil.which, ("dockerd", "unshare"))):
        pytest.skip("an engine of the test's own needs root, dockerd and unshare")
    socket = folder / "engine.sock"
    command = [
        "unshare",
        "--net",
        "--mount",
        "dockerd",
        "--data-root",
        str(folder / "data"),
        "--exec-root",
        str(folder / "exec"),
    ]
    command += ["--pidfile", str(folder / "pid"), "--host", f"unix://{socket}", "--iptables=false", "--bridge=none"]
    process = _start(command, folder / "log")
    try:
        tries = 1
        for _ in range(240):
            if process.poll() is not None:
                last = (folder / "log").read_text(errors="replace").strip().splitlines()[-1:]
                if tries == 5 or "timeout waiting for containerd" not in "".join(last):
                    pytest.skip(f"a second dockerd does not run here: {last}")
                process, tries = _start(command, folder / "log"), tries + 1  # dockerd waits 15 s: too short under load
            if socket.exists() and _answers(socket):
                break
            time.sleep(0.5)
        yield f"unix://{socket}", process
    finally:
        stop(process)


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with open(log, "wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End an engine, and with it what it started."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        if process.poll() is None:
            process.kill()
            process.wait()


def _answers(socket: Path) -> bool:
    import docker

    try:
        docker.DockerClient(base_url=f"unix://{socket}", timeout=5).ping()
    except Exception:
        return False
    return True

"""The one door to the Docker engine: a client that answered, or a finding that says why there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from tools.containers import engine_findings
from tools.environments.errors import EXIT_USAGE, LabError

ANSWER_S = 10  # for the first word: an engine that is there answers at once
WORK_S = 900  # of silence from a step that works

DEFAULT = "unix:///var/run/docker.sock"  # where the SDK looks without DOCKER_HOST

Client = Any  # docker.DockerClient: the SDK carries no types


def connect() -> Client:
    """A client of an engine that answers. LabError where there is none, or it may not be used."""
    try:
        import docker
    except ImportError:
        raise LabError(
            wanted="the Docker SDK for Python",
            found="none in this environment",
            next="python3 tools/bootstrap.py invoke image.list (its environment has it)",
        ) from None
    address = os.environ.get("DOCKER_HOST", "")
    refuse_address(address)
    with told("a Docker engine that answers", f"at {address or DEFAULT}"):
        first = docker.from_env(timeout=ANSWER_S)
        first.ping()
        first.close()
        return docker.from_env(timeout=WORK_S)


def refuse_address(address: str) -> None:
    """LabError (usage) for a DOCKER_HOST that the SDK cannot call: no address, an odd port, or ssh without paramiko."""
    from docker.errors import DockerException
    from docker.utils import parse_host

    by_ssh = address.startswith("ssh://")
    with suppress(DockerException, ValueError):
        parse_host(address or None)
        if not by_ssh or find_spec("paramiko") is not None:
            return
    mend = f"export DOCKER_HOST={DEFAULT}, or tcp://HOST:PORT; or unset DOCKER_HOST"
    if by_ssh:
        host = address.removeprefix("ssh://") or "HOST"
        mend = f"lead its socket here: ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock {host} & "
        mend += "export DOCKER_HOST=unix:///tmp/engine.sock"
    raise LabError(
        wanted="DOCKER_HOST as unix:///PATH or tcp://HOST:PORT",
        found=ascii(address)[:80],
        next=mend,
        where="DOCKER_HOST",
        code=EXIT_USAGE,
    )


@contextmanager
def told(wanted: str, place: str = "") -> Iterator[None]:
    """Turn what the engine or the way to it says into a finding; `place` is added where it does not say where."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        said = str(getattr(error, "explanation", "") or error)
        raise engine_findings.explain(said, wanted, place=place) from error

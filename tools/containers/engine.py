"""The one door to the Docker engine: a client that answered, or a finding that says why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tools.containers import findings
from tools.environments.errors import LabError

ANSWER_S = 10  # for the first word: an engine that is there answers at once
WORK_S = 900  # of silence from a step that works

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
    with told("a Docker engine that answers"):
        first = docker.from_env(timeout=ANSWER_S)
        first.ping()
        first.close()
        return docker.from_env(timeout=WORK_S)


@contextmanager
def told(wanted: str) -> Iterator[None]:
    """Turn what the engine or the way to it says into a finding."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        said = str(getattr(error, "explanation", "") or error)
        raise findings.explain(said, wanted) from error

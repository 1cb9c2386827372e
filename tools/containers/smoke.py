"""Proving an image: preflight, registration and the profile's smoke experiments inside it, and the records read out.

One container, started from the image's id, which it is told as TMLAB_IMAGE_DIGEST: nobody inside could know it. What it
wrote under runs/ is copied here before it is removed.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.containers import engine, engine_findings, naming
from tools.containers.engine import Client
from tools.environments import profile_session
from tools.environments.errors import LabError
from tools.environments.install.install_text import Narrator
from tools.environments.layout import RUNS
from tools.environments.machine import gpu_facts
from tools.environments.machine.image_facts import DIGEST_VARIABLE
from tools.environments.model import Profile
from tools.environments.registry.pep440 import Version

REGISTRATION = ("tools/register_notebook_runtime.py", "--check")
VALIDATION = "tools/validate_cnb_gpu.sh"


@dataclass(frozen=True, slots=True)
class Proven:
    """What ran inside, and the records that came out."""

    profile: str
    tag: str
    digest: str
    user: str
    records: tuple[str, ...]  # paths here


def smoke(
    profile: Profile, options: profile_session.SessionOptions, client: Client, say: Narrator, runs: Path | None = None
) -> Proven:
    """Run all of it, telling each step as it ends. LabError at the first that does not hold."""
    runs = RUNS if runs is None else runs
    image = find(profile, client)
    digest = digest_of(image)
    if (
        "--run-label" not in options.experiments
    ):  # the container's own first label is taken here already, as likely as not
        label = f"image-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
        options = dataclasses.replace(options, experiments=(*options.experiments, "--run-label", label))
    with _container(image, digest, profile, client) as container:
        user = _user(container)
        say.step("user", "ok", user)
        try:
            for name, command in commands(profile, options):
                _run(container, name, command, say)
        finally:  # what was measured before something failed is a result all the same
            records = _read_out(container, runs)
            for path in records:
                say.step("record", "read out", str(path))
    _refuse_other_image(records, digest)
    return Proven(profile.id, naming.tag_of(profile.id), digest, user, tuple(map(str, records)))


def commands(profile: Profile, options: profile_session.SessionOptions) -> list[tuple[str, list[str]]]:
    """What is run inside, by the name it is told under. A GPU image is validated first: `real_gpu` asks for that."""
    preflight = profile_session.preflight_command(profile, options)
    experiments = profile_session.measuring_commands(profile, options)
    validation = [("validate", ["sh", VALIDATION, "--profile", profile.id])] if profile.gpu else []
    return [
        *validation,
        ("preflight", ["python", *preflight]),
        ("register", ["python", *REGISTRATION]),
        *((_name(command), ["python", *command]) for command in experiments),
    ]


def find(profile: Profile, client: Client) -> Any:
    """The profile's image. LabError where it was not built here."""
    from docker.errors import ImageNotFound

    tag = naming.tag_of(profile.id)
    try:
        with engine.told(f"the image {tag}"):
            return client.images.get(tag)
    except LabError as error:
        if isinstance(error.__cause__, ImageNotFound):
            raise LabError(
                wanted=f"the image {tag}",
                found="it was not built on this engine",
                next=f"invoke image.build --profile {profile.id}",
                where="docker",
            ) from None
        raise


def digest_of(image: Any) -> str:
    """The digest under which a registry knows the image, else its own id."""
    pushed = [str(name).partition("@")[2] for name in image.attrs.get("RepoDigests") or ()]
    return pushed[0] if pushed else str(image.id)


def refuse_old_driver(profile: Profile, facts: gpu_facts.GpuFacts) -> None:
    """LabError where the host's driver, as far as it tells, is below what the image's torch starts on."""
    if profile.gpu is None or facts.driver is None:
        return
    try:
        below = Version(facts.driver) < Version(profile.gpu.driver_floor)
    except ValueError:
        return
    if below:
        raise engine_findings.driver_below(facts.driver, profile.gpu.driver_floor, profile.id)


@contextmanager
def _container(image: Any, digest: str, profile: Profile, client: Client) -> Iterator[Any]:
    """A running container that does nothing, removed with what it wrote."""
    requests = []
    if profile.gpu is not None:
        from docker.types import DeviceRequest

        refuse_old_driver(profile, gpu_facts.gather())
        requests = [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    with engine.told(f"a container of {naming.tag_of(profile.id)}"):
        container = client.containers.create(
            image.id,
            ["sleep", "infinity"],
            environment={DIGEST_VARIABLE: digest},
            device_requests=requests,
            init=True,
            labels={naming.OURS: f"smoke {naming.tag_of(profile.id)}"},
        )
    try:
        with engine.told(f"a container of {naming.tag_of(profile.id)}"):
            container.start()
        yield container
    finally:
        with engine.told("the container to be removed"):
            container.remove(force=True)


def _user(container: Any) -> str:
    """Who the image runs as. LabError for root: what runs inside could change what the labels say."""
    with engine.told("a container that runs commands"):
        code, output = container.exec_run(["id", "-un"])
    user = str(output.decode("utf-8", "replace")).strip()
    if code != 0 or user in ("", "root"):
        raise LabError(
            wanted="an image that runs as an ordinary user",
            found=user or f"id ended with {code}",
            next="build it without --user root; that is for platforms that know no other user",
            where="user",
        )
    return user


def _run(container: Any, name: str, command: Sequence[str], say: Narrator) -> None:
    began = told = time.monotonic()
    lines: list[str] = []
    api = container.client.api
    with engine.told(f"{name} inside the container"):
        handle = api.exec_create(container.id, list(command))["Id"]
        rest = ""
        for block in api.exec_start(handle, stream=True):
            *whole, rest = (rest + block.decode("utf-8", "replace")).split("\n")
            lines = [*lines, *filter(None, map(str.rstrip, whole))]
            if lines and time.monotonic() - told >= say.every_s:
                told = time.monotonic()
                say.progress(name, told - began, lines[-1])
        code = api.exec_inspect(handle)["ExitCode"]
    lines = [*lines, *filter(None, [rest.strip()])]
    took = time.monotonic() - began
    if code != 0:
        say.step(name, "failed", f"exit code {code}", took)
        last = "".join(f"\n         {line[:200]}" for line in lines[-engine_findings.LAST_LINES :])
        raise LabError(
            wanted=f"{name} to pass inside the image",
            found=f"it ended with {code}{last}",
            next=f"look inside: docker run --rm -it {container.image.tags[0]}, then {' '.join(command)}",
            where=name,
        )
    status = next((line for line in lines if line.startswith("status=")), "")
    say.step(name, "ok", status or _level(lines), took)


def _level(lines: Sequence[str]) -> str:
    """What the runs of one command came to, each answer once."""
    return "; ".join(dict.fromkeys(line.removeprefix("level").strip() for line in lines if line.startswith("level ")))


def _read_out(container: Any, runs: Path) -> tuple[Path, ...]:
    """Copy what the container wrote under runs/ to `runs` here; the records among it. Nothing there is replaced."""
    with engine.told("the records inside the container"), tempfile.TemporaryFile() as packed:
        blocks, _ = container.get_archive(f"{naming.HOME}/runs")
        for block in blocks:
            packed.write(block)
        packed.seek(0)
        with tarfile.open(fileobj=packed) as archive:
            wanted = [member for entry in archive if (member := _inside(entry, runs))]
            try:
                archive.extractall(runs, wanted, filter="data")
            except OSError as error:
                raise LabError(
                    wanted=f"to write under {runs}",
                    found=error.strerror or str(error),
                    next="free some space, or run it from a checkout of your own",
                    where="runs",
                ) from None
    return tuple(runs / member.name for member in wanted if member.name.endswith("/record.json"))


def _inside(entry: tarfile.TarInfo, runs: Path) -> tarfile.TarInfo | None:
    """The entry as it will lie below `runs`; None for a folder, a hidden file, and what is there already."""
    name = entry.name.partition("/")[2]
    if not entry.isfile() or name.startswith(".") or "/." in name or (runs / name).exists():
        return None
    return entry.replace(name=name)


def _refuse_other_image(records: Sequence[Path], digest: str) -> None:
    for path in records:
        named = json.loads(path.read_bytes())["runtime"]["image"]["digest"]
        if named != digest:
            raise LabError(
                wanted=f"a record that names the image {digest}",
                found=str(named),
                next="this is a defect of the lab: please report it with the record",
                where=str(path),
            )


def _name(command: Sequence[str]) -> str:
    """How a command of a profile's session is told: by its experiments, else by its module or script."""
    if command[:2] == ["-m", "experiments"]:
        return ", ".join(itertools.takewhile(lambda word: not word.startswith("-"), command[3:]))
    return command[1].rpartition(".")[2] if command[0] == "-m" else Path(command[0]).stem

"""Building the image of a profile: what is given to the engine, what it streams back, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.containers import context, engine, engine_findings, image_text, lending, naming
from tools.containers.build_log import BuildLog
from tools.containers.engine import Client
from tools.environments.errors import LabError
from tools.environments.install import image_layers
from tools.environments.install.install_text import Narrator
from tools.environments.layout import ROOT
from tools.environments.model import Profile
from tools.environments.registry import requirement_text
from tools.environments.registry.registry import Registry
from tools.environments.sources.index_settings import IndexSettings, is_address

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")  # builders keep these out of an image's history


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What the user asked for. Empty or None: the Dockerfile's own default."""

    profile: Profile
    settings: IndexSettings
    base_image: str = ""
    certificate: Path | None = None
    network: str = ""  # "host": the build shares the host's network
    target: str = ""  # a stage to stop at
    user: str = ""
    system_packages: str | None = None  # Debian packages, instead of the Dockerfile's own; "" for none
    no_cache: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    """A finished image, or a finished stage of one."""

    profile: str
    image: str  # its id, "sha256:..."
    tag: str  # empty for a stage
    seconds: float
    kept: tuple[str, ...]  # stages that came from the cache whole
    made: tuple[str, ...]


def build(
    request: BuildRequest,
    registry: Registry,
    client: Client,
    say: Narrator,
    environ: Mapping[str, str],
    commit: str = "",
    root: Path = ROOT,
) -> Built:
    """Build, telling each stage as it ends. LabError for what a user can mend, with the step and its last lines."""
    image_layers.refuse_logins(request.settings)
    _refuse_local_index(request.settings)
    kind = image_text.kind_of(request.profile)
    started = time.monotonic()
    folders = request.settings.folders()
    with ExitStack() as held:
        page = held.enter_context(lending.lent(folders))
        network = request.network or ("host" if page else "")
        archive = held.enter_context(_context(root, kind.dockerfile, request.certificate))
        arguments = build_arguments(request, registry, environ, page, commit, root)
        with engine.told(f"the image of {request.profile.id}"):
            events = client.api.build(
                fileobj=archive,
                custom_context=True,
                dockerfile=kind.dockerfile,
                tag=None if request.target else naming.tag_of(request.profile.id),
                target=request.target or None,
                buildargs=arguments,
                network_mode=network or None,
                nocache=request.no_cache,
                rm=True,
                forcerm=True,
                decode=True,
                timeout=None,
            )
            log = _follow(events, say, root / ".envs" / ".images" / f"{request.profile.id.lower()}.log")
    return Built(
        profile=request.profile.id,
        image=log.image,
        tag="" if request.target else naming.tag_of(request.profile.id),
        seconds=round(time.monotonic() - started, 1),
        kept=tuple(stage.name for stage in log.stages if stage.kept),
        made=tuple(stage.name for stage in log.stages if not stage.kept),
    )


def build_arguments(
    request: BuildRequest, registry: Registry, environ: Mapping[str, str], page: str | None, commit: str, root: Path
) -> dict[str, str]:
    """The build arguments: what the image is, and where its packages come from. Pure but for reading requirements."""
    settings = request.settings
    links = [*filter(None, [page]), *(place for place in settings.find_links if is_address(place))]
    proxies = {name: value for name in PROXIES if (value := environ.get(name) or environ.get(name.upper()))}
    if page and proxies:
        host = page.removeprefix("http://").partition(":")[0]
        proxies["no_proxy"] = ",".join(filter(None, [proxies.get("no_proxy", ""), host]))
    given = {
        "BASE_IMAGE": request.base_image,
        "LAB_USER": request.user,
        "PROFILE": request.profile.id,
        "REGISTRY_DIGEST": registry.digest,
        "REQUIREMENT_DIGEST": requirement_text.digest(request.profile, root),
        "COMMIT": commit,
        "TMLAB_INDEX_URL": settings.index_url or "",
        "TMLAB_TORCH_INDEX": settings.torch_index or "",
        "TMLAB_FIND_LINKS": " ".join(links),
        **proxies,
    }
    given = {name: value for name, value in given.items() if value}
    return given if request.system_packages is None else {**given, "SYSTEM_PACKAGES": request.system_packages}


def _refuse_local_index(settings: IndexSettings) -> None:
    for address in filter(None, (settings.index_url, settings.torch_index)):
        if address.startswith("file:"):
            raise LabError(
                wanted="an index that a build can reach",
                found=address,
                next="give a folder of wheels with --find-links DIR, which is lent to the build, or an index by https",
                where="--index-url",
            )


def _context(root: Path, dockerfile: str, certificate: Path | None) -> Any:
    try:
        return context.pack(root, dockerfile, certificate)
    except OSError as error:
        raise LabError(
            wanted="the files of the build, and room for them in the folder for temporary files",
            found=f"{error.strerror or error} ({error.filename})",
            next="check the file, and the free space with: df -h",
            where="build context",
        ) from None


def _follow(events: Sequence[Mapping[str, Any]], say: Narrator, place: Path) -> BuildLog:
    log = BuildLog()
    begun = told = time.monotonic()
    open_stages = 0
    try:
        for event in events:
            log.feed(event)
            now = time.monotonic()
            if len(log.stages) > open_stages:
                if open_stages:
                    _tell(log, open_stages - 1, say, now - begun)
                open_stages, begun, told = len(log.stages), now, now
            elif now - told >= say.every_s:
                say.progress(log.stage, now - begun, log.last)
                told = now
            if log.error:
                break
    finally:
        _write(place, log)
    if log.error:
        say.step(log.stage, "failed", log.step, time.monotonic() - begun)
        raise engine_findings.build_failed(
            log.step or "before the first step", log.stage, log.error, log.lines, str(place)
        )
    _tell(log, len(log.stages) - 1, say, time.monotonic() - begun)
    return log


def _tell(log: BuildLog, at: int, say: Narrator, seconds: float) -> None:
    stage = log.stages[at]
    detail = "from the cache" if stage.kept else f"{stage.steps - stage.cached} of {stage.steps} steps run"
    say.step(stage.name, "kept" if stage.kept else "done", detail, seconds)


def _write(place: Path, log: BuildLog) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(log.text), encoding="utf-8")
    except OSError:  # a log that cannot be kept is no reason for the build to fail
        return

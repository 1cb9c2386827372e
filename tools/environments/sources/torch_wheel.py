"""Which torch exactly: the choice that comes before any download and constrains everything after it.

A range alone takes a CUDA build as soon as an index offers a newer patch, so one version with its local part is chosen
from a wheel folder or an index that was really read, or nothing is installed at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from tools.environments.errors import LabError
from tools.environments.model import TorchPin
from tools.environments.registry.pep440 import SpecifierSet, Version
from tools.environments.sources.index_settings import IndexSettings, is_address, without_credentials

TIME_LIMIT_S = 5.0
Names = tuple[str, ...]
Reader = Callable[[str, float], Names]  # (address, seconds) -> the file names that the page lists; LabError if none


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a torch may come from, in this order: folders or pages of wheels, then the index of its build."""

    find_links: tuple[str, ...] = ()
    index: str = ""
    offline: bool = False


@dataclass(frozen=True, slots=True)
class TorchChoice:
    """One torch: its full version, and where it lies. `kind` "assumed": not looked for, as in a plan on paper."""

    version: str  # "2.13.0+cpu"
    source: str  # folder or address
    kind: Literal["folder", "page", "index", "assumed"]

    @property
    def requirement(self) -> str:
        """The pin that constrains every later step."""
        return f"torch=={self.version}"


@dataclass(frozen=True, slots=True)
class _Wheel:
    version: str
    python: str  # "cp311"
    abi: str
    platforms: str


def sources(pin: TorchPin, settings: IndexSettings) -> Sources:
    """The places to look, from the settings in force."""
    return Sources(settings.find_links, settings.torch_index or pin.index, settings.offline)


def choose(
    pin: TorchPin,
    python: str,
    platform: str,
    places: Sources,
    *,
    preferred: str | None = None,
    read: Reader | None = None,
    also: Iterable[str] = (),
) -> TorchChoice:
    """The `preferred` version where a place has it, else the newest that `pin` admits for this Python and platform.

    `python` is "3.11" or longer, `platform` as in `HostGate.systems`. `also` are other Pythons of the profile, only to
    say that they would do. Nothing is downloaded but one page. LabError names what was looked at, and what to give.
    """
    read = read or _read_page
    seen: list[str] = []
    for place in places.find_links:
        kind: Literal["folder", "page"] = "page" if is_address(place) else "folder"
        try:
            names = read(place, TIME_LIMIT_S) if kind == "page" else _listed(Path(place))
        except LabError as error:
            seen.append(f"{without_credentials(place)}: {error.found}")
            continue
        if found := _best(names, pin, python, platform, preferred):
            return TorchChoice(found, place, kind)
        seen.append(_lacks(place, names, pin))
    if not places.offline:
        try:
            return _from_index(pin, python, platform, places.index, preferred, read)
        except LabError as error:
            seen.append(f"{without_credentials(places.index)}: {error.found}")
    raise _nothing(pin, python, platform, places, seen, also)


def assumed(pin: TorchPin, places: Sources, preferred: str) -> TorchChoice:
    """What a plan on paper takes where no folder has a torch and no index may be asked: the requirement file's pin."""
    return TorchChoice(preferred, places.index, "assumed")


def wanted_text(pin: TorchPin) -> str:
    """ "torch >=2.11,<2.14 in a CPU build" """
    build = "a CPU build" if pin.cuda is None else f"the {pin.build} build"
    return f"torch {pin.specifier} in {build}"


def suitable(name: str, python: str, platform: str) -> str | None:
    """The version of a torch wheel that runs on this Python and platform, or None."""
    wheel = _parse(name)
    if wheel is None or not _runs_on(wheel, python, platform):
        return None
    return wheel.version


def _from_index(
    pin: TorchPin, python: str, platform: str, index: str, preferred: str | None, read: Reader
) -> TorchChoice:
    base = index.rstrip("/")
    failure: LabError | None = None
    # A mirror may be an index (one page a project) or one flat page of wheels; PyTorch's own is the former.
    for address, kind in ((f"{base}/torch/", "index"), (f"{base}/", "page")):
        try:
            names = read(address, TIME_LIMIT_S)
        except LabError as error:
            if failure is not None or "HTTP 404" not in error.found:
                raise failure or error from None
            failure = error
            continue
        found = _best(names, pin, python, platform, preferred)
        if found is None:
            raise failure or LabError(wanted_text(pin), _lacks("", names, pin), "", address)
        return TorchChoice(found, index if kind == "index" else address, "index" if kind == "index" else "page")
    raise failure or AssertionError("both addresses were tried")


def _best(names: Iterable[str], pin: TorchPin, python: str, platform: str, preferred: str | None) -> str | None:
    admitted = SpecifierSet(pin.specifier)
    versions = set()
    for name in names:
        version = suitable(name, python, platform)
        if version is not None and _has_build(version, pin, platform) and admitted.contains(version):
            versions.add(version)
    if preferred in versions:
        return preferred
    return max(versions, key=Version, default=None)


def _has_build(version: str, pin: TorchPin, platform: str) -> bool:
    local = version.partition("+")[2]
    if platform.startswith("darwin"):
        return local in ("", pin.build)  # macOS has one build, and its wheels carry no local part
    return local == pin.build


def _parse(name: str) -> _Wheel | None:
    parts = unquote(name).removesuffix(".whl").split("-")
    if not name.endswith(".whl") or len(parts) not in (5, 6) or parts[0].lower() != "torch":
        return None
    try:
        Version(parts[1])
    except ValueError:
        return None
    return _Wheel(parts[1], *parts[-3:])


def _runs_on(wheel: _Wheel, python: str, platform: str) -> bool:
    tag = "cp" + "".join(python.split(".")[:2])
    if tag not in wheel.python.split(".") or not {tag, "none", "abi3"} & set(wheel.abi.split(".")):
        return False
    system, _, machine = platform.partition("-")
    prefixes = ("macosx_",) if system == "darwin" else ("manylinux", "linux_")
    return any(entry.startswith(prefixes) and entry.endswith(f"_{machine}") for entry in wheel.platforms.split("."))


def _listed(folder: Path) -> Names:
    try:
        return tuple(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise LabError("a folder of wheels", error.strerror or "it cannot be read", "", str(folder)) from None


def _read_page(address: str, time_limit_s: float) -> Names:
    from tools.environments.sources import indexes  # urllib behind it costs what most calls here need not pay

    return indexes.file_names(address, limit_s=time_limit_s)


def _lacks(place: str, names: Iterable[str], pin: TorchPin) -> str:
    wheels = sorted({(wheel.version, wheel.python) for wheel in map(_parse, names) if wheel is not None})
    near = [wheel for wheel in wheels if wheel[0].partition("+")[2] in (pin.build, "")] or wheels
    shown = ", ".join(f"{version} for {python}" for version, python in near[-3:])
    held = f"only torch {shown}" if shown else "no torch wheel"
    return f"{without_credentials(place)} has {held}" if place else f"it has {held}"


def _nothing(
    pin: TorchPin, python: str, platform: str, places: Sources, seen: list[str], also: Iterable[str]
) -> LabError:
    short = ".".join(python.split(".")[:2])
    others = []
    for other in also:
        here = [_listed_or_none(place) for place in places.find_links if not is_address(place)]
        if other != short and any(_best(names, pin, other, platform, None) for names in here):
            others.append(f"--python {other} can use the wheel that is there")
    ways = [*others, "--torch-index URL (TMLAB_TORCH_INDEX) takes a mirror of PyTorch's index"]
    ways.append("--find-links DIR (TMLAB_FIND_LINKS) takes a folder that holds the wheel")
    return LabError(
        wanted=f"{wanted_text(pin)} for Python {short} on {platform}",
        found="; ".join(seen) or "no place to look: --offline, and no folder of wheels",
        next="; or ".join(ways),
        where="torch",
    )


def _listed_or_none(place: str) -> Names:
    try:
        return _listed(Path(place))
    except LabError:
        return ()

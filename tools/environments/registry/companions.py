"""The companion of a profile: the same packages on the CUDA 13.0 build of torch, for machines with a newer driver.

An entry with `cuda130: true` has one. Nothing of it is written by hand: id, torch file, driver, sizes, environment and
words follow from the entry and from the registry's `cuda130`, which says in what the two builds differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NoReturn

from tools.environments.registry.shape import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tools.environments.registry.entry_types import BuildEntry, Document, RegistryEntry

FLAG: Final = "cuda130"
Finding = tuple[str, str, str, str]  # rule, found, field, how to fix it


def id_of(parent: str) -> str:
    """The id of a profile's companion: its part CUDA becomes CUDA130; where it has none, CUDA130 comes last."""
    parts = parent.split("-")
    if "CUDA" not in parts:
        return f"{parent}-CUDA130"
    at = parts.index("CUDA")
    return "-".join([*parts[:at], "CUDA130", *parts[at + 1 :]])


def with_companions(document: Document, entries: Mapping[str, RegistryEntry]) -> dict[str, RegistryEntry]:
    """The entries, each companion behind its parent. LabError where its id is taken.

    A parent that can have none gets none: `check` says why, after the rules that say what is wrong with it anyway.
    """
    everyone: dict[str, RegistryEntry] = {}
    for entry in entries.values():
        everyone[entry["id"]] = entry
        if not entry.get(FLAG) or any(check(entry, document[FLAG])):
            continue
        name = id_of(entry["id"])
        taken = entries.get(name) or everyone.get(name)
        if taken is not None:
            owner = taken.get("companion_of")
            found = f"{name!r}, {f'the companion of {owner}' if owner else 'which is written here too'}"
            fix = "rename one of the parents" if owner else f"remove that entry, or leave {FLAG} out"
            refuse_at(document, entry, FLAG, "an id of its own for the companion", found, fix)
        everyone[name] = _derived(entry, name, document[FLAG])
    return everyone


def check(entry: RegistryEntry, build: BuildEntry) -> Iterator[Finding]:
    """Why a profile that asks for a companion cannot have one."""
    if not entry.get(FLAG):
        return
    torch, before = entry["torch"], f"torch-{build['of']}.txt"
    if entry["layer"] != "cuda":
        yield f"{FLAG} in layer cuda alone", f"layer {entry['layer']}", FLAG, f"leave {FLAG} out"
        return
    if torch is None or entry["gpu"] is None or torch["build"] != build["of"]:
        found = torch["build"] if torch else "no torch"
        yield f"build {build['of']} of torch in a profile with {FLAG}", found, FLAG, f"leave {FLAG} out"
        return
    if _numbers(build["driver"]) <= _numbers(entry["gpu"]["driver_native"]):
        found, fix = f"{entry['gpu']['driver_native']}", f"correct the driver of {FLAG}, or leave it out here"
        yield f"a profile native on drivers before {build['driver']}", found, "gpu/driver_native", fix
    if entry["requirements"][0] != before:
        found, fix = entry["requirements"][0], "name it first: the companion has another in its place"
        yield f"the torch file {before} of a profile with {FLAG}", found, "requirements/0", fix
    host, saves = entry["host"], build["saves"]
    for field, size, saved in (
        ("download_gib", host["download_gib"], saves["download_gib"]),
        ("disk_gib", host["disk_gib"], saves["disk_gib"]),
    ):
        if size <= saved:
            fix = "correct the size of the profile, or what the build saves"
            yield f"more than the {saved:g} GiB that its companion saves", f"{size:g}", f"host/{field}", fix


def refuse_at(document: Document, entry: RegistryEntry, field: str, wanted: str, found: str, fix: str) -> NoReturn:
    """Refuse a complete entry at its place in the document; a companion at the flag that it follows from."""
    parent = entry.get("companion_of")
    place = next(at for at, raw in enumerate(document["profiles"]) if raw["id"] == (parent or entry["id"]))
    if parent is None:
        refuse(f"/profiles/{place}/{field}", wanted, found, fix)
    refuse(f"/profiles/{place}/{FLAG}", wanted, f"{found}, for its companion {entry['id']}", f"{fix}, or drop {FLAG}")


def _derived(parent: RegistryEntry, name: str, build: BuildEntry) -> RegistryEntry:
    """The companion, complete. A minute scales with what is downloaded: it is an expectation in the parent too."""
    torch, gpu, host, new = parent["torch"], parent["gpu"], parent["host"], build["torch"]
    assert torch is not None
    assert gpu is not None
    download = round(host["download_gib"] - build["saves"]["download_gib"], 1)
    share = download / host["download_gib"]
    entry = parent.copy()
    entry.pop(FLAG, None)
    entry["id"], entry["companion_of"] = name, parent["id"]
    entry["title"] = _title(
        parent["title"], build, f", CUDA {new['cuda']} build", f", driver {build['driver']} or newer"
    )
    entry["title_zh"] = _title(
        parent["title_zh"], build, f"，CUDA {new['cuda']} 构建", f"，驱动 {build['driver']} 及以上"
    )
    entry["purpose"] = (
        f"The mechanisms of {parent['id']} on the CUDA {new['cuda']} build; its results never stand for that profile."
    )
    entry["purpose_zh"] = f"与 {parent['id']} 相同的机制，使用 CUDA {new['cuda']} 构建；结果不能代替该 Profile。"
    entry["torch"] = {**torch, **new}
    entry["requirements"] = [f"torch-{new['build']}.txt", *parent["requirements"][1:]]
    entry["gpu"] = {**gpu, "driver_floor": build["driver"], "driver_native": build["driver"]}
    entry["host"] = {
        **host,
        "download_gib": download,
        "disk_gib": round(host["disk_gib"] - build["saves"]["disk_gib"], 1),
        "minutes": "-".join(f"{max(1, round(int(part) * share))}" for part in host["minutes"].split("-")),
    }
    entry["environment"] = f"{parent['environment'].removesuffix('_' + build['of'])}_{new['build']}"
    return entry


def _numbers(driver: str) -> tuple[int, ...]:
    return tuple(map(int, driver.split(".")))


def _title(parent: str, build: BuildEntry, named: str, driver: str) -> str:
    """The parent's title with the build in it replaced, else with the new one `named` behind it; then the driver."""
    old, new = f"+{build['of']}", f"+{build['torch']['build']}"
    return (parent.replace(old, new) if old in parent else parent + named) + driver

"""The isolation table: which families of packages may live in which environment, and what follows for a profile.

The table stands in the registry once. What a profile forbids is derived from it, so a new backend added there is
forbidden in every other profile without touching one.
"""

from __future__ import annotations

from collections.abc import Iterable

from tools.environments.registry.shape import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tools.environments.registry.entry_types import Isolation, RegistryEntry

IMPLIED = ("torch", "cuda")  # families that follow from the torch pin and are never stated


def held(entry: RegistryEntry) -> tuple[str, ...]:
    """The families a profile holds: `torch` where it has one, `cuda` where that is a CUDA build, and what it states."""
    torch = entry["torch"]
    implied = () if torch is None else IMPLIED[:1] if torch["build"] == "cpu" else IMPLIED
    return (*implied, *entry["capabilities"])


def forbidden(table: Isolation, families: Iterable[str]) -> tuple[str, ...]:
    """Every package of every family of the table that is not among `families`, sorted."""
    mine = set(families)
    return tuple(
        sorted(p for name, family in table["families"].items() if name not in mine for p in family["packages"])
    )


def check_table(table: Isolation) -> None:
    """Refuse (LabError) a table with a package in two families, or names that lead nowhere."""
    families = table["families"]
    owner: dict[str, str] = {}
    for name, family in families.items():
        for place, package in enumerate(family["packages"]):
            if package in owner:
                pointer = f"/isolation/families/{name}/packages/{place}"
                refuse(
                    pointer, "each package in one family", f"{package!r}, also in {owner[package]}", "keep it in one"
                )
            owner[package] = name
    for place, name in enumerate(table["alone"]):
        if name not in families:
            refuse(
                f"/isolation/alone/{place}", "a family of the table", repr(name), "add the family or remove the name"
            )
    for name in IMPLIED:
        if name not in families:
            refuse("/isolation/families", f"the family {name!r}", "none", "add it: profiles without it forbid it")

"""The isolation table: which families of packages may live in which environment, and what follows for a profile.

The table stands in the registry once. `forbidden` is derived from it, so a new backend added there is forbidden in
every other profile without touching one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.environments.model import Layer, TorchPin


@dataclass(frozen=True, slots=True)
class Family:
    """Packages that stand for one capability, the layers that may hold it, and how many cards it is evidence for."""

    name: str
    packages: tuple[str, ...]  # distribution names, normalised
    layers: tuple[Layer, ...]
    gpus: int  # fewest cards of a profile that holds it


@dataclass(frozen=True, slots=True)
class Isolation:
    """All families by name, and those of which an environment holds at most one."""

    families: Mapping[str, Family]
    alone: tuple[str, ...]

    def held(self, stated: Iterable[str], torch: TorchPin | None) -> tuple[str, ...]:
        """The families a profile holds: what it states, `torch` where it has one, `cuda` where that is a CUDA build."""
        implied = () if torch is None else ("torch",) if torch.build == "cpu" else ("torch", "cuda")
        return (*implied, *stated)

    def forbidden(self, held: Iterable[str]) -> tuple[str, ...]:
        """Every package of every family that is not held, sorted."""
        mine = set(held)
        return tuple(sorted(p for family in self.families.values() if family.name not in mine for p in family.packages))

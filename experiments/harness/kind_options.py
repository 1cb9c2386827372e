"""Command-line options of a kind, as data: `run` offers those of the kinds it needs, and knows whose each one is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KindOption:
    """One option. Without a value it is None, whatever it takes; one that takes no value is True when it is given."""

    flag: str  # --batch
    help: str = ""
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    type: type[int] | type[float] | type[str] | None = str  # None: takes no value

    @property
    def word(self) -> str:
        """Its name among parsed arguments."""
        return self.flag.removeprefix("--").replace("-", "_")

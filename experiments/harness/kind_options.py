"""Command-line options of a kind, as data: `run` offers those of the kinds it needs, and knows whose each one is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.evidence.vocabulary import JsonValue


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
        """Its name among parsed arguments, and among the knobs of a workload where it changes one."""
        return self.flag.removeprefix("--").replace("-", "_")

    def given(self, value: JsonValue) -> str:
        """The option as a user gives it: `--rows 8`, `--sizes 1024,4096`; the flag alone where it takes no value."""
        if self.type is None:
            return self.flag
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        return f"{self.flag} {shlex.quote(','.join(map(str, values)))}"

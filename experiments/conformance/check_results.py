"""What a conformance run found, as values: a check, a mutant, a page. Report and record are made of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check over all its cases. `worst_error` is relative; `worst_share` is the part of its tolerance it used."""

    name: str
    ours: str
    theirs: str
    status: Status
    reason: str = ""
    tolerance: str | None = None
    worst_error: float | None = None
    worst_share: float | None = None
    allowed: float | None = None  # the tolerance as a number, 0 where no difference is allowed
    comparisons: int = 0
    cases: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MutantResult:
    """One fault and the first check that noticed it; `killed_by` is None for a survivor."""

    name: str
    module: str
    fault: str
    killed_by: str | None
    how: str
    report: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PageResult:
    """One page: its checks, its mutants, and the framework versions they were checked against."""

    page: str
    checks: tuple[CheckResult, ...]
    mutants: tuple[MutantResult, ...]
    versions: Mapping[str, str]
    seconds: float = 0.0

    @property
    def status(self) -> Status:
        """Failed where a check failed or a mutant survived all of them; skipped where a check could not be held."""
        if any(check.status == "failed" for check in self.checks):
            return "failed"
        if any(check.status == "skipped" for check in self.checks):
            return "skipped"  # a mutant that survives here may be the skipped check's to notice
        return "failed" if self.survivors else "passed"

    @property
    def survivors(self) -> tuple[MutantResult, ...]:
        """Mutants that none of the checks that ran has noticed."""
        return tuple(mutant for mutant in self.mutants if mutant.killed_by is None)

    @property
    def reason(self) -> str:
        """Why the page did not pass; empty where it did."""
        for check in self.checks:
            if check.status == "failed":
                return f"{check.name}: {check.reason}"
        skipped = [check for check in self.checks if check.status == "skipped"]
        if not skipped:
            return "no check notices " + ", ".join(one.name for one in self.survivors) if self.survivors else ""
        held = len(self.checks) - len(skipped)
        why = "; ".join(dict.fromkeys(check.reason for check in skipped))
        return f"{why}: {held} of {len(self.checks)} checks held"

    @property
    def worst(self) -> CheckResult | None:
        """The check that came closest to its tolerance; None where none compared anything."""
        measured = [check for check in self.checks if check.worst_share is not None]
        return max(measured, key=lambda check: check.worst_share or 0.0, default=None)


@dataclass(frozen=True, slots=True)
class RunResult:
    """Several pages of one run, under one seed."""

    pages: tuple[PageResult, ...]
    versions: Mapping[str, str]
    seed: int

    @property
    def status(self) -> Status:
        """The worst of its pages: failed, then skipped, then passed."""
        found = {page.status for page in self.pages}
        return "failed" if "failed" in found else "skipped" if "skipped" in found else "passed"

    @property
    def held_against(self) -> str:
        """`torch 2.13.0+cpu, transformers 5.24.0`."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())

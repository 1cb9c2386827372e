"""What a conformance run prints: one line a page, what failed in full, and the same as JSON."""

from __future__ import annotations

from typing import Any

from experiments.conformance import catalogue, page_files
from experiments.conformance.check_results import PageResult, RunResult


def page_line(page: PageResult) -> str:
    """`cross_entropy   passed   7 checks, 12 of 12 faults noticed   closest ...   0.9 s`."""
    held = sum(check.status == "passed" for check in page.checks)
    noticed = len(page.mutants) - len(page.survivors)
    counts = f"{held} of {len(page.checks)} checks" + (
        f", {noticed} of {len(page.mutants)} faults" if page.mutants else ""
    )
    return f"  {page.page:<26} {page.status:<8} {counts:<32} {closest(page):<66} {page.seconds:6.1f} s"


def closest(page: PageResult) -> str:
    """The check that used the largest part of its tolerance."""
    worst = page.worst
    if worst is None or worst.tolerance is None:
        return ""
    if worst.worst_share == 0.0:
        return "no difference at all"
    return f"worst {worst.worst_error:.1e} of {worst.allowed:.1e} allowed ({worst.name})"


def failures(run: RunResult) -> list[str]:
    """Each failed check and each survivor with what is needed to look into it, then the reasons of skipped pages."""
    lines = []
    for page in run.pages:
        for check in page.checks:
            if check.status == "failed":
                lines += [f"  failed   {page.page}/{check.name}: {check.reason}"]
                lines += [f"           → {check.ours} against {check.theirs}: {again(page.page)}"]
        if page.status == "failed":
            for mutant in page.survivors:
                lines += [f"  survived {page.page}/{mutant.name}: {mutant.fault}; no check notices it"]
                lines += [f"           → add a check to {page_files.shown(catalogue.find(page.page).folder)}"]
        if page.status == "skipped":
            lines += [f"  skipped  {page.page}: {page.reason}"]
    return lines


def again(page: str) -> str:
    """How to run one page by itself."""
    return f"python tools/test_framework_conformance.py --page {page}"


def summary(run: RunResult) -> str:
    """`10 of 10 pages passed · checked against torch 2.13.0+cpu, ...`."""
    passed = sum(page.status == "passed" for page in run.pages)
    return f"{run.status} · {passed} of {len(run.pages)} pages passed · checked against {run.held_against}"


def to_json(run: RunResult, record: str | None, level: str | None) -> dict[str, Any]:
    """The whole run, for `--json`."""
    return {
        "status": run.status,
        "versions": dict(run.versions),
        "seed": run.seed,
        "pages": [_page(page) for page in run.pages],
        "record": record,
        "evidence_level": level,
    }


def _page(page: PageResult) -> dict[str, Any]:
    worst = page.worst
    return {
        "id": page.page,
        "title": catalogue.find(page.page).title,
        "status": page.status,
        "reason": page.reason,
        "tolerance": worst.tolerance if worst else None,
        "worst_error": worst.worst_error if worst else None,
        "worst_check": worst.name if worst else None,
        "versions": dict(page.versions),
        "seconds": round(page.seconds, 2),
        "checks": [
            {
                "name": check.name,
                "ours": check.ours,
                "theirs": check.theirs,
                "status": check.status,
                "reason": check.reason,
                "tolerance": check.tolerance,
                "worst_error": check.worst_error,
                "cases": check.cases,
                "comparisons": check.comparisons,
            }
            for check in page.checks
        ],
        "mutants": [
            {"name": mutant.name, "module": mutant.module, "fault": mutant.fault, "public_report": mutant.report,
             "killed_by": mutant.killed_by, "how": mutant.how}
            for mutant in page.mutants
        ],
    }  # fmt: skip

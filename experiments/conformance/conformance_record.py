"""From a finished conformance run to a record, graded `cpu_mechanism`: every check a candidate, every fault a control.

A check's oracle gate carries its worst error and its tolerance. A fault is wrong on purpose, as a control is: its gate
has to fail, and names the check that noticed it. A survivor is a control that passed, which the grade reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from experiments.conformance import catalogue
from experiments.conformance.catalogue import PageTopic
from experiments.conformance.check_results import CheckResult, MutantResult, PageResult, RunResult
from experiments.conformance.conformance_sentences import SENTENCES
from experiments.evidence import runtime_snapshot, sentences, source
from experiments.evidence.candidate import Candidate, Checks, Failure, Gate
from experiments.evidence.conclusion import Decision
from experiments.evidence.digests import digest_of
from experiments.evidence.record import Identity, Procedure, Record
from experiments.evidence.rules import CURRENT
from experiments.evidence.runtime import Threads
from experiments.evidence.sentences import say
from experiments.evidence.subject import Backend, ProfileFacts, Workload
from experiments.evidence.vocabulary import CandidateStatus, JsonValue

EXPERIMENT = "conformance"
KIND = "conformance"  # its repetitions are no training steps: checks, and faults that they have to notice
SEED = 20


def knobs(pages: Sequence[str], seed: int, faults: bool = True) -> dict[str, JsonValue]:
    """Everything that decides which cases are drawn, and whether the faults were put in."""
    return {"pages": list(pages), "seed": seed, "faults": faults, "cases": "drawn per check", "threads": 1}


def workload(pages: Sequence[str], seed: int, faults: bool = True) -> Workload:
    """The run as a workload; all pages of a topic, or one, with faults and the usual seed are the registered ones."""
    topic = topic_of(pages)
    whole = tuple(pages) == catalogue.ids(topic.name)
    name = topic.workload if whole else "-".join(pages)[:60]
    return Workload(
        name=name,
        registered_digest=registered().get(name),
        digest=digest_of(knobs(pages, seed, faults)),
        knobs=knobs(pages, seed, faults),
        dtype="float64",
    )


def topic_of(pages: Sequence[str]) -> PageTopic:
    """The topic of a run's pages: a run has one."""
    return catalogue.find_topic(catalogue.find(pages[0]).topic)


def scope(topic: str) -> tuple[str, ...]:
    """The sources that a run of this topic's pages rests on."""
    pages = f"experiments/{topic}/conformance"
    return CURRENT.scope_of("experiments/conformance", pages, "tools/test_framework_conformance.py")


def registered() -> dict[str, str]:
    """Digest of each registered workload, by name."""
    sets: dict[str, tuple[str, ...]] = {page: (page,) for page in catalogue.ids()}
    sets |= {topic.workload: catalogue.ids(topic.name) for topic in catalogue.topics()}
    return {name: digest_of(knobs(pages, SEED)) for name, pages in sets.items()}


def record(run: RunResult, profile: ProfileFacts, label: str, began: datetime, duration_s: float) -> Record:
    """The record, not yet graded. `profile` holds the preflight report that was true when the run began."""
    topic = topic_of([page.page for page in run.pages])
    return Record(
        identity=Identity(
            kind=KIND,
            experiment=EXPERIMENT,
            page=topic.part,
            run_label=label,
            run_mode="cpu_mechanism",
            created_at=began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        ),
        source=source.look(scope(topic.name)),
        backend=Backend(version=run.versions.get("torch"), threads=1),
        profile=profile,
        runtime=runtime_snapshot.collect(torch=run.versions.get("torch"), threads=Threads(intra_op=1)),
        quantities=(),
        workload=workload([page.page for page in run.pages], run.seed, any(page.mutants for page in run.pages)),
        procedure=Procedure(
            rounds=1,
            steps_per_round=1,
            warmup_steps=0,
            order_seed=run.seed,
            isolation="one process",
            duration_s=round(duration_s, 1),
        ),
        candidates=tuple(candidate for page in run.pages for candidate in candidates(page)),
        decision=decision(run),
    )


def candidates(page: PageResult) -> list[Candidate]:
    """Checks first, then faults; all named `page/name`."""
    return [*(_check(page, check) for check in page.checks), *(_mutant(page, mutant) for mutant in page.mutants)]


def _check(page: PageResult, check: CheckResult) -> Candidate:
    status: CandidateStatus = "skipped" if check.status == "skipped" else "ok"
    failure = None if status == "ok" else Failure(phase="import", kind="MissingFramework", message=check.reason)
    gate = None
    if status == "ok":
        gate = Gate(
            passed=check.status == "passed",
            against=check.theirs[:120],
            error=check.worst_error,
            tolerance=check.allowed,
            yardstick=check.reason or check.tolerance or "",
            tensors=check.comparisons,
        )
    settings: dict[str, JsonValue] = {"page": page.page, "ours": check.ours, "cases": check.cases}
    checks = Checks(finite=None if gate is None else True, gates={} if gate is None else {"oracle": gate})
    return Candidate(
        name=f"{page.page}/{check.name}",
        role="candidate",
        settings=settings,
        status=status,
        checks=checks,
        failure=failure,
    )


def _mutant(page: PageResult, mutant: MutantResult) -> Candidate:
    settings: dict[str, JsonValue] = {"page": page.page, "module": mutant.module, "fault": mutant.fault}
    if mutant.report is not None:
        settings["public_report"] = mutant.report
    gate = Gate(
        passed=mutant.killed_by is None, against=mutant.killed_by or "every check", error=None, tolerance=None,
        worst=mutant.how[:160],
    )  # fmt: skip
    return Candidate(
        name=f"{page.page}/{mutant.name}",
        role="control",
        settings=settings,
        status="ok",
        checks=Checks(gates={"oracle": gate}),
    )


def decision(run: RunResult) -> Decision:
    """What the run says in one word and one sentence."""
    counts = {status: sum(page.status == status for page in run.pages) for status in ("passed", "failed", "skipped")}
    faults = sum(len(page.mutants) for page in run.pages)
    against = [say(SENTENCES, "framework", name=name, version=version) for name, version in run.versions.items()]
    if counts["failed"]:
        failed = [page.page for page in run.pages if page.status == "failed"]
        return sentences.decision("numerics_broken", say(SENTENCES, "pages_failed", pages=failed, against=against))
    known = {"passed": counts["passed"], "pages": len(run.pages), "against": against}
    if counts["skipped"]:
        return sentences.decision("inconclusive", say(SENTENCES, "pages_skipped", **known))
    return sentences.decision("numerics_ok", say(SENTENCES, "pages_passed", **known, faults=faults))

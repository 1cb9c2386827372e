"""Do a record's decision and claims still follow from its candidates? Asked by `results verify` and `promote`.

An experiment concludes by a pure function of candidates and comparisons, so the same sources must conclude the same
again, claim by claim. Other sources must come to the same decision code and kinds of claims, or a warning says where to
recompute. A record of schema 1.0 does not hold what a probe found out, so its claims of that kind may be more.

The record's rules say by which version of the conclusions: an experiment's `conclude` is version 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.cli import discovery
from experiments.evidence import rules, source
from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.record import Record
from experiments.evidence.rules.rule_set import Known, Rules
from experiments.evidence.superseding import Concluded
from experiments.evidence.verifying import NEW_RUN, not_recomputed
from experiments.harness.experiment import AnyExperiment, DeviceFacts, Observed
from tools.environments.errors import LabError
from tools.environments.model import Check

ID = "record.conclusions"
PROBED = "gradient_equivalence"  # the kind of claim that may rest on a probe
NOTHING = (LookupError, TypeError, ValueError, AttributeError, LabError)  # an edited answer may be any JSON

# How an experiment concludes, by version of the conclusions.
CONCLUDE: Mapping[int, Callable[[AnyExperiment], Callable[[Observed[Any]], Concluded]]] = {
    1: lambda experiment: experiment.conclude
}


def check(record: Record, known: Known = rules.KNOWN) -> Check:
    """One check: blocked where the same sources conclude otherwise, a warning where other sources do."""
    wanted = "claims and decision that follow from the candidates"
    package = discovery.packages().get(record.identity.experiment)
    if package is None:
        return Check(ID, "skipped", wanted, "not one of experiments/<topic>/: its own command concludes")
    own = rules.find(record, known)
    if own is None:
        return not_recomputed(ID, record, known)
    try:
        experiment = discovery.load(record.identity.experiment)
    except LabError as error:
        return Check(ID, "warning", wanted, f"not recomputed: {error.where}: {error.found}", error.next)
    here = source.look(own.scope_of(package.replace(".", "/")), takes_part=own.takes_part)
    if (here.scope, here.digest) != (record.source.scope, record.source.digest):
        return _by_other_sources(experiment, record, own, wanted)
    try:
        claims, decision = concluded(experiment, record, own)
    except NOTHING as error:
        return Check(ID, "blocked", wanted, f"nothing can be concluded: {ascii(error)[:80]}", NEW_RUN)
    dated = record.identity.rules == 1  # it wrote neither sentences as data nor what a claim rests on
    if _told(record.decision, dated) != _told(decision, dated):
        return Check(ID, "blocked", wanted, f"another decision: {record.decision.sentence[:80]!a}", NEW_RUN)
    written, drawn = ([_bare(claim, dated) for claim in found] for found in (record.claims, claims))
    lost, rest = _beyond(drawn, written), _beyond(written, drawn)
    if lost:
        return Check(ID, "blocked", wanted, f"not among its claims: {lost[0].statement[:80]!a}", NEW_RUN)
    if rest:
        return Check(ID, "blocked", wanted, f"a claim that does not follow: {rest[0].statement[:80]!a}", NEW_RUN)
    return Check(ID, "ok", wanted, f"decision recomputed, claims recomputed: {len(claims)}")


def _by_other_sources(experiment: AnyExperiment, record: Record, own: Rules, wanted: str) -> Check:
    """What this checkout concludes from a record of another: sentences may differ, codes and kinds should not."""
    held = all(candidate.probes is not None for candidate in record.candidates)
    lacking = "" if held else "; what a probe found is not in a record of schema 1.0"
    try:
        claims, decision = concluded(experiment, record, own)
    except NOTHING as error:
        return _differing(record, own, wanted, f"these other sources conclude nothing: {ascii(error)[:80]}")
    if record.decision.code != decision.code:
        return _differing(record, own, wanted, f"decision {record.decision.code}; these other sources: {decision.code}")
    written, drawn = (Counter(claim.kind for claim in found) for found in (record.claims, claims))
    lost, rest = sorted(drawn - written), sorted(written - drawn)
    if not held:
        rest = [kind for kind in rest if kind != PROBED]
    if lost:
        return _differing(record, own, wanted, f"a claim on {lost[0]} less than by these other sources{lacking}")
    if rest:
        return _differing(record, own, wanted, f"a claim on {rest[0]} more than by these other sources{lacking}")
    found = f"recomputed with other sources: decision {decision.code}, kinds of {len(claims)} claims{lacking}"
    return Check(ID, "ok", wanted, found)


def _differing(record: Record, own: Rules, wanted: str, found: str) -> Check:
    """A warning: the record may have been edited, or these sources conclude otherwise than those it was made with."""
    commit = source.find_commit(record.source, takes_part=own.takes_part)
    mend = (
        f"recompute with its own: git checkout {commit[:12]}" if commit else "recompute in the checkout it was run in"
    )
    return Check(ID, "warning", wanted, found, mend)


def again(record: Record, by: Rules) -> Concluded | None:
    """What its experiment concludes from a record by a version of the rules; None where it concludes nothing."""
    if record.identity.experiment not in discovery.packages():
        return None
    try:
        return concluded(discovery.load(record.identity.experiment), record, by)
    except NOTHING:
        return None


def concluded(experiment: AnyExperiment, record: Record, by: Rules = rules.CURRENT) -> Concluded:
    """What the experiment concludes from what the record holds."""
    runtime = record.runtime
    observed = Observed(
        workload=experiment.kind.workload_from(record.workload.name, record.workload.knobs),
        device=DeviceFacts(
            kind="cuda" if record.identity.run_mode == "real_gpu" else "cpu",
            torch=runtime.torch,
            torch_cuda=runtime.torch_cuda,
            driver=runtime.driver,
            bf16_native=True,  # which candidates can run was decided when they were planned
            tf32=True,
            card=runtime.devices[0] if runtime.devices else None,
        ),
        candidates=record.candidates,
        comparisons=record.comparisons,
    )
    return CONCLUDE[by.conclusions](experiment)(observed)


def _told(decision: Decision, dated: bool) -> Decision:
    return replace(decision, said=None) if dated else decision


def _bare(claim: Claim, dated: bool) -> Claim:
    """A claim as an experiment draws it: before grading; of rules 1 without what their records did not write."""
    bare = replace(claim, level=None, limits=())
    return replace(bare, said=None, rests_on=()) if dated else bare


def _beyond(found: Sequence[Claim], others: Sequence[Claim]) -> list[Claim]:
    """The claims that are not among the others, each of which counts once."""
    rest, beyond = list(others), []
    for claim in found:
        if claim in rest:
            rest.remove(claim)
        else:
            beyond.append(claim)
    return beyond

"""Do a record's decision and claims still follow from its candidates? Asked by `results verify` and `promote`.

An experiment concludes by a pure function of candidates and comparisons, so the same sources must conclude the same
again, claim by claim. Other sources must come to the same decision code and kinds of claims, or a warning says where to
recompute. A record of schema 1.0 does not hold what a probe found out, so its claims of that kind may be more.
"""

from __future__ import annotations

from collections import Counter

from experiments.cli import discovery
from experiments.evidence import source
from experiments.evidence.codec import from_json, to_json
from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.record import Record
from experiments.evidence.verifying import NEW_RUN
from experiments.harness.experiment import DeviceFacts, Experiment, Observed
from experiments.kinds.training_step.training_workload import Workload
from tools.environments.errors import LabError
from tools.environments.model import Check

ID = "record.conclusions"
PROBED = "gradient_equivalence"  # the kind of claim that may rest on a probe
NOTHING = (LookupError, TypeError, ValueError, AttributeError, LabError)  # an edited answer may be any JSON


def check(record: Record) -> Check:
    """One check: blocked where the same sources conclude otherwise, a warning where other sources do."""
    wanted = "claims and decision that follow from the candidates"
    package = discovery.packages().get(record.identity.experiment)
    if package is None:
        return Check(ID, "skipped", wanted, "not one of experiments/<topic>/: its own command concludes")
    try:
        experiment = discovery.load(record.identity.experiment)
    except LabError as error:
        return Check(ID, "warning", wanted, f"not recomputed: {error.where}: {error.found}", error.next)
    here = source.look(source.scope_of(package.replace(".", "/")))
    if (here.scope, here.digest) != (record.source.scope, record.source.digest):
        return _by_other_sources(experiment, record, wanted)
    try:
        claims, decision = concluded(experiment, record)
    except NOTHING as error:
        return Check(ID, "blocked", wanted, f"nothing can be concluded: {ascii(error)[:80]}", NEW_RUN)
    if record.decision != decision:
        return Check(ID, "blocked", wanted, f"another decision: {record.decision.sentence[:80]!a}", NEW_RUN)
    written, drawn = (Counter(map(_bare, found)) for found in (record.claims, claims))
    lost, rest = [*(drawn - written).elements()], [*(written - drawn).elements()]
    if lost:
        return Check(ID, "blocked", wanted, f"not among its claims: {lost[0][1][:80]!a}", NEW_RUN)
    if rest:
        return Check(ID, "blocked", wanted, f"a claim that does not follow: {rest[0][1][:80]!a}", NEW_RUN)
    return Check(ID, "ok", wanted, f"decision recomputed, claims recomputed: {len(claims)}")


def _by_other_sources(experiment: Experiment, record: Record, wanted: str) -> Check:
    """What this checkout concludes from a record of another: sentences may differ, codes and kinds should not."""
    held = all(candidate.probes is not None for candidate in record.candidates)
    lacking = "" if held else "; what a probe found is not in a record of schema 1.0"
    try:
        claims, decision = concluded(experiment, record)
    except NOTHING as error:
        return _differing(record, wanted, f"these other sources conclude nothing: {ascii(error)[:80]}")
    if record.decision.code != decision.code:
        return _differing(record, wanted, f"decision {record.decision.code}; these other sources: {decision.code}")
    written, drawn = (Counter(claim.kind for claim in found) for found in (record.claims, claims))
    lost, rest = sorted(drawn - written), sorted(written - drawn)
    if not held:
        rest = [kind for kind in rest if kind != PROBED]
    if lost:
        return _differing(record, wanted, f"a claim on {lost[0]} less than by these other sources{lacking}")
    if rest:
        return _differing(record, wanted, f"a claim on {rest[0]} more than by these other sources{lacking}")
    found = f"recomputed with other sources: decision {decision.code}, kinds of {len(claims)} claims{lacking}"
    return Check(ID, "ok", wanted, found)


def _differing(record: Record, wanted: str, found: str) -> Check:
    """A warning: the record may have been edited, or these sources conclude otherwise than those it was made with."""
    commit = source.find_commit(record.source)
    mend = (
        f"recompute with its own: git checkout {commit[:12]}" if commit else "recompute in the checkout it was run in"
    )
    return Check(ID, "warning", wanted, found, mend)


def concluded(experiment: Experiment, record: Record) -> tuple[tuple[Claim, ...], Decision]:
    """What the experiment concludes from what the record holds."""
    runtime = record.runtime
    observed = Observed(
        workload=from_json(Workload, {"name": record.workload.name, **to_json(record.workload.knobs)}, "workload"),
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
    return experiment.conclude(observed)


def _bare(claim: Claim) -> tuple[str, str, tuple[str, ...]]:
    return claim.kind, claim.statement, claim.candidates

"""Do a record's decision and claims still follow from its candidates? Asked by `results verify` and `promote`.

An experiment concludes by a pure function of candidates and comparisons, so the same sources must conclude the same
again, claim by claim. A record of schema 1.0 does not hold what a probe found out, and these sources write none: the
checkout it was run in counts its claims that rest on a probe, and leaves them.
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
from experiments.harness.workload import Workload
from tools.environments.model import Check

ID = "record.conclusions"


def check(record: Record) -> Check:
    """One check: blocked where the same sources conclude otherwise, skipped where these are other sources."""
    wanted = "claims and decision that follow from the candidates"
    package = discovery.packages().get(record.identity.experiment)
    if package is None:
        return Check(ID, "skipped", wanted, "not one of experiments/<topic>/: its own command concludes")
    here = source.look(source.scope_of(package.replace(".", "/")))
    if (here.scope, here.digest) != (record.source.scope, record.source.digest):
        where = f"git checkout {record.source.commit[:12]}" if record.source.commit else "the checkout it was run in"
        held = all(candidate.probes is not None for candidate in record.candidates)
        lacking = "" if held else "; what a probe found is not in a record of schema 1.0"
        return Check(ID, "skipped", wanted, f"other sources than this checkout's; to recompute: {where}{lacking}")
    experiment = discovery.load(record.identity.experiment)
    try:
        claims, decision = concluded(experiment, record)
    except (LookupError, TypeError, ValueError) as error:  # an edited answer may be any JSON
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

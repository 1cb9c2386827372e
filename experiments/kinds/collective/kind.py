"""The kind itself: one repetition is one collective over N ranks at each size, and what the engine asks of it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import ClassVar

from experiments.evidence.candidate import Candidate, Memory
from experiments.evidence.record import Launch
from experiments.evidence.sentences import Templates
from experiments.evidence.vocabulary import PREDICTION_MISSED, Role
from experiments.harness.experiment import Forecast, Options
from experiments.harness.kind import Findings, KindWithoutSubject
from experiments.harness.kind_options import KindOption
from experiments.harness.kind_words import KindWords
from experiments.kinds.collective import collective_workload, findings
from experiments.kinds.collective.answers import CollectiveGateAnswer, CollectiveMeasureAnswer
from experiments.kinds.collective.collective_sentences import SENTENCES
from experiments.kinds.collective.collective_workload import DTYPES, CollectiveWorkload
from experiments.kinds.collective.findings import WANTED, SeenCollective
from experiments.kinds.collective.size_ladder import QUANTITIES

WORDS = KindWords(
    kind="collective",
    quantities=QUANTITIES,
    phases=("exchange",),
    marks={PREDICTION_MISSED: "prediction missed"},
    claims=("sums_exact", "cost_model", "time"),
    gates=("sums", "ranks"),
)


class CollectiveKind(KindWithoutSubject[CollectiveWorkload, CollectiveGateAnswer, CollectiveMeasureAnswer]):
    """One collective over the ranks of one launch."""

    workload = CollectiveWorkload
    gate_answer = CollectiveGateAnswer
    measure_answer = CollectiveMeasureAnswer
    child = "experiments.kinds.collective.child"
    options: ClassVar[tuple[KindOption, ...]] = (
        KindOption("--ranks", "processes that take part", "N", type=int),
        KindOption("--sizes", "bytes that the cost model is fitted to, powers of two: 1024,16384,262144", "LIST"),
        KindOption("--unseen", "bytes that it has to predict", "N", type=int),
        KindOption("--dtype", "number format", choices=DTYPES),
    )
    sentences: ClassVar[Templates] = SENTENCES

    def knobs_of(self, args: argparse.Namespace) -> Mapping[str, object]:
        """What the options change."""
        sizes = None if args.sizes is None else collective_workload.sizes_from(args.sizes)
        return {"ranks": args.ranks, "sizes": sizes, "unseen": args.unseen, "dtype": args.dtype}

    def check(self, workload: CollectiveWorkload, subject: None, options: Options) -> None:
        """Bounds, a ladder that a line can be fitted to, and an unseen size between its ends."""
        collective_workload.check(workload)

    def wanted(self, role: Role) -> tuple[str, ...]:
        """Finite numbers, exact sums, every rank counted once: of everybody, for there is a closed form."""
        return WANTED

    def launch(self, workload: CollectiveWorkload) -> Launch:
        """As many ranks as the workload has."""
        return Launch(type="ranks", ranks=workload.ranks)

    def findings(self, seen: SeenCollective) -> Findings:
        """Samples of the slowest rank, and the gates over all ranks."""
        return findings.findings(seen)

    def forecast(self, seen: SeenCollective, memory: Memory | None) -> Forecast:
        """The time at the unseen size."""
        return findings.forecast(seen)

    def marks(self, seen: SeenCollective, candidate: Candidate) -> tuple[str, ...]:
        """`prediction_missed`."""
        return findings.marks(seen, candidate)


KIND = CollectiveKind(WORDS)

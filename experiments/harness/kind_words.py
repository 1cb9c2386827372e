"""The words a kind of measurement may use in a record, each set closed, and the check of a record against them.

A record's phases, marks, kinds of claims, gates and quantities are open words for its schema. Here its kind closes
them: the writer refuses a record with a word of another kind, and `results verify` reports one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from experiments.evidence.candidate import Candidate
from experiments.evidence.record import Quantity, Record
from tools.environments.errors import LabError

ENGINE_PHASES = ("import", "load", "warm_up", "other")  # of every kind: the engine itself is in them
ENGINE_MARKS = ("not_executed",)
ENGINE_GATES = ("finite",)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindWords:
    """Every word of one kind, besides those of the engine."""

    kind: str
    quantities: tuple[Quantity, ...] = ()
    phases: tuple[str, ...] = ()
    marks: Mapping[str, str] = field(default_factory=dict)  # and what a table says of each: what to do about it
    claims: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()

    def refuse_unsound(self, wanted: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """Raises LabError for a word that is declared twice, and for a gate that is wanted and not the kind's.

        `wanted` are the gates that the kind demands, by the role of a candidate.
        """
        where = f"experiments/kinds/{self.kind}"
        for what, words in (
            ("quantity", [quantity.word for quantity in self.quantities]),
            ("phase", [*ENGINE_PHASES, *self.phases]),
            ("mark", [*ENGINE_MARKS, *self.marks]),
            ("claim", self.claims),
            ("gate", [*ENGINE_GATES, *self.gates]),
        ):
            for word in _twice(words):
                raise LabError(f"each {what} once", f"{word} twice", f"declare {word} once, or rename one", where)
        for role, names in (wanted or {}).items():
            for name in names:
                if name not in (*ENGINE_GATES, *self.gates):
                    known = ", ".join((*ENGINE_GATES, *self.gates))
                    found = f"{name}, wanted of a {role}: nobody computes it"
                    repair = f"have {self.kind} compute it and declare it among its gates, or do not ask for it"
                    raise LabError(f"a gate of {self.kind}: {known}", found, repair, where)

    def faults(self, record: Record) -> list[str]:
        """Every word of the record that is not its kind's; empty when all are."""
        return list(dict.fromkeys(self._faults(record)))

    def refuse_foreign(self, record: Record) -> None:
        """Raises LabError for a record that uses a word which is not its kind's."""
        found = self.faults(record)
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise LabError(
                wanted=f"a record in the words of its kind, {self.kind}",
                found=found[0] + more,
                next=f"declare the word in experiments/kinds/{self.kind}, or use one of its own",
                where=record.identity.run_label,
            )

    def _faults(self, record: Record) -> Iterator[str]:
        if record.identity.kind != self.kind:
            yield f"identity.kind is {record.identity.kind}"
            return
        if record.quantities != self.quantities:
            own = {quantity.word: quantity for quantity in self.quantities}
            declared = {quantity.word for quantity in record.quantities}
            foreign = [quantity.word for quantity in record.quantities if own.get(quantity.word) != quantity]
            yield from (f"quantity {word} is not declared so by {self.kind}" for word in foreign)
            yield from (f"quantity {word} of {self.kind} is missing" for word in own if word not in declared)
        yield from _foreign("claim", (claim.kind for claim in record.claims), self.claims)
        for candidate in record.candidates:
            yield from self._faults_of(candidate)

    def _faults_of(self, candidate: Candidate) -> Iterator[str]:
        checks, gates = candidate.checks, (*ENGINE_GATES, *self.gates)
        yield from _foreign("gate", (*checks.wanted, *checks.gates), gates)
        yield from _foreign("mark", candidate.marks, (*ENGINE_MARKS, *self.marks))
        taken = [quantity.word for quantity in self.quantities if quantity.taken == "repetition"]
        yield from _foreign("quantity", (word for sample in candidate.samples for word in sample.values), taken)
        phases = [candidate.failure.phase] if candidate.failure else []
        if candidate.memory is not None:
            phases += [entry.phase for entry in candidate.memory.phases]
            phases += [candidate.memory.peak_phase] if candidate.memory.peak_phase else []
        yield from _foreign("phase", phases, (*ENGINE_PHASES, *self.phases))


def _foreign(what: str, words: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    ours = set(known)
    yield from (f"{what} {word}" for word in dict.fromkeys(words) if word not in ours)


def _twice(words: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return [word for word in words if word in seen or seen.add(word)]  # type: ignore[func-returns-value]

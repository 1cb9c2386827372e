"""Does each sentence of a record say what its code and arguments say? Asked by `results verify` and `promote`.

A record holds the English text beside the code, so that it can be read without this checkout. Here the text is made
again: of claims and decision by the templates of the record's experiment, of limits by those of the evidence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from experiments import kinds
from experiments.cli import discovery
from experiments.conformance import conformance_record, conformance_sentences
from experiments.evidence import earlier_shapes, limit_sentences
from experiments.evidence.conclusion import Limit, Said
from experiments.evidence.record import Record
from experiments.evidence.sentences import Templates, text_of
from experiments.evidence.verifying import NEW_RUN
from experiments.harness.kind import Kind
from tools.environments.errors import LabError
from tools.environments.model import Check

ID = "record.sentences"
WANTED = "texts that their codes and arguments say"


def check(record: Record) -> Check:
    """One check: blocked where a text is another, a warning where a code has no template here."""
    version = record.identity.schema_version
    if int(version.split(".")[1]) < earlier_shapes.FIRST_OF_THIS_SHAPE:
        return Check(ID, "skipped", WANTED, f"schema {version} holds texts only")
    wrong, unknown, held = [], [], 0
    for templates, text, said in _sentences(record, templates_of(record)):
        try:
            same = said is not None and text_of(templates, said) == text
        except KeyError as error:
            unknown.append(str(error.args[0]))
            continue
        except ValueError:
            same = False
        held += same
        wrong += [] if same else [text]
    if wrong:
        return Check(ID, "blocked", WANTED, f"a text that its code does not say: {wrong[0][:80]!a}", NEW_RUN)
    if unknown:
        found = f"not recomputed: no template here for {', '.join(dict.fromkeys(map(ascii, unknown)))[:80]}"
        return Check(ID, "warning", WANTED, found, "update this checkout: git pull")
    return Check(ID, "ok", WANTED, f"{held} recomputed")


def templates_of(record: Record) -> Templates:
    """By what a record's claims and decision are said; its kind's templates where its experiment is not here."""
    name = record.identity.experiment
    if name == conformance_record.EXPERIMENT:
        return conformance_sentences.SENTENCES
    if name in discovery.packages():
        with contextlib.suppress(LabError):  # it does not import: its own codes are then unknown here
            found: Templates = discovery.load(name).templates()
            return found
    with contextlib.suppress(LabError):
        kind = kinds.find(record.identity.kind)
        return kind.sentences if isinstance(kind, Kind) else {}
    return {}


def _sentences(record: Record, templates: Templates) -> Iterator[tuple[Templates, str, Said | None]]:
    """Each text with what it is said by."""
    yield templates, record.decision.sentence, record.decision.said
    for claim in record.claims:
        yield templates, claim.statement, claim.said
    for limit in (*record.limits, *(limit for claim in record.claims for limit in claim.limits)):
        yield limit_sentences.SENTENCES, _both(limit), limit.said


def _both(limit: Limit) -> str:
    return f"{limit.reason}\n{limit.lift}"

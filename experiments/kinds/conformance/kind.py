"""The words of a conformance record. Its own command makes it, so there is nothing here to measure with."""

from __future__ import annotations

from experiments.harness.kind import RecordedKind
from experiments.harness.kind_words import KindWords

KIND = RecordedKind(KindWords(kind="conformance", gates=("oracle",)))

"""The words of a conformance record, and the command that makes it: there is nothing here to measure with."""

from __future__ import annotations

from experiments.evidence.record import Record
from experiments.harness.kind import RecordedKind
from experiments.harness.kind_words import KindWords
from experiments.harness.run_again import NEW_LABEL

WORDS = KindWords(kind="conformance", gates=("oracle",))


class ConformanceKind(RecordedKind):
    """Checks of hand-written code against a framework, and the faults that they have to notice."""

    def command(self, record: Record) -> str:
        """The pages it ran, by name where the workload is called by them, with its seed and with or without faults."""
        workload = record.workload
        held = workload.knobs.get("pages")
        pages = [str(page) for page in held] if isinstance(held, list | tuple) else []
        topic = [f"--topic {parts[1]}" for parts in (path.split("/") for path in record.source.scope) if _pages(parts)]
        by_name = "-".join(pages).startswith(workload.name)  # which is cut where that gets long
        parts = [f"--page {page}" for page in pages] if by_name else [*topic, "--all"]
        if not workload.registered:
            parts += [f"--seed {workload.knobs.get('seed')}"]
            parts += ["--no-mutants"] if workload.knobs.get("faults") is False else []
        return " ".join(
            ("python tools/test_framework_conformance.py", *parts, f"--profile {record.profile.id}", NEW_LABEL)
        )


def _pages(parts: list[str]) -> bool:
    """Whether a path in scope is the folder of a topic's pages: experiments/<topic>/conformance."""
    return len(parts) == 3 and (parts[0], parts[2]) == ("experiments", "conformance")


KIND = ConformanceKind(WORDS)

"""What a conformance run says of itself, as templates by code."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

SENTENCES: Templates = {
    "framework": "{name} {version}",
    "pages_failed": "{pages:, } failed, checked against {against:, }: see what differs before use",
    "pages_skipped": "{passed} of {pages} pages passed, the others could not be checked against {against:, }",
    "pages_passed": (
        "{passed} of {pages} pages passed, checked against {against:, }; {faults} of {faults} faults noticed"
    ),
}

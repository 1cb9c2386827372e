"""What a conformance run says of itself, as templates by code."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

SENTENCES: Templates = {
    "framework": "{name} {version}",
    "pages_failed": "{pages:, } failed, held against {against:, }: see what differs before use",
    "pages_skipped": "{passed} of {pages} pages passed, the others could not be held against {against:, }",
    "pages_passed": "{passed} of {pages} pages passed, held against {against:, }; {faults} of {faults} faults noticed",
}

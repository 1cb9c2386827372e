"""What this page says beyond what all of its kind say, as templates by code."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

# Change: a record holds code, arguments and text, and `results verify` makes the text again.
SENTENCES: Templates = {
    "same_sums": "{candidates:names} give exact sums on {ranks} ranks; what they cost here is no figure of any card.",
    "pieces_take": "{candidate} takes {ratio:.2f} x the time of {baseline} at {largest} bytes: {verdict}.",
    "no_clear_difference": "No difference is clear of the noise: measure more rounds.",
}

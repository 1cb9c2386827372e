"""What this page says beyond what all of its kind say, as templates by code."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

# Change: a record holds code, arguments and text, and `results verify` makes the text again.
SENTENCES: Templates = {
    "shift_is_seen": (
        "{control} is {error:.1e} off the float64 product (relative L2, where rounding allows {tolerance:.1e})"
    ),
    "same_on_cpu": "{candidates:names} give the same product. What a call takes, only a card can tell.",
}

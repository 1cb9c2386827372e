"""What this page says beyond what all of its kind say, as templates by code."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

# Change: a record holds code, arguments and text, and `results verify` makes the text again.
SENTENCES: Templates = {
    "divided_alike": "each part is divided by the tokens of the whole batch",
    "mean_is_seen": "{control} is {error:.1e} off in its gradients (relative L2, where {tolerance:.1e} is allowed)",
    "control_unseen": "{controls:names} passed and must not: the gates see no difference in this workload.",
    "same_update": "{candidates:names} make the same update. What it frees and costs, only a card can tell.",
}

"""What the checkpointing page says beyond what all pages say, as templates by code."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

SENTENCES: Templates = {
    "computed_twice": "the layers were computed twice, from the same inputs",
    "under_dropout": (
        "under dropout {dropout}: gradients are {kept} when the second run repeats the random state, "
        "{lost_error:.1e} off (relative L2) when it is not"
    ),
    "kept_bits": "bit-identical",
    "kept_off": "{error:.1e} off",
    "state_not_restored": "Do not checkpoint with dropout: the random state was not restored ({error:.1e} off).",
    "kept_on_cpu": "{candidates:names} keep the gradients; what they free and cost only a card can tell.",
}

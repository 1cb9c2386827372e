"""What the accumulation page says beyond what all pages say, as templates by code."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

SENTENCES: Templates = {
    "divided_by_all_tokens": "every loss was divided by the tokens of the whole batch",
    "mean_is_off": (
        "gradients of {control} are {error:.1e} off (relative L2, where rounding allows {tolerance:.1e}): "
        "a token in a micro-batch of short rows weighs more"
    ),
    "beyond_busy": "a step of {candidate} takes {ratio:.2f} x the time the card is busy in it: {what}",
    "launch_bound": "launch_bound, the card waits for Python",
    "not_launch_bound": "not launch-bound",
    "within_limit": "within the {limit} x that a launch-free step may take",
    "beyond_limit": "beyond the {limit} x that a launch-free step may take",
    "control_passed": (
        "{controls:names} is wrong and passed: rows are too alike here for the gates to tell. Take unequal lengths."
    ),
    "one_row": "One row cannot be cut: give --batch 2 or more.",
    "same_update": "{candidates:names} make the same update{wrong}. What they save only a card can tell.",
    "wrong_as_meant": "; {control} does not, as it must",
}

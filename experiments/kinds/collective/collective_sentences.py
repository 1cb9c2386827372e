"""What `concluding` says of any collective, as templates by code. A template that a record names keeps its words."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

SENTENCES: Templates = {
    # Claims
    "sums_are_exact": (
        "{candidates:names}: the sum of rank-distinct integers is exact in every element on each of {ranks} ranks, "
        "at {sizes} sizes from {smallest} to {largest} bytes, and each rank is in it once{caught}"
    ),
    "controls_caught": "; wrong on purpose and caught: {controls:names}",
    "cost_model_holds": (
        "{candidate} costs {alpha_ms:ms} ms + {ns_per_byte:.3g} ns/byte over {ranks} ranks; at {unseen} bytes, which "
        "the fit has not seen, {measured_ms:ms} ms lie inside its 90 % interval, {low_ms:ms} to {high_ms:ms} ms"
    ),
    "cost_model_is_loose": (
        "{candidate}: times scatter too much to test a line; {alpha_ms:ms} ms + {ns_per_byte:.3g} ns/byte over {ranks} "
        "ranks predicts {low_ms:ms} to {high_ms:ms} ms at {unseen} bytes, and {measured_ms:ms} ms were measured"
    ),
    "cost_model_misses": (
        "{candidate}: no line through the ladder holds; {alpha_ms:ms} ms + {ns_per_byte:.3g} ns/byte over {ranks} "
        "ranks predicts {low_ms:ms} to {high_ms:ms} ms at {unseen} bytes, and {measured_ms:ms} ms were measured"
    ),
    "takes_beside": "{candidate} takes {ratio:.3f} x the time of {baseline} at {largest} bytes: {verdict}",
    # What is in the way of a decision
    "nothing_was_executed": "Nothing was executed: the plan is well-formed.",
    "gates_never_run": "Nothing here may be believed: {gates:, } was wanted and never run.",
    "sums_are_wrong": "Do not use {candidates:names}: a sum is wrong, or a rank was left out.",
    "nothing_to_compare": "Nothing ran that could be compared ({failures:; }).",
    "failed_while": "{candidate}: {kind} in {phase}",
    "not_judged": "{candidate}: without {gates:, }",
}

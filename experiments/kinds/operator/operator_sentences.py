"""What `concluding` says, as templates by code: sentences that the kind's experiments have in common.

A template that a committed record names keeps its words; another wording is another code.
"""

from __future__ import annotations

from experiments.evidence.sentences import Templates

SENTENCES: Templates = {
    # Claims
    "outputs_agree": (
        "outputs of {candidates:names} are within {value:.1e} (relative L2) of the float64 product "
        "and within {dense:.1e} of {baseline}"
    ),
    "call_takes": "a call of {candidate} takes {ratio:.3f} x that of {baseline}: {verdict}",
    "weight_is_read_from": (
        "a call of {candidate} reads its weight from {weight_bytes:,.0f} bytes, {baseline} from {baseline_bytes:,.0f}: "
        "{factor:.2f} x less"
    ),
    "call_peaks": "a call of {candidate} peaks at {peak_bytes:,} bytes allocated, {baseline} at {baseline_bytes:,}",
    # What prevents a decision
    "nothing_executed": "Nothing was executed: the plan is well-formed.",
    "gates_never_run": "Nothing here may be believed: {gates:, } was wanted and never run.",
    "call_not_repeated": "{again} does not repeat the baseline within rounding: nothing can be compared with it.",
    "call_is_wrong": "Do not use {candidates:names}: a gate failed.",
    "control_passed": "{controls:names} passed and must not: the gates see no difference at this shape.",
    "nothing_fits": "Nothing fits on this device; try less.",
    "nothing_fits_yet": "Nothing fits on this device; try {proposal}.",
    "nothing_compared": "Nothing ran that could be compared ({failures:; }).",
    "failed_in": "{candidate}: {kind} in {phase}",
    "not_judged": "{candidate}: without {gates:, }",
    # Time against memory
    "nothing_to_weigh": "No candidate has both a time and a peak to weigh.",
    "frees_for_nothing": "Take {candidate}: a call peaks {share:percent} lower and is not slower.",
    "frees_for_time": "{candidate} peaks {share:percent} lower for {ratio:.2f} x the time: take it if memory is short.",
    "only_faster": "Take {candidate}: {ratio:.2f} x the time of {baseline}; the peak of a call is not lower.",
    "neither": "In one call alone nothing is gained: no candidate is faster than {baseline}, and none peaks lower.",
    "within_noise": "No difference is clear of the noise: measure more rounds.",
}

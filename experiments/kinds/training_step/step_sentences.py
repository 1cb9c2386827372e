"""What `concluding` says, as templates by code: sentences that the experiments have in common.

A template that a committed record names keeps its words; another wording is another code.
"""

from __future__ import annotations

from experiments.evidence.sentences import Templates

SENTENCES: Templates = {
    # Claims
    "gradients_agree": "gradients and first update of {candidates:names} agree with {baseline}: {size}; {because}",
    "bit_identical": "bit-identical",
    "largest_error": "largest relative L2 error {error:.1e} ({candidate})",
    "step_takes": "a step of {candidate} takes {ratio:.3f} x that of {baseline}: {verdict}",
    "peaks": "{candidate} peaks at {peak_bytes:gib.2f} GiB allocated, {baseline} at {baseline_bytes:gib.2f}{more}",
    "after_forward": "; after the forward {held_bytes:gib.2f} GiB stay, of {baseline} {baseline_bytes:gib.2f}",
    "pool_of_the_graph": (
        "; its graph's pool is not counted as allocated: {reserved_bytes:gib.2f} GiB are reserved, "
        "of {baseline} {baseline_bytes:gib.2f}"
    ),
    # What stands in the way of a decision
    "nothing_executed": "Nothing was executed: the plan is well-formed.",
    "baseline_not_repeated": (
        "{again} does not repeat the baseline's gradients within rounding: nothing can be compared with it."
    ),
    "baseline_off_float64": (
        "{baseline} is not within rounding of the float64 decoder: one of the two computes another model."
    ),
    "numbers_lost": "Do not use {candidates:names}: a gate or a step failed.",
    "nothing_fits": "Nothing fits on this device; try less.",
    "nothing_fits_yet": "Nothing fits on this device; try {proposal}.",
    "nothing_compared": "Nothing ran that could be compared ({failures:; }).",
    "failed_in": "{candidate}: {kind} in {phase}",
    # Memory against time
    "only_it_fits": "Take {candidate}: {baseline} does not fit here, it does.",
    "nothing_to_weigh": "No candidate has both a peak and a step time to weigh.",
    "no_lower_peak": "No candidate lowers the peak here: head or state holds it.",
    "frees_at_a_price": "{candidate} frees {share:percent} of the peak; at what price was not measured.",
    "frees_for_nothing": "Take {candidate}: {share:percent} less peak at {ratio:.2f} x the time.",
    "frees_for_time": (
        "{candidate} frees {share:percent} of the peak for {ratio:.2f} x the time: take it when memory is short."
    ),
}

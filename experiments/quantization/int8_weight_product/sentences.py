"""What the page on int8 weights says beyond what all of its kind say, as templates by code."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

SENTENCES: Templates = {
    "quantised_weights": (
        "rounding to int8 moves the weights by {weight_error:.3g} of their norm ({predicted:.3g} if every error were "
        "uniform in its step), none by more than {largest_step:.3f} of a step, and the output by {output_error:.3g}; "
        "these weights are normal, which says nothing about a trained layer"
    ),
    "neighbour_is_seen": (
        "{control} is {error:.1e} off the float64 product (relative L2, where rounding allows {tolerance:.1e}): "
        "every channel has another one's scale"
    ),
    "step_too_large": "Do not use these weights: one is {largest_step:.3f} of a step off, beyond one half.",
    "kept_uncounted": "{candidates: and } give the product of the dequantised weights; their bytes were not counted.",
    "kept_on_cpu": (
        "{candidates: and } give the product of the dequantised weights and read {share:percent} of the dense weight's "
        "bytes. What a call takes, and its peak, only a card can tell."
    ),
}

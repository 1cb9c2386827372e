"""What the mixed-precision page says beyond what all pages say, as templates by code."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

SENTENCES: Templates = {
    "within_rounding": "within what rounding allows",
    "step_skipped": (
        "an infinity in step {step} skipped {skips} step: weights and optimizer state bit-identical, "
        "schedule not advanced, scale {scale_before:.0f} → {scale_after:.0f}"
    ),
    "scaler_broken": "The scaler did not go through its states: see the probe.",
    "scale_collapsed": (
        "The loss scale of {candidate} collapsed from {first:.0f} to {lowest:.0f}: steps are lost to overflow."
    ),
    "numerics_only": "{parts:; }. This says nothing about speed.",
    "gradients_kept": "{candidates: and } keep the gradients within their rounding",
    "only_fp32": "only fp32 ran",
    "scaler_skips": "the scaler skips exactly as it must",
    "control_fails": "{control} fails its gate, with {share:percent} of its gradients below fp16's normal range",
    "fastest": "Take {candidate}: {ratio:.2f} x the time of fp32 with gradients kept.",
    "none_faster": "No format is faster than fp32 beyond the noise here.",
    "within_noise": "No difference stands clear of the noise: measure more rounds.",
}

"""What the all-reduce page says beyond what all collectives say, as templates by code."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

SENTENCES: Templates = {
    "exact_on_cpu": (
        "{candidates:names} give exact sums on {ranks} ranks; what they cost here is no figure of any card."
    ),
    "ring_is_faster": "Take {candidate}: {ratio:.2f} x the time of {baseline} at {largest} bytes.",
    "ring_is_slower": "Keep {baseline}: {candidate} takes {ratio:.2f} x its time at {largest} bytes.",
    "ring_is_alike": "{candidate} takes as long as {baseline} at {largest} bytes: keep {baseline}, the library's own.",
    "within_noise": "Differences are within the noise of this run: measure with more rounds.",
}

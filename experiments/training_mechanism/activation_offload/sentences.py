"""What the offload page says beyond what all pages say, as templates by code."""

from __future__ import annotations

from experiments.evidence.sentences import Templates

SENTENCES: Templates = {
    "only_moved": "offloading moves bytes and computes nothing",
    "step_beside": "a step of {candidate} takes {ratio:.3f} x that of {other}{busy}",
    "in_busy_time": ", {ratio:.3f} x in time the card is busy",
    "floor_is_computation": (
        "{candidate} takes {ratio:.3f} x its floor, max(computation, transfer): here computation, {floor_ms:.1f} ms"
    ),
    "floor_is_transfer": (
        "{candidate} takes {ratio:.3f} x its floor, max(computation, transfer): here transfer, {floor_ms:.1f} ms"
    ),
    "kept_on_cpu": "{candidates:names} keep the gradients; on a CPU nothing is freed and no transfer is hidden.",
}

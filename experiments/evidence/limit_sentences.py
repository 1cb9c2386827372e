"""Why evidence reaches no higher, as templates by code: the reason on the first line, on the second what lifts it.

Not every limit is always worded alike, so a wording has a code of its own beside the limit's. Clauses have one line.
"""

from __future__ import annotations

from experiments.evidence.sentences import Templates

AGAIN = "python -m experiments run {experiment} --run-label NEW"
ASK = "python tools/environment_preflight.py --profile {profile}"
CREATE = (
    "create a new environment: python tools/install_environment_profile.py "
    "--profile {profile} --env-name NEW_NAME (leave this one as it is)"
)
PROFILES = "python tools/environment_preflight.py --list-profiles"
OFF_PROFILE = "{check}: {found} is not the profile's {wanted}"
WORKLOADS = f"{AGAIN} --workload smoke (or default, fit-8gib, large)"

SENTENCES: Templates = {
    # The level: what was done
    "dry_run": f"a dry run: nothing was executed\n{AGAIN} without --run-mode dry_run",
    "only_predicted": f"only predictions were computed: not executed\n{AGAIN}",
    "no_step": f"no candidate came as far as a step\n{AGAIN}",
    "cpu_only": (
        "ran on CPU: numerics and semantics on this machine, nothing about GPU memory or speed\n"
        f"run it on a card, under a CUDA profile of: {PROFILES}"
    ),
    "no_device": (
        f"run mode real_gpu, but the runtime snapshot holds no card\ncheck that nvidia-smi answers, then {AGAIN}"
    ),
    # The level: in which environment
    "other_image": "{found}, not one for {profile}\nnox -s {profile} -- --image",
    "other_image_repair": "{found}, not one for {profile}\n{repair}",
    "no_preflight": f"no preflight report was made\n{ASK}",
    "check_not_made": f"{{check}} was not checked\n{ASK} (without --quick)",
    "off_profile_create": f"{OFF_PROFILE}\n{CREATE}",
    "off_profile_repair": f"{OFF_PROFILE}\n{{repair}}",
    "off_profile_ask": f"{OFF_PROFILE}\n{ASK}",
    # The level: how it was measured
    "workload_differs": f"workload {{workload:quoted}} differs from the one registered under that name\n{WORKLOADS}",
    "workload_unknown": f"workload {{workload:quoted}} is not registered\n{WORKLOADS}",
    "no_twin": f"the baseline has no finished A/A twin: the noise is not known\n{AGAIN}",
    "no_twin_in_two_rounds": f"the baseline has no A/A twin finished in two rounds: the noise is not known\n{AGAIN}",
    "dirty_tree": "sources differ from the commit\ncommit the changes, then run again under a new label",
    "gate_failed": (
        "did not pass: {failed:, }\n"
        "look at random state, in-place changes, saved tensors, and which gradients were compared"
    ),
    "gate_missing": "not run: {missing:, }\nmeasure again with the gates on",
    # Gates, as clauses
    "not_finite": "{candidate}: not finite",
    "gate_of": "{candidate}: {gate}",
    "gate_over": "{candidate}: {gate} {error:.2g} over {tolerance:.2g}",
    "finite": "finite",
    "oracle": "float64 oracle",
    "gate": "{name:words} gate",
    # Claims
    "accepted_warning": "{check} was accepted: wanted {wanted}, found {found}\n{repair}",
    "memory_cap": "{device} capped at {cap_gib:g} GiB: small in memory, not in speed\nmeasure on a card of that size",
    "shared_device": "{processes} other processes on {device} when the run began\nmeasure on a card of your own",
    "random_init": (
        "random weights: quality, underflow share and scale history say nothing about a trained model\n"
        "run again with --model-source hub or local"
    ),
    "control_not_caught": (
        "wrong on purpose, yet passed: {controls:, }\n"
        "use a workload in which the fault shows (unequal lengths, larger batch)"
    ),
    "not_measured": "no {kind:words} result for {candidates:, }\nmeasure again, with these candidates",
    "nothing_named": "no {kind:words} result for any candidate\nmeasure again, with these candidates",
    "expectation": "not from a card: an expectation, never a GPU figure\nmeasure on a card",
    "prediction_missed": (
        "measured outside what a formula states for: {candidates:, }\n"
        "measure with more rounds; where it misses again, the formula is not true here"
    ),
    "claim_gate_failed": "gates not passed: {candidates:, }\nfix the candidate, then measure again",
    "claim_gate_failed_v1": "gates not passed: {candidates:, }\nmend the candidate, then measure again",
    "ambiguous": "not told apart from noise: {candidates:, }\nmeasure with more rounds",
}

"""Does the card, or the CPU, really compute? One tiny product and its gradient per dtype, tried by the child."""

from __future__ import annotations

from collections.abc import Sequence

from tools.environments.machine.host_gate import numbers
from tools.environments.model import Check, Profile
from tools.environments.preflight.checks.wording import new_environment
from tools.environments.preflight.child_probe import ProbeFacts, ProbeOutcome, outcome
from tools.environments.preflight.preflight_facts import PreflightFacts

DTYPES = ("float32", "tf32", "float16", "bfloat16")
NATIVE_FROM = (8, 0)  # Ampere: the first with tensor cores for bfloat16 and TF32


def check(profile: Profile, facts: PreflightFacts) -> tuple[Check, ...]:
    """`torch.device`, `gpu.bf16`, and `operation.<dtype>` for each of `DTYPES`."""
    return (_device(profile, facts), _bf16(profile, facts), *(_operation(name, profile, facts) for name in DTYPES))


def _seen(facts: PreflightFacts) -> ProbeOutcome | None:
    """What torch said of the cards; None where it was not asked or did not get that far."""
    return outcome(facts.probes, "torch-facts cuda") if facts.probes else None


def _device(profile: Profile, facts: PreflightFacts) -> Check:
    if profile.gpu is None or profile.torch is None:
        return Check("torch.device", "skipped", "a card torch can use", "this profile uses none")
    wanted = f"{profile.gpu.count} card(s) torch can use"
    seen = _seen(facts)
    if seen is None:
        return Check("torch.device", "skipped", wanted, "torch was not asked")
    if facts.host.gpu is None or not facts.host.gpu.cards:
        return Check("torch.device", "skipped", wanted, "no card to ask")
    if not seen.ok:
        return Check("torch.device", "blocked", wanted, seen.error, new_environment(profile, facts))
    if seen.facts["cuda"] is None:
        return Check("torch.device", "skipped", wanted, "this torch is a CPU build")
    count = len(seen.facts["cards"]) if seen.facts["available"] else 0
    if count >= profile.gpu.count:
        return Check("torch.device", "ok", wanted, f"{count}")
    why = str(seen.facts.get("why", f"{count} visible"))
    if facts.cuda_visible is not None:
        found = f"{why} (CUDA_VISIBLE_DEVICES={facts.cuda_visible!a})"
        return Check("torch.device", "blocked", wanted, found, "unset CUDA_VISIBLE_DEVICES")
    if "mismatch" in why.lower() or "803" in why:
        return Check(
            "torch.device", "blocked", wanted, why, "reboot: driver library and kernel module differ in version"
        )
    return Check(
        "torch.device", "blocked", wanted, why, "check `nvidia-smi`, then the driver against this build of torch"
    )


def _bf16(profile: Profile, facts: PreflightFacts) -> Check:
    """bfloat16 is a candidate where card and PyTorch both report it; lacking it is no fault, disagreeing is."""
    wanted = "native bfloat16 by card and by PyTorch alike"
    seen = _seen(facts)
    cards = facts.host.gpu.cards if facts.host.gpu else ()
    if profile.gpu is None:
        return Check("gpu.bf16", "skipped", wanted, "this profile uses no GPU")
    if not cards or seen is None or not seen.ok or not seen.facts["available"]:
        return Check("gpu.bf16", "skipped", wanted, "no card that torch can use")
    card = all(numbers(item.capability) >= NATIVE_FROM for item in cards)
    torch = bool(seen.facts["bf16_native"])
    if card and torch:
        return Check("gpu.bf16", "ok", wanted, "both report it: bf16 is a candidate")
    if card == torch:
        return Check("gpu.bf16", "skipped", wanted, "neither reports it: fp16 with a scaler is the candidate")
    found = f"the card {'does' if card else 'does not'}, PyTorch {'does' if torch else 'does not'}"
    return Check("gpu.bf16", "warning", wanted, found, "run with --precision fp16")


def _operation(dtype: str, profile: Profile, facts: PreflightFacts) -> Check:
    name = f"operation.{dtype}"
    device = "cuda" if profile.gpu else "cpu"
    wanted = f"one exact product and gradient in {dtype} on {device}"
    why = _not_asked(dtype, profile, facts)
    if why:
        return Check(name, "skipped", wanted, why)
    result = outcome(facts.probes or (), f"operate {dtype} {device}")
    if result is None:
        return Check(name, "skipped", wanted, _ended_before(facts.probes or ()))
    if result.ok:
        return Check(name, "ok", wanted, "exact")
    return Check(name, "blocked", wanted, result.error, _repair(result.error, profile, facts))


def _not_asked(dtype: str, profile: Profile, facts: PreflightFacts) -> str:
    """Why this dtype does not apply here; empty where it does."""
    if profile.torch is None:
        return "this profile uses no torch"
    if facts.probes is None:
        return "not tried (--quick)"
    if dtype not in profile.dtypes and not (dtype == "bfloat16" and profile.gpu):
        return "this profile claims none"
    imported = outcome(facts.probes, "import torch")
    if imported is not None and not imported.ok:
        return "torch does not import"
    if profile.gpu is None:
        return "CPUs have none" if dtype == "tf32" else ""
    seen = _seen(facts)
    if seen is None or not seen.ok or not seen.facts["available"]:
        return "no card that torch can use"
    if dtype == "tf32" and any(tuple(card) < NATIVE_FROM for card in seen.facts["cards"]):
        return "the card has none"
    if dtype == "bfloat16" and not seen.facts["bf16_native"]:
        return "the card has none of its own"
    return ""


def _ended_before(probes: Sequence[ProbeFacts]) -> str:
    dead = next((probe for probe in probes if probe.died), None)
    return f"not reached: {dead.died} in {dead.died_in or 'its start'}" if dead else "not reached"


def _repair(error: str, profile: Profile, facts: PreflightFacts) -> str:
    if "out of memory" in error.lower():
        return "free the card: nvidia-smi lists what runs there"
    if "no kernel image" in error.lower():
        return "this build has no code for this card: " + new_environment(profile, facts)
    return new_environment(profile, facts)

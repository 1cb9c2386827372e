"""Proxies, the hub and its cache. The hub is asked about only when the run would download."""

from __future__ import annotations

from tools.environments.model import Check, Profile, Status
from tools.environments.preflight.preflight_facts import PreflightFacts

MODEL_GIB = 2.0  # room for the default model's files while they are being downloaded (1 GiB, kept twice at the worst)
SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")


def check(profile: Profile, facts: PreflightFacts) -> tuple[Check, ...]:
    """`network.proxy`, `hub.reach`, `hub.disk`."""
    return (_proxy(facts), _reach(facts), _disk(facts))


def _proxy(facts: PreflightFacts) -> Check:
    wanted = "proxies that the hub client can use"
    if not facts.proxies:
        return Check("network.proxy", "skipped", wanted, "no proxy variable is set")
    odd = [proxy.variable for proxy in facts.proxies if proxy.scheme not in SCHEMES]
    if odd:
        repair = f"export {odd[0]}=http://HOST:PORT"
        return Check("network.proxy", "warning", wanted, f"{odd[0]} names no scheme that is known", repair)
    socks = [proxy.variable for proxy in facts.proxies if proxy.scheme.startswith("socks")]
    if socks and "socksio" not in facts.packages.installed:
        status: Status = "blocked" if facts.hub and not facts.hub.cached else "warning"
        repair = f"{facts.interpreter.executable} -m pip install socksio"
        return Check(
            "network.proxy", status, wanted, f"{socks[0]} is a SOCKS proxy and socksio is not installed", repair
        )
    return Check(
        "network.proxy", "ok", wanted, ", ".join(f"{proxy.variable} ({proxy.scheme})" for proxy in facts.proxies)
    )


def _reach(facts: PreflightFacts) -> Check:
    hub = facts.hub
    if hub is None:
        return Check("hub.reach", "skipped", "a hub that answers", "this run downloads nothing")
    wanted = f"{hub.model} from {hub.endpoint} or complete in the cache"
    if hub.cached:
        return Check("hub.reach", "ok", wanted, "complete in the cache")
    if hub.offline:
        found = f"not complete in the cache, and {hub.offline} forbids to download"
        return Check("hub.reach", "blocked", wanted, found, f"unset {hub.offline}")
    if hub.reached:
        return Check("hub.reach", "ok", wanted, str(hub.answer))
    repair = (
        "check proxy variables and HF_ENDPOINT, or run without a download: "
        "python -m experiments run EXPERIMENT --model-source config"
    )
    return Check("hub.reach", "blocked", wanted, f"{hub.endpoint} {hub.answer}", repair)


def _disk(facts: PreflightFacts) -> Check:
    hub = facts.hub
    if hub is None or hub.cached:
        why = "this run downloads nothing" if hub is None else "nothing is left to download"
        return Check("hub.disk", "skipped", "room for the model", why)
    wanted = f"{MODEL_GIB:g} GiB free at {hub.cache.path}"
    free = hub.cache.free_gib
    if free is None or free >= MODEL_GIB:
        return Check("hub.disk", "ok", wanted, "the file system does not tell" if free is None else f"{free:.1f} GiB")
    return Check("hub.disk", "blocked", wanted, f"{free:.1f} GiB", "free some there, or export HF_HOME=/a/larger/disk")

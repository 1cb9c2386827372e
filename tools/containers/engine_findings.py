"""What a Docker engine says when something is in the way, and what a user can do about it.

An engine answers in sentences, not in codes. The ones that a user can mend are recognised here by their own words, each
seen on a real engine; anything else is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tools.environments.errors import LabError

LAST_LINES = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """One obstacle: how the engine words it, what was wanted, and what to do."""

    words: re.Pattern[str]
    wanted: str
    next: str
    in_build: bool = False  # a build step's own output may say it too


def _rule(words: str, wanted: str, next: str, *, in_build: bool = False) -> Rule:
    return Rule(re.compile(words, re.IGNORECASE), wanted, next, in_build)


RULES = (
    _rule(
        r"permission denied|PermissionError",
        "a Docker engine this user may talk to",
        'sudo usermod -aG docker "$USER", then log in again; or an engine of your own (rootless Docker) in DOCKER_HOST',
    ),
    _rule(
        r"FileNotFoundError|Connection refused|ConnectionRefused|No such file or directory.*sock|Connection aborted",
        "a Docker engine that answers",
        "start one (sudo systemctl start docker, or Docker Desktop); where it listens elsewhere, set DOCKER_HOST. "
        "Without an engine every profile also runs on the machine itself: python3 tools/bootstrap.py nox -s ID",
    ),
    _rule(
        r"no space left on device",
        "room on the engine's disk",
        "see what takes it with `docker system df`; invoke image.prune removes images that newer ones replaced",
        in_build=True,
    ),
    _rule(
        r"could not select device driver|unresolvable CDI devices|unknown or invalid runtime name: nvidia",
        "an engine that can hand a GPU to a container",
        "install NVIDIA's container toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker && "
        "sudo systemctl restart docker",
    ),
    _rule(
        r"unsatisfied condition: (?:cuda|driver)|please update your driver",
        "a driver that is new enough for the image",
        "update the host's NVIDIA driver, or take the profile that fits it: "
        "python tools/environment_preflight.py --list-profiles",
    ),
    _rule(
        r"nvidia-container-cli:|libnvidia-ml|Failed to initialize NVML",
        "a host whose NVIDIA driver answers",
        "check `nvidia-smi` on the host first: a container can only use the host's driver",
    ),
    _rule(
        r"certificate verify failed|CERTIFICATE_VERIFY_FAILED|self.signed certificate",
        "a certificate that the image trusts",
        "your network signs for other sites: give its certificate with --ca FILE (often what SSL_CERT_FILE names)",
        in_build=True,
    ),
    _rule(
        r"pull access denied|manifest (?:for .* )?(?:unknown|not found)|repository does not exist|"
        r"Get \"?https://[^ ]*/v2/|registry-1|no such host|TLS handshake timeout",
        "the base image",
        "check the network; or take one that is here already (`docker images`), or a mirror's: --base-image NAME",
        in_build=True,
    ),
    _rule(
        r"No matching distribution found for torch==|Could not find a version that satisfies the requirement torch==",
        "the profile's build of torch",
        "--torch-index URL takes a mirror of PyTorch's index, --find-links DIR a folder that holds the wheel",
        in_build=True,
    ),
    _rule(
        r"Temporary failure in name resolution|Network is unreachable|Failed to establish a new connection|"
        r"ConnectTimeoutError|NameResolutionError|no answer within",
        "a network that reaches the package index from inside a build",
        "try --network host (the build then uses the host's own network); a mirror is given with --index-url URL",
        in_build=True,
    ),
)


def known(text: str, *, in_build: bool = False) -> Rule | None:
    """The rule whose words stand in the text, the first that fits; `in_build`: of those that a build step may say."""
    return next((rule for rule in RULES if (rule.in_build or not in_build) and rule.words.search(text)), None)


def explain(text: str, wanted: str, where: str = "docker", place: str = "") -> LabError:
    """The finding for what an engine said, and `place` after it; its own words where no rule knows them."""
    rule = known(text)
    found = " ".join(filter(None, [shortened(text), place]))
    if rule is None:
        return LabError(wanted, found, "the engine's own log says more: journalctl -u docker", where)
    return LabError(rule.wanted, found, rule.next, where)


def build_failed(step: str, stage: str, said: str, lines: Sequence[str], log: str) -> LabError:
    """The finding for a build step that ended: the step, what the engine said, and the step's own last lines."""
    last = [line for line in lines if line.strip()][-LAST_LINES:]
    rule = known("\n".join([said, *last]), in_build=True)
    wanted = rule.wanted if rule else f"stage {stage} of the image to build"
    told = "".join(f"\n         {line[:160]}" for line in last)
    mend = rule.next if rule else "mend what the step says"
    found = f"{step[:160]}\n         {shortened(said)}{told}"
    return LabError(wanted, found, f"{mend}; the whole output: {log}", "build")


def driver_below(found: str, floor: str, profile: str) -> LabError:
    """The finding for a host whose driver cannot run what the image holds."""
    return LabError(
        wanted=f"an NVIDIA driver of {floor} or newer on the host, for the image of {profile}",
        found=found,
        next="update the host's driver, or take the profile that fits it: "
        "python tools/environment_preflight.py --list-profiles",
        where="gpu.driver",
    )


def shortened(text: str) -> str:
    """One line of what was said, without the library's own wrapping."""
    line = " ".join(text.split())
    inner = re.search(r"\(\"?(?:Connection aborted\.|.*)\"?, (\w+Error\(.*?\))\)", line)
    said = inner[1] if inner else line
    system = re.fullmatch(r"\w+Error\(\d+, '([^']*)'\)", said)  # the operating system's own words
    return (system[1] if system else said)[:300]

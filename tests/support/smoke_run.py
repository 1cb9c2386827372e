"""A smoke run of one experiment on this CPU through the command line, and its record once it has been verified."""

from __future__ import annotations

import json
from pathlib import Path

from zygote import Zygote

from experiments.evidence import store
from experiments.evidence.record import Record
from tools.environments.registry import registry


def verified_run(name: str, forks: Zygote, folder: Path) -> Record:
    """Run it under the first profile without a card that names it, and verify what it wrote."""
    profile = next(profile.id for profile in registry.load().having(name) if profile.gpu is None)
    lab = forks.at(folder)
    done = lab.run("run", name, "--profile", profile, "--run-mode", "cpu_mechanism", "--run-label", "a")
    assert done.code == 0, done.stdout + done.stderr
    verified = lab.run("results", "verify", "a", "--json")
    checks = {check["id"]: check["status"] for check in json.loads(verified.stdout)[0]["checks"]}
    assert verified.code == 0, checks
    assert {checks[f"record.{one}"] for one in ("kind", "conclusions", "sentences", "summaries")} == {"ok"}, checks
    return store.read(folder / name / "a" / "record.json")

"""Version 1: the rules of records of schema 1.0 and 1.1. What they compute never changes again."""

from __future__ import annotations

from experiments.evidence.rules.rule_set import Rules
from experiments.evidence.rules.v1 import gates, grading, scope, summary

RULES = Rules(
    version=1,
    summarise=lambda name, samples, _: summary.summarise(name, samples),  # version 1 knew the times of a step alone
    noise_floors=lambda candidates, _: summary.noise_floors(candidates),
    comparisons=lambda candidates, _: summary.comparisons(candidates),
    across=lambda second, first, noise_floor, _: summary.across(second, first, noise_floor),
    scope_of=scope.scope_of,
    takes_part=scope.takes_part,
    failed_gates=gates.failed_gates,
    grade=grading.grade,
    on_profile=grading.ON_PROFILE,
    conclusions=1,
)

"""Version 1: the rules of records of schema 1.0 and 1.1. What they compute never changes again."""

from __future__ import annotations

from experiments.evidence.rules.rule_set import Rules
from experiments.evidence.rules.v1 import gates, grading, scope, summary

RULES = Rules(
    version=1,
    summarise=summary.summarise,
    noise_floors=summary.noise_floors,
    comparisons=summary.comparisons,
    across=summary.across,
    scope_of=scope.scope_of,
    takes_part=scope.takes_part,
    failed_gates=gates.failed_gates,
    grade=grading.grade,
    on_profile=grading.ON_PROFILE,
    conclusions=1,
)

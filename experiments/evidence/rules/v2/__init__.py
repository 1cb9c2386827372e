"""Version 2: the rules of records of schema 1.2, for any kind of measurement. What they compute never changes again.

Statistics are drawn with numpy, in every declared quantity of which one direction is better. Gates are the ones that
the kind demands, by name; a claim is judged by the quantities, gates and probes it rests on. What did not change since
version 1 is called from there.
"""

from __future__ import annotations

from experiments.evidence.rules.rule_set import Rules
from experiments.evidence.rules.v2 import gates_by_name, grade_of_any_kind, scope_with_kinds, statistics

RULES = Rules(
    version=2,
    summarise=statistics.summarise,
    noise_floors=statistics.noise_floors,
    comparisons=statistics.comparisons,
    across=statistics.across,
    scope_of=scope_with_kinds.scope_of,
    takes_part=scope_with_kinds.takes_part,
    failed_gates=gates_by_name.failed_gates,
    grade=grade_of_any_kind.grade,
    on_profile=grade_of_any_kind.ON_PROFILE,
    conclusions=1,
)

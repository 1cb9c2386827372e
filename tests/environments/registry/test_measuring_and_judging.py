"""Which profiles may share an experiment, and which judge instead of measuring."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import pytest

from tools.environments import profile_session
from tools.environments.errors import LabError
from tools.environments.layout import REGISTRY_PATH
from tools.environments.registry import registry

DOCUMENT: dict[str, Any] = json.loads(REGISTRY_PATH.read_bytes())
PLACES = {entry["id"]: at for at, entry in enumerate(DOCUMENT["profiles"])}
HERE = "requirements/environment-profiles.json#/profiles"


def built(**fields: dict[str, Any]) -> registry.Registry:
    """The registry with fields of some profiles replaced; a profile's id is written with _ for -."""
    document = copy.deepcopy(DOCUMENT)
    for name, values in fields.items():
        document["profiles"][PLACES[name.replace("_", "-")]].update(values)
    return registry.build(document)


def refused(**fields: dict[str, Any]) -> LabError:
    with pytest.raises(LabError) as caught:
        built(**fields)
    assert caught.value.next
    return caught.value


def test_a_cpu_profile_may_run_what_several_cards_run() -> None:
    """Its ranks meet over gloo and its record says cpu_mechanism: it is no evidence for cards at all."""
    known = built(PAR_CUDA_MECHANISM={"experiments": ["collective"]}, TRAIN_CPU={"experiments": ["collective"]})
    found = {profile.id for profile in known.having("collective")}
    assert {"TRAIN-CPU", "PAR-CUDA-MECHANISM", "PAR-CUDA130-MECHANISM"} <= found


def test_one_card_still_may_not() -> None:
    error = refused(PAR_CUDA_MECHANISM={"experiments": ["collective"]}, Q_QLORA={"experiments": ["collective"]})
    assert error.where == f"{HERE}/{PLACES['PAR-CUDA-MECHANISM']}/experiments/0"
    assert "experiments of several cards apart from those of one" in error.wanted
    assert "Q-QLORA" in error.found


@pytest.mark.parametrize(
    ("fields", "where", "wanted", "found"),
    [
        (
            {"PERF_DELIVERY": {"experiments": ["collective"]}},
            "PERF-DELIVERY/experiments/0",
            "judgements, not experiments, in layer delivery",
            "collective",
        ),
        (
            {"TRAIN_CPU": {"judgements": ["delivery"]}},
            "TRAIN-CPU/judgements/0",
            "experiments, not judgements, in layer cpu",
            "delivery",
        ),
        (
            {"PERF_DELIVERY": {"judgements": ["delivery", "mixed_precision_backward"]}},
            "PERF-DELIVERY/judgements/1",
            "judgements named apart from experiments",
            "mixed_precision_backward, an experiment of",
        ),
        ({"PERF_DELIVERY": {"judgements": "delivery"}}, "PERF-DELIVERY/judgements", "a list", "'delivery'"),
        ({"PERF_DELIVERY": {"judgements": ["Delivery"]}}, "PERF-DELIVERY/judgements/0", "text such as", "'Delivery'"),
        ({"PERF_DELIVERY": {"judgements": ["a", "a"]}}, "PERF-DELIVERY/judgements/1", "each entry once", "'a' twice"),
    ],
)
def test_each_wrong_judgement_is_refused_at_its_place(
    fields: dict[str, dict[str, Any]], where: str, wanted: str, found: str
) -> None:
    error = refused(**fields)
    name, _, rest = where.partition("/")
    assert error.where == f"{HERE}/{PLACES[name]}/{rest}"
    assert wanted in error.wanted
    assert found in error.found


def test_a_session_says_what_a_profile_judges_and_runs_nothing_for_it() -> None:
    profile = built(PERF_DELIVERY={"judgements": ["performance_delivery"]}).get("PERF-DELIVERY")
    options = profile_session.parse([])
    assert profile_session.after_install(profile, options) == [
        [profile_session.PREFLIGHT, "--profile", "PERF-DELIVERY"]
    ]
    said = "PERF-DELIVERY: environment only, it judges records; judgements: performance_delivery"
    assert profile_session.closing(profile) == said
    assert "judgements: performance_delivery" in profile_session.usage(profile).splitlines()[0]
    none = dataclasses.replace(profile, judgements=())
    assert profile_session.closing(none) == "PERF-DELIVERY: environment only, it judges records; judgements: none yet"


def test_a_session_that_ran_experiments_closes_without_a_remark() -> None:
    profile = registry.load().get("TRAIN-CPU")
    assert profile_session.closing(profile) is None
    assert profile_session.usage(profile).splitlines()[0].endswith(f" {', '.join(profile.experiments)}")

"""Which profile a run is checked against: the registry says which can; environment and run mode choose."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from experiments.harness import profile_check
from experiments.training_mechanism.mixed_precision_backward.experiment import EXPERIMENT
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.registry import registry as registries

REGISTRY = registries.load()


@pytest.fixture(autouse=True)
def no_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_check, "_of_this_environment", lambda: None)


def test_the_registry_says_which_profiles_have_an_experiment() -> None:
    having = [profile.id for profile in REGISTRY.having(EXPERIMENT.name)]
    assert having == [p.id for p in REGISTRY.profiles.values() if EXPERIMENT.name in p.experiments]
    assert having[:3] == ["TRAIN-CPU", "TRAIN-CUDA-MECHANISM", "TRAIN-CUDA130-MECHANISM"]
    assert REGISTRY.having("nobody_measures_this") == ()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(None, "TRAIN-CPU"), ("cpu_mechanism", "TRAIN-CPU"), ("dry_run", "TRAIN-CPU")],
)
def test_unasked_the_only_one_that_suits_the_run_mode(mode: profile_check.RunMode | None, expected: str) -> None:
    assert profile_check.choose(EXPERIMENT, REGISTRY, None, mode).id == expected


def test_the_environment_s_own_profile_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_check, "_of_this_environment", lambda: "TRAIN-CUDA130-MECHANISM")
    assert profile_check.choose(EXPERIMENT, REGISTRY, None, "real_gpu").id == "TRAIN-CUDA130-MECHANISM"
    monkeypatch.setattr(profile_check, "_of_this_environment", lambda: "TRAIN-CPU")
    assert profile_check.choose(EXPERIMENT, REGISTRY, None, "cpu_mechanism").id == "TRAIN-CPU"


def test_a_profile_without_the_experiment_is_refused_with_those_that_have_it() -> None:
    assert profile_check.choose(EXPERIMENT, REGISTRY, "TRAIN-CUDA130-MECHANISM", None).id == "TRAIN-CUDA130-MECHANISM"
    with pytest.raises(LabError, match="TRAIN-CPU, TRAIN-CUDA-MECHANISM, TRAIN-CUDA130-MECHANISM") as refused:
        profile_check.choose(EXPERIMENT, REGISTRY, "PT-CPU", None)
    assert refused.value.code == EXIT_USAGE


@pytest.mark.parametrize("wanted", [None, "TRAIN-CPU"])
def test_a_new_folder_that_no_profile_names_says_where_to_name_it(wanted: str | None) -> None:
    bare = replace(
        REGISTRY, profiles=MappingProxyType({"TRAIN-CPU": replace(REGISTRY.get("TRAIN-CPU"), experiments=())})
    )
    with pytest.raises(LabError, match="the registry names none") as refused:
        profile_check.choose(EXPERIMENT, bare, wanted, None)
    assert "`experiments` of a profile's entry" in refused.value.next

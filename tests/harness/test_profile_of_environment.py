"""An environment's own stamp decides the profile; where it cannot, the choices are said and none is guessed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from experiments.evidence.vocabulary import RunMode
from experiments.harness import profile_check
from experiments.training_mechanism.mixed_precision_backward.experiment import EXPERIMENT
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.installed import stamp
from tools.environments.layout import ROOT
from tools.environments.registry import registry as registries
from tools.environments.registry.registry import Registry

REGISTRY = registries.load()
STRANGER = "INF-VLLM-MTP"
NAMED = "TRAIN-CUDA-MECHANISM or TRAIN-CUDA130-MECHANISM"


def stamped(prefix: Path, profile: str) -> Path:
    """A folder that says it is the environment of `profile`, as the installer leaves one."""
    prefix.mkdir(exist_ok=True)
    return stamp.write(stamp.Stamp(profile, "sha256:0", str(prefix), {}, None, "venv", {}, {}))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The running interpreter's environment, without a stamp yet."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


def chosen(mode: RunMode | None, registry: Registry = REGISTRY, wanted: str | None = None) -> str:
    return profile_check.choose(EXPERIMENT, registry, wanted, mode).id


@pytest.mark.parametrize("mode", [None, "real_gpu", "cpu_mechanism", "dry_run"])
@pytest.mark.parametrize("profile", ["TRAIN-CUDA-MECHANISM", "TRAIN-CUDA130-MECHANISM"])
def test_the_stamp_decides(here: Path, profile: str, mode: RunMode | None) -> None:
    stamped(here, profile)
    assert chosen(mode) == profile


@pytest.mark.parametrize("mode", [None, "real_gpu", "cpu_mechanism"])
@pytest.mark.parametrize("profile", [STRANGER, "INF-CUDA-MECHANISM", "NOT-IN-THIS-REGISTRY"])
def test_the_environment_of_a_profile_without_the_experiment_is_refused(
    here: Path, profile: str, mode: RunMode | None
) -> None:
    stamped(here, profile)
    with pytest.raises(LabError) as refused:
        chosen(mode)
    assert refused.value.code == EXIT_USAGE
    assert refused.value.found == f"the environment of {profile}"
    assert NAMED in refused.value.next
    assert ("TRAIN-CPU" in refused.value.next) == (mode != "real_gpu")


def test_a_card_is_not_looked_for_in_another_environment(here: Path) -> None:
    stamped(here, "TRAIN-CPU")
    assert chosen(None) == chosen("cpu_mechanism") == "TRAIN-CPU"
    with pytest.raises(LabError, match=r"wanted=.*TRAIN-CUDA-MECHANISM|TRAIN-CUDA-MECHANISM") as refused:
        chosen("real_gpu")
    assert refused.value.found == "the environment of TRAIN-CPU"
    assert refused.value.next == f"in the environment of one of them, or give --profile {NAMED}"


def test_without_a_stamp_only_what_leaves_no_choice_is_taken(here: Path) -> None:
    assert chosen(None) == chosen("cpu_mechanism") == chosen("dry_run") == "TRAIN-CPU"
    with pytest.raises(LabError) as refused:
        chosen("real_gpu")
    assert "no stamp" in refused.value.found
    assert refused.value.next.endswith(f"give --profile {NAMED}")
    assert chosen("real_gpu", wanted="TRAIN-CUDA130-MECHANISM") == "TRAIN-CUDA130-MECHANISM"


def test_two_cpu_profiles_are_a_choice_too(here: Path) -> None:
    twice = replace(
        REGISTRY,
        profiles=MappingProxyType(
            {**REGISTRY.profiles, "PT-CPU": replace(REGISTRY.get("PT-CPU"), experiments=(EXPERIMENT.name,))}
        ),
    )
    for mode in (None, "cpu_mechanism", "dry_run"):
        with pytest.raises(LabError, match="TRAIN-CPU, PT-CPU"):
            chosen(mode, twice)
    stamped(here, "PT-CPU")
    assert chosen(None, twice) == "PT-CPU"


def test_a_profile_of_another_layer_than_cuda_is_taken_where_it_is_at_home(here: Path) -> None:
    """What counts is that it asks for a card."""
    serving = replace(REGISTRY.get(STRANGER), experiments=(EXPERIMENT.name,))
    assert serving.layer != "cuda"
    assert serving.gpu is not None
    with_it = replace(REGISTRY, profiles=MappingProxyType({**REGISTRY.profiles, STRANGER: serving}))
    stamped(here, STRANGER)
    assert chosen("real_gpu", with_it) == STRANGER


def test_a_plan_may_be_made_anywhere(here: Path) -> None:
    stamped(here, STRANGER)
    assert chosen("dry_run") == "TRAIN-CPU"


def test_the_command_line_in_such_an_environment(tmp_path: Path) -> None:
    """A real environment, with the stamp of another profile: nothing is begun, and both choices are named."""
    home = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    stamped(home, STRANGER)
    command = [str(home / "bin" / "python"), "-m", "experiments", "run", EXPERIMENT.name, "--run-mode", "real_gpu"]
    done = subprocess.run(
        [*command, "--run-label", "refused"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "TMLAB_RUNS": str(tmp_path / "runs"), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == EXIT_USAGE, done.stderr
    assert f"found  the environment of {STRANGER}" in done.stderr
    assert f"give --profile {NAMED}" in done.stderr
    assert not (tmp_path / "runs").exists()

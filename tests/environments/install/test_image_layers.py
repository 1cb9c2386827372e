"""The layers of an image: complete, runnable, without secrets, and byte for byte independent of what is not theirs."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.environments.errors import LabError
from tools.environments.install import image_layers
from tools.environments.install.planning import InstallRequest
from tools.environments.layout import ROOT
from tools.environments.model import InstallPlan
from tools.environments.registry import registry
from tools.environments.sources.index_settings import IndexSettings

ENVIRON = {"PATH": "/usr/bin:/bin", "PYTHONPATH": "/ros", "PIP_USER": "1"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that a plan reads."""
    for name in ("requirements", "cnb"):
        shutil.copytree(ROOT / name, tmp_path / "checkout" / name)
    return tmp_path / "checkout"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with a CPU torch for this Python, and a pip: names are enough to plan."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    (folder / f"torch-2.12.0+cpu-{tag}-{tag}-manylinux_2_28_{os.uname().machine}.whl").touch()
    (folder / "pip-99.0-py3-none-any.whl").touch()
    return folder


def request(profile: str, **changes: object) -> InstallRequest:
    return dataclasses.replace(InstallRequest(profile, backend="venv", target="image"), **changes)  # type: ignore[arg-type]


def written(profile: str, target: Path, root: Path = ROOT, **changes: object) -> tuple[InstallPlan, dict[str, bytes]]:
    plan = image_layers.write(request(profile, **changes), ENVIRON, target, root)
    files = {path.relative_to(target).as_posix(): path.read_bytes() for path in target.rglob("*") if path.is_file()}
    return plan, files


def test_torch_is_a_layer_and_the_rest_another(tmp_path: Path, wheels: Path) -> None:
    settings = IndexSettings(find_links=(str(wheels),))
    plan, files = written("TRAIN-CPU", tmp_path / "plan", settings=settings)
    assert [step.id for step in image_layers.layers(plan)["torch"]] == ["create", "pip", "torch"]
    assert [step.id for step in image_layers.layers(plan)["packages"]] == ["training-mechanism"]
    torch, packages = files["torch/.layers/torch.sh"].decode(), files["packages/.layers/packages.sh"].decode()
    assert "torch==2.12.0+cpu" in torch
    assert "-r requirements/training-mechanism.txt" in packages
    assert files["torch/.envs/.install/llm_train_cpu/torch-pin.txt"] == b"torch==2.12.0+cpu\n"
    assert "--no-compile" not in torch + packages  # who uses the image cannot write bytecode later
    assert "-u PYTHONPATH" in torch
    assert "-u PIP_USER" in torch
    assert "PIP_CERT" in torch.partition("# create")[0]
    assert os.readlink(tmp_path / "plan" / "torch" / ".envs" / "current") == "llm_train_cpu"


def test_a_layer_holds_every_file_that_its_commands_read_and_no_other_profile_s(tmp_path: Path, wheels: Path) -> None:
    _, files = written("TRAIN-CPU", tmp_path / "plan", settings=IndexSettings(find_links=(str(wheels),)))
    names = {name for name in files if "/requirements/" in name}
    assert names == {
        "torch/requirements/constraints/torch-mechanism.txt",
        "packages/requirements/constraints/torch-mechanism.txt",
        *(
            f"packages/requirements/{name}.txt"
            for name in ("training-mechanism", "notebook", "measuring", "model-stack")
        ),
    }
    assert "torch/.envs/.install/llm_train_cpu/pip-wheel/pip-99.0-py3-none-any.whl" in files


def test_what_a_layer_does_not_install_does_not_change_it(tmp_path: Path, checkout: Path, wheels: Path) -> None:
    settings = IndexSettings(find_links=(str(wheels),))
    _, before = written("TRAIN-CPU", tmp_path / "a", checkout, settings=settings)
    text = (checkout / "requirements" / "environment-profiles.json").read_text(encoding="utf-8")
    other = text.replace('"Exercises and tests of Parts 00-02 on plain CPU PyTorch."', '"Other words."')
    assert other != text
    (checkout / "requirements" / "environment-profiles.json").write_text(other, encoding="utf-8")
    with open(checkout / "requirements" / "notebook.txt", "a", encoding="utf-8") as file:
        file.write("# a remark\n\n")
    _, after = written("TRAIN-CPU", tmp_path / "b", checkout, settings=settings)
    assert after == before
    with open(checkout / "requirements" / "notebook.txt", "a", encoding="utf-8") as file:
        file.write("one-more\n")
    _, after = written("TRAIN-CPU", tmp_path / "c", checkout, settings=settings)
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {"packages/requirements/notebook.txt"}


def test_without_a_wheel_folder_the_pin_of_the_torch_file_is_taken_and_no_index_is_asked(tmp_path: Path) -> None:
    for profile, torch in (("TRAIN-CUDA-MECHANISM", "2.11.0+cu128"), ("INF-VLLM-011-CU128", "2.8.0+cu128")):
        plan, files = written(profile, tmp_path / profile)
        assert plan.torch == torch
        script = files["torch/.layers/torch.sh"].decode()
        assert f"torch=={torch}" in script
        assert "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cu128" in script


def test_a_profile_without_torch_has_its_environment_in_the_first_layer(tmp_path: Path) -> None:
    plan, files = written("PERF-DELIVERY", tmp_path / "plan")
    assert [step.id for step in image_layers.layers(plan)["torch"]] == ["create", "pip"]
    assert "-r requirements/delivery.txt" in files["packages/.layers/packages.sh"].decode()


@pytest.mark.parametrize("backend", ["venv", "uv"])
def test_the_scripts_are_plain_shell(tmp_path: Path, backend: str) -> None:
    _, files = written("TRAIN-CPU", tmp_path / "plan", backend=backend)
    for name in ("torch/.layers/torch.sh", "packages/.layers/packages.sh"):
        shell = shutil.which("dash") or "/bin/sh"
        assert subprocess.run([shell, "-n", str(tmp_path / "plan" / name)], check=False).returncode == 0
        assert (".dist-info" in files[name].decode()) == (backend == "venv" and name.startswith("torch"))


def test_conda_creates_from_its_file_and_the_link_leads_to_where_it_will_be(tmp_path: Path) -> None:
    for name in ("bin", "envs"):
        (tmp_path / name).mkdir()
    conda = tmp_path / "bin" / "conda"
    conda.write_text(f'#!/bin/sh\necho \'{{"envs": [], "envs_dirs": ["{tmp_path}/envs"]}}\'\n')
    conda.chmod(0o755)
    environ = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    for profile, file in (("TRAIN-CPU", "cnb/environment.yml"), ("TRAIN-CUDA-MECHANISM", "cnb/environment-gpu.yml")):
        target = tmp_path / profile
        plan = image_layers.write(request(profile, backend="auto"), environ, target)
        assert plan.backend == "conda"
        script = (target / "torch" / ".layers" / "torch.sh").read_text(encoding="utf-8")
        assert f"env create -n {plan.environment} -f {file}" in script
        assert (target / "torch" / file).read_bytes() == (ROOT / file).read_bytes()
        envs = target / "torch" / ".envs"
        assert os.readlink(envs / "current") == plan.environment
        assert os.readlink(envs / plan.environment) == str(tmp_path / "envs" / plan.environment)


@pytest.mark.parametrize(
    "settings",
    [
        IndexSettings(index_url="https://me:secret@mirror/simple"),
        IndexSettings(torch_index="https://me:secret@mirror/whl"),
        IndexSettings(find_links=("https://me:secret@mirror/wheels",)),
    ],
)
def test_an_address_with_a_login_goes_into_no_layer(tmp_path: Path, settings: IndexSettings) -> None:
    with pytest.raises(LabError) as refused:
        written("TRAIN-CPU", tmp_path / "plan", settings=settings)
    assert "secret" not in str(refused.value)
    assert not (tmp_path / "plan").exists()


def test_a_folder_that_refuses_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="file"):
        written("TRAIN-CPU", tmp_path / "file" / "plan")


def test_the_command_line_writes_them(tmp_path: Path, wheels: Path) -> None:
    command = [sys.executable, "tools/install_environment_profile.py", "--profile", "TRAIN-CPU", "--target", "image"]
    command += ["--backend", "venv", "--find-links", str(wheels), "--layers", str(tmp_path / "plan")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"TRAIN-CPU · torch, packages written to {tmp_path}/plan\n"
    assert (tmp_path / "plan" / "torch" / ".layers" / "torch.sh").is_file()


def test_every_profile_has_its_layers(tmp_path: Path) -> None:
    for profile in registry.load(ROOT).profiles.values():
        if f"{sys.version_info[0]}.{sys.version_info[1]}" in profile.python:
            plan, _ = written(profile.id, tmp_path / profile.id)
            assert [*image_layers.layers(plan)["packages"]]

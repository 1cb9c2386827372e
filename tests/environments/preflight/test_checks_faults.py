"""Faults 26 to 31 that others shipped, each provoked for real and killed by a named check.

The table is data/environment_faults.json. The GPU stands behind its door: a made-up `nvidia-smi` on PATH answers for
the driver, and a stand-in torch for the card.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand_made_environment import Environment, check, goes_elsewhere, make, not_ok, torch_files

from tools.environments.installed import registration, stamp
from tools.environments.machine import gpu_query
from tools.environments.preflight.checks.check_catalogue import CHECKS
from tools.environments.registry import registry, requirement_text

REGISTRY = registry.load()
CPU = REGISTRY.get("TRAIN-CPU")
CUDA = REGISTRY.get("TRAIN-CUDA-MECHANISM")
CU128 = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120"
FAULTS = json.loads((Path(__file__).parents[2] / "data" / "environment_faults.json").read_text())["faults"]

without_nvml = pytest.mark.skipif(
    gpu_query.load() is not None, reason="this machine's own driver answers before a made-up nvidia-smi can"
)


@pytest.fixture
def own(tmp_path: Path) -> Environment:
    """A TRAIN-CPU environment on profile, to be broken."""
    return make(tmp_path, CPU, torch_files("2.13.0+cpu", None), "2.13.0+cpu")


def cuda(tmp_path: Path, version: str = "2.11.0+cu128", number: str | None = "12.8", **torch: Any) -> Environment:
    """A TRAIN-CUDA-MECHANISM environment; its torch sees one card of capability 9.0 unless told otherwise."""
    torch = {"cards": ((9, 0),), "bf16": True, "architectures": CU128, **torch}
    return make(tmp_path, CUDA, torch_files(version, number, **torch), version)


def driver(environment: Environment, answer: str, code: int = 0) -> dict[str, str]:
    """The variables under which `nvidia-smi` answers this."""
    folder = environment.home / "driver"
    folder.mkdir()
    script = folder / "nvidia-smi"
    script.write_text(f"#!/bin/sh\necho '{answer}'\nexit {code}\n")
    script.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


H100 = "NVIDIA H100, 81559, 9.0, GPU-1, 570.86.10"


def test_the_table_names_real_tests_and_real_checks() -> None:
    assert {fault["number"] for fault in FAULTS} == {26, 27, 28, 29, 30, 31}
    for fault in FAULTS:
        assert fault["check"] in CHECKS
        file, _, name = fault["test"].partition("::")
        assert f"def {name}(" in (Path(__file__).parents[2] / file).read_text()
        assert set(fault) == {"number", "fault", "fault_zh", "check", "test"}


def stamped(own: Environment, **changes: Any) -> stamp.Stamp:
    """A stamp as the installer would have written it, but for `changes`."""
    made = stamp.Stamp(
        profile="TRAIN-CPU",
        requirement_digest=requirement_text.digest(CPU),
        prefix=str(own.prefix),
        interpreter={"version": "3.11.7", "base": sys.executable},
        torch="2.13.0+cpu",
        backend="venv",
        index={},
        packages=stamp.installed(own.prefix),
    )
    made = replace(made, **changes)
    stamp.write(made)
    return made


def test_26_current_stamp_is_ok(own: Environment) -> None:
    stamped(own)
    report = own.report("TRAIN-CPU")
    assert check(report, "environment.stamp")["status"] == "ok"
    assert report["status"] == "ok"


def test_26_requirements_changed_since_the_environment_was_made(own: Environment) -> None:
    stamped(own, requirement_digest="sha256:" + "0" * 64)
    report = own.report("TRAIN-CPU")
    assert not_ok(report) == {"environment.stamp": "blocked"}
    assert "asks for other packages" in check(report, "environment.stamp")["found"]
    assert goes_elsewhere(check(report, "environment.stamp")["repair"], CPU)


def test_26_environment_of_another_profile(own: Environment) -> None:
    stamped(own, profile="PT-CPU")
    assert check(own.report("TRAIN-CPU"), "environment.stamp")["found"] == "it belongs to PT-CPU"


def test_26_package_changed_by_hand(own: Environment) -> None:
    stamped(own)
    own.install("rich", "14.9")
    assert "rich" in check(own.report("TRAIN-CPU"), "environment.stamp")["found"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"format": 99}', b"[" * 100000])
def test_26_torn_stamp(own: Environment, content: bytes) -> None:
    (own.prefix / stamp.FILE_NAME).write_bytes(content)
    report = own.report("TRAIN-CPU", "--quick")
    assert not_ok(report) == {"environment.stamp": "blocked"}
    assert check(report, "environment.stamp")["repair"]


@pytest.mark.parametrize("quick", [(), ("--quick",)])
def test_27_later_requirement_replaced_torch(own: Environment, quick: tuple[str, ...]) -> None:
    stamped(own)
    own.install("torch", "2.14.0", torch_files("2.14.0+cu130", "13.0"))
    found = check(own.report("TRAIN-CPU", *quick), "torch.build")
    assert (found["status"], found["found"].startswith("2.14.0+cu130 (it was 2.13.0+cpu")) == ("blocked", True)
    assert goes_elsewhere(found["repair"], CPU)


@pytest.mark.parametrize("quick", [(), ("--quick",)])
def test_27_cuda_build_whose_metadata_hides_it(tmp_path: Path, quick: tuple[str, ...]) -> None:
    """The wheel on PyPI says 2.11.0 in its metadata and is the CUDA 13 build."""
    own = make(tmp_path, CPU, torch_files("2.13.0+cu130", "13.0"), "2.13.0")
    report = own.report("TRAIN-CPU", *quick)
    assert {"torch.build": "blocked", "torch.cuda": "blocked"}.items() <= not_ok(report).items()


def test_27_cpu_build_on_a_gpu_job(tmp_path: Path) -> None:
    own = cuda(tmp_path, "2.11.0+cpu", None, cards=(), architectures="")
    found = check(own.report("TRAIN-CUDA-MECHANISM"), "torch.build")
    assert (found["status"], found["wanted"]) == ("blocked", "2.11.0+cu128")
    assert "a preset package index put it there" in found["found"]


@without_nvml
def test_27_other_cuda_build_names_the_profile_it_belongs_to(tmp_path: Path) -> None:
    own = cuda(tmp_path, "2.11.0+cu130", "13.0")
    environ = driver(own, H100.replace("570.86.10", "580.65.06"))
    found = check(own.report("TRAIN-CUDA-MECHANISM", **environ), "torch.build")
    assert found["status"] == "blocked"
    assert goes_elsewhere(found["repair"], CUDA)
    assert "driver 580.65.06 can do it" in found["repair"]
    assert "--profile TRAIN-CUDA130-MECHANISM" in found["repair"]


def kernel(own: Environment, python: str) -> None:
    """A kernel named after the environment that starts `python`."""
    folder = own.home / ".local" / "share" / "jupyter" / "kernels" / own.prefix.name
    folder.mkdir(parents=True)
    spec = {"argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))


def test_28_kernel_whose_interpreter_vanished(own: Environment) -> None:
    kernel(own, str(own.home / "gone" / "bin" / "python"))
    found = check(own.report("TRAIN-CPU", "--notebook"), "notebook.kernel")
    assert (found["status"], "gone or does not run" in found["found"]) == ("blocked", True)
    assert "-m ipykernel install --user" in found["repair"]


def test_28_kernel_of_another_interpreter(own: Environment) -> None:
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(own.home / "other")], check=True)
    kernel(own, str(own.home / "other" / "bin" / "python"))
    found = check(own.report("TRAIN-CPU", "--notebook"), "notebook.kernel")
    assert (found["status"], str(own.home / "other") in found["found"]) == ("blocked", True)


def foreign(folder: Path) -> Path:
    """A folder with a transformers of its own."""
    (folder / "transformers").mkdir(parents=True)
    (folder / "transformers" / "__init__.py").write_text("x = 2\n")
    return folder


def test_29_pythonpath_wins_over_the_environment(own: Environment) -> None:
    registration.remove(own.site)  # what is registered would take PYTHONPATH off
    ros = foreign(own.home / "opt" / "ros")
    report = own.report("TRAIN-CPU", PYTHONPATH=str(ros))
    assert not_ok(report) == {"packages.origin": "blocked", "python.path": "warning"}
    assert str(ros / "transformers") in check(report, "packages.origin")["found"]
    assert check(report, "packages.origin")["repair"] == "unset PYTHONPATH"


def test_29_pythonpath_is_taken_off_by_the_registration_and_told(own: Environment) -> None:
    ros = foreign(own.home / "ros")
    report = own.report("TRAIN-CPU", PYTHONPATH=str(ros))
    assert not_ok(report) == {"python.path": "warning"}
    assert f"taken off at start: {ros}" in check(report, "python.path")["found"]


def test_29_isolated_run_still_tells_of_pythonpath(own: Environment) -> None:
    registration.remove(own.site)
    report = own.report("TRAIN-CPU", flags=("-I",), PYTHONPATH="/opt/ros/humble/lib/python3.10/site-packages")
    assert not_ok(report) == {"python.path": "warning"}
    assert "(ROS)" in check(report, "python.path")["found"]


def test_29_user_site_wins_over_the_environment(own: Environment) -> None:
    """The environment's own transformers is gone; the user's would stand in for it without a word."""
    own.remove("transformers", "transformers")
    config = own.prefix / "pyvenv.cfg"
    config.write_text(config.read_text().replace("site-packages = false", "site-packages = true"))
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    user = foreign(own.home / ".local" / "lib" / version / "site-packages")
    report = own.report("TRAIN-CPU")
    assert check(report, "python.user-site")["status"] == "warning"
    found = check(report, "packages.origin")
    assert (found["status"], found["repair"]) == ("blocked", "export PYTHONNOUSERSITE=1")
    assert str(user) in found["found"]
    cured = own.report("TRAIN-CPU", PYTHONNOUSERSITE="1")
    assert check(cured, "packages.origin")["status"] == check(cured, "python.user-site")["status"] == "ok"


@without_nvml
def test_30_healthy_card_is_ok_throughout(tmp_path: Path) -> None:
    own = cuda(tmp_path)
    report = own.report("TRAIN-CUDA-MECHANISM", **driver(own, H100))
    assert not_ok(report).keys() <= {"host.memory"}
    assert check(report, "torch.architectures")["status"] == check(report, "operation.bfloat16")["status"] == "ok"


@without_nvml
def test_30_build_without_code_for_the_card(tmp_path: Path) -> None:
    """The card is there and CUDA "available"; only the first kernel would fail."""
    own = cuda(tmp_path, cards=((7, 0),), bf16=False)
    report = own.report("TRAIN-CUDA-MECHANISM", **driver(own, H100.replace("H100", "V100").replace("9.0", "7.0")))
    assert check(report, "torch.device")["status"] == "ok"
    found = check(report, "torch.architectures")
    assert (found["status"], found["found"]) == ("blocked", CU128)
    assert "V100" in found["wanted"]


@without_nvml
def test_30_first_kernel_fails(tmp_path: Path) -> None:
    words = "CUDA error: no kernel image is available for execution on the device"
    own = cuda(tmp_path, fails={"float32": words, "float16": words})
    report = own.report("TRAIN-CUDA-MECHANISM", **driver(own, H100))
    assert check(report, "torch.device")["status"] == "ok"
    found = check(report, "operation.float16")
    assert (found["status"], words in found["found"]) == ("blocked", True)
    assert "no code for this card" in found["repair"]


@without_nvml
def test_30_driver_and_library_differ(tmp_path: Path) -> None:
    own = cuda(tmp_path, why="CUDA driver initialization failed")
    words = "Failed to initialize NVML: Driver/library version mismatch"
    report = own.report("TRAIN-CUDA-MECHANISM", **driver(own, words, 18))
    found = check(report, "gpu.count")
    assert (found["status"], words in found["found"]) == ("blocked", True)
    assert found["repair"].startswith("reboot")


@without_nvml
def test_30_torch_cannot_start_cuda_though_the_driver_answers(tmp_path: Path) -> None:
    own = cuda(tmp_path, why="Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported driver")
    report = own.report("TRAIN-CUDA-MECHANISM", **driver(own, H100))
    found = check(report, "torch.device")
    assert (found["status"], "803" in found["found"], found["repair"].startswith("reboot")) == ("blocked", True, True)
    assert check(report, "operation.float16")["status"] == "skipped"


@without_nvml
def test_30_hidden_cards(tmp_path: Path) -> None:
    own = cuda(tmp_path, cards=())
    report = own.report("TRAIN-CUDA-MECHANISM", CUDA_VISIBLE_DEVICES="", **driver(own, H100))
    assert check(report, "torch.device")["repair"] == "unset CUDA_VISIBLE_DEVICES"


def test_31_report_without_pip_and_without_torch(tmp_path: Path) -> None:
    prefix = tmp_path / "bare"
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(prefix)], check=True)
    bare = Environment(prefix, tmp_path)
    assert not (bare.site / "pip").exists()
    report = bare.report("TRAIN-CPU", flags=("-I",))
    assert check(report, "torch.import")["found"] == "no torch"
    assert check(report, "packages.dependencies")["status"] == "ok"


def test_31_banner_does_not_come_before_the_json(own: Environment) -> None:
    banner = "import os\nprint('Welcome!')\nos.system('echo Welcome!')\nos.write(2, b'Welcome!')\nx = 1\n"
    for name in ("transformers", "accelerate"):
        (own.site / name / "__init__.py").write_text(banner)
    answer = own.run("--profile", "TRAIN-CPU", "--json")
    assert answer.stdout.startswith("{")
    assert check(json.loads(answer.stdout), "packages.import")["status"] == "ok"
    assert "Welcome!" not in answer.stdout + answer.stderr


def test_31_torch_that_dies_on_import(tmp_path: Path) -> None:
    body = "print('loading')\nimport os\nos.abort()\n"
    own = make(tmp_path, CPU, torch_files("2.13.0+cpu", None, body=body), "2.13.0+cpu")
    assert check(own.report("TRAIN-CPU"), "torch.import")["found"] == "killed by SIGABRT"

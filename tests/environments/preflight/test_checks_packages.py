"""The package, path and stamp families on made-up facts: each rule with one environment that breaks it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_checks_judged import CPU, CUDA, answers, healthy, judged

from tools.environments.errors import LabError
from tools.environments.installed.package_facts import Distribution, PackageFacts, Problem
from tools.environments.machine.image_facts import ImageFacts
from tools.environments.machine.interpreter_facts import ForeignEntry
from tools.environments.model import Check
from tools.environments.preflight.checks import package_consistency
from tools.environments.preflight.child_probe import ProbeOutcome
from tools.environments.preflight.preflight_facts import PreflightFacts, StampFacts
from tools.environments.registry.pep508 import Requirement
from tools.environments.registry.requirement_text import RequirementLine

MARKERS = {"python_version": "3.12", "sys_platform": "linux"}


def installed(**versions: str) -> PackageFacts:
    """These distributions, with no requirements of their own."""
    return PackageFacts({name: distribution(name, version) for name, version in versions.items()})


def distribution(name: str, version: str, *requires: str) -> Distribution:
    return Distribution(name, version, "/env/lib", f"/env/lib/{name}-{version}.dist-info", requires, "pip")


def lines(*texts: str, file: str = "x.txt", kind: Any = "requirement") -> tuple[RequirementLine, ...]:
    return tuple(RequirementLine(Requirement.parse(text), file, number, kind) for number, text in enumerate(texts, 1))


def facts(**changes: Any) -> PreflightFacts:
    return replace(healthy(CPU), markers=MARKERS, **changes)


def blocked(found: Check, words: str) -> None:
    assert found.status == "blocked"
    assert words in found.found
    assert found.repair


@pytest.mark.parametrize(
    ("versions", "asked", "words"),
    [
        ({"rich": "12.0"}, lines("rich>=13"), "rich 12.0 (wanted >=13, x.txt:1)"),
        ({}, lines("torch==1", "rich>=13"), "not installed: rich"),
        ({"rich": "odd"}, lines("rich>=13"), "rich odd"),
        ({"rich": "15"}, lines("rich<15", kind="constraint"), "rich 15"),
    ],
)
def test_versions_that_do_not_hold(versions: dict[str, str], asked: tuple[RequirementLine, ...], words: str) -> None:
    blocked(judged(facts(packages=installed(**versions), lines=asked), CPU)["packages.versions"], words)


@pytest.mark.parametrize(
    ("versions", "asked", "count"),
    [
        ({"rich": "13.9.1"}, lines("rich>=13"), 1),
        ({"rich": "14.0rc1"}, lines("rich>=13"), 1),
        ({}, lines("rich<15", kind="constraint"), 0),
        ({}, lines("rich ; sys_platform == 'win32'"), 0),
        ({}, lines("jupyterlab>=4", file="notebook.txt"), 0),
        ({"torch": "9"}, lines("torch==1"), 0),
    ],
)
def test_versions_that_hold_or_do_not_apply(versions: dict[str, str], asked: Any, count: int) -> None:
    found = judged(facts(packages=installed(**versions), lines=asked), CPU)["packages.versions"]
    assert (found.status, found.found) == ("ok", f"{count} hold")


def test_a_marker_that_cannot_be_decided_counts() -> None:
    asked = lines("rich ; python_version ~= '3.12'", "odd ; implementation_name == 'x'")
    found = judged(facts(packages=installed(rich="1"), lines=asked), CPU)["packages.versions"]
    blocked(found, "not installed: odd")


def test_notebook_packages_are_judged_apart() -> None:
    asked = lines("jupyterlab>=4", file="notebook.txt")
    there = (Check("notebook.registration", "ok", "", ""), Check("notebook.kernel", "ok", "", ""))
    checks = judged(facts(lines=asked, notebook=there), CPU)
    assert checks["packages.versions"].status == "ok"
    blocked(checks["notebook.packages"], "jupyterlab")


def test_metadata_required_and_forbidden() -> None:
    problem = Problem("/env/lib/x.dist-info", "has no METADATA file")
    blocked(
        judged(facts(packages=PackageFacts({}, (), (problem,))), CPU)["packages.metadata"],
        "x.dist-info has no METADATA",
    )
    gone = {**healthy(CPU).modules, "rich": None, "torch": None}
    checks = judged(facts(modules=gone), CPU)
    blocked(checks["packages.required"], "no torch, rich")
    blocked(checks["torch.import"], "no torch")
    assert checks["host.disk"].wanted.startswith("1.") or "GiB free" in checks["host.disk"].wanted
    blocked(judged(facts(packages=installed(vllm="0.11.0")), CPU)["packages.forbidden"], "vllm 0.11.0")


@pytest.mark.parametrize(
    "changes",
    [
        {"stamp": StampFacts("PT-CPU")},
        {"stamp": StampFacts("TRAIN-CPU", None, ("it was moved",))},
        {"stamp": StampFacts(None, torn=LabError("a", "b", "c"))},
        {"torch_on_disk": ("2.13.0+cu130", "13.0")},
        {"torch_on_disk": ("odd", None)},
        {"interpreter": replace(healthy(CPU).interpreter, kind="base")},
        {"interpreter": replace(healthy(CPU).interpreter, kind="conda-base")},
        {"host": replace(healthy(CPU).host, python="3.13.0", container="docker")},
    ],
)
def test_nothing_is_installed_over_what_is_not_this_profiles(changes: dict[str, Any]) -> None:
    missing = lines("rich>=13")
    assert judged(facts(lines=missing), CPU)["packages.versions"].repair.startswith("finish the install: ")
    assert judged(facts(lines=missing, torch_on_disk=None), CPU)["packages.versions"].repair.startswith("finish the")
    found = judged(facts(lines=missing, **changes), CPU)["packages.versions"]
    assert found.repair.startswith("create a new environment: ")


def test_a_finished_environment_elsewhere_is_to_be_used() -> None:
    found = judged(facts(modules={}, torch_on_disk=("1.0", None), ready="/lab/.envs/llm train"), CPU)
    assert found["packages.required"].repair == (
        "use the environment that is there: source '/lab/.envs/llm train/bin/activate'"
    )


def test_an_unfinished_environment_asks_for_the_disk_it_still_needs() -> None:
    whole = judged(facts(), CPU)["host.disk"].wanted
    assert whole.startswith("0.5 GiB")
    gone = judged(facts(modules={}), CPU)["host.disk"].wanted
    assert gone.startswith(f"{CPU.host.disk_gib:g} GiB")


@pytest.mark.parametrize(
    ("source", "repair"),
    [
        ("PYTHONPATH", "unset PYTHONPATH"),
        ("user site", "export PYTHONNOUSERSITE=1"),
        ("system Python", "create a new environment"),
        ("a .pth file or the program", "create a new environment"),
    ],
)
def test_module_from_elsewhere(source: Any, repair: str) -> None:
    python = replace(healthy(CPU).interpreter, foreign=(ForeignEntry("/other", source),))
    modules = {**healthy(CPU).modules, "rich": "/other/rich/__init__.py", "numpy": "/others/numpy.py"}
    found = judged(facts(interpreter=python, modules=modules), CPU)["packages.origin"]
    blocked(found, "rich from /other/rich/__init__.py")
    assert "numpy" not in found.found
    assert repair in found.repair


def path_of(**changes: Any) -> Check:
    return judged(facts(interpreter=replace(healthy(CPU).interpreter, **changes)), CPU)["python.path"]


def test_path_with_other_folders() -> None:
    ros = "/opt/ros/humble/lib"
    found = path_of(foreign=(ForeignEntry(ros, "PYTHONPATH"),), pythonpath=(ros,))
    assert (found.status, found.found) == ("warning", f"PYTHONPATH adds {ros} (ROS)")
    assert path_of(pythonpath=("/x",)).found == "PYTHONPATH adds /x"
    assert path_of(stripped=(ros,), pythonpath=()).found == f"PYTHONPATH was set and taken off at start: {ros}"
    system = path_of(foreign=(ForeignEntry("/usr/lib/python3", "system Python"),))
    assert (system.status, system.found) == ("warning", "system Python adds /usr/lib/python3")
    assert "--system-site-packages" in system.repair


def test_user_site_of_a_plain_python() -> None:
    python = replace(healthy(CPU).interpreter, kind="base", user_site="/srv/user/site")
    assert judged(facts(interpreter=python), CPU)["python.user-site"].repair == "export PYTHONNOUSERSITE=1"


@pytest.mark.parametrize(
    ("requires", "words"),
    [
        ("absent>=1", "a 1 needs absent, which is not installed"),
        ("b>2", "a 1 needs b>2, installed is 2"),
        ("b>2 ; python_version > '3' or extra == 'x'", "a 1 needs b>2, installed is 2"),
        ("???", "a 1 asks for something unreadable"),
    ],
)
def test_conflicts(requires: str, words: str) -> None:
    packages = PackageFacts({"a": distribution("a", "1", requires, requires), "b": distribution("b", "2")})
    blocked(judged(facts(packages=packages), CPU)["packages.dependencies"], words)


@pytest.mark.parametrize("requires", ["b>=2", "absent ; extra == 'x'", "absent ; sys_platform == 'win32'", "B[extra]"])
def test_no_conflicts(requires: str) -> None:
    packages = PackageFacts({"a": distribution("a", "1", requires), "b": distribution("b", "2")})
    assert package_consistency.conflicts(facts(packages=packages)) == []


@pytest.mark.parametrize(
    ("stamp", "status", "words"),
    [
        (StampFacts(None), "skipped", "no stamp"),
        (StampFacts("TRAIN-CPU"), "ok", "current"),
        (
            StampFacts("TRAIN-CPU", None, ("it was moved", "its interpreter is gone")),
            "blocked",
            "moved; its interpreter",
        ),
        (StampFacts(None, torn=LabError("a stamp", "half of one", "do this")), "blocked", "half of one"),
    ],
)
def test_stamp(stamp: StampFacts, status: str, words: str) -> None:
    found = judged(facts(stamp=stamp), CPU)["environment.stamp"]
    assert (found.status, words in found.found) == (status, True)
    assert bool(found.repair) == (status == "blocked")


def test_image() -> None:
    assert judged(facts(image=ImageFacts("PT-CPU", None, None)), CPU)["container.image"].status == "blocked"
    assert judged(facts(image=ImageFacts("TRAIN-CPU", "sha256:1", None)), CPU)["container.image"].status == "warning"


def test_quick_skips_what_is_imported_or_swept() -> None:
    checks = judged(replace(healthy(), probes=None, files=None))
    for name in (
        "torch.import",
        "packages.import",
        "packages.files",
        "torch.device",
        "torch.architectures",
        "operation.float16",
    ):
        assert checks[name].status == "skipped", name
    assert checks["torch.build"].status == "ok"


def test_failing_import_and_silent_torch() -> None:
    failed = {
        "import rich": ProbeOutcome(False, "ValueError: x", {}),
        "import torch": ProbeOutcome(False, "OSError: y", {}),
    }
    unsaid = {
        "torch-facts": ProbeOutcome(False, "AttributeError", {}),
        "torch-facts cuda": ProbeOutcome(False, "AttributeError", {}),
    }
    checks = judged(facts(probes=answers(CPU, failed)), CPU)
    blocked(checks["packages.import"], "rich: ValueError: x")
    blocked(checks["torch.import"], "OSError: y")
    silent = facts(probes=answers(CPU, unsaid), torch_on_disk=None)
    blocked(judged(silent, CPU)["torch.build"], "no torch that says what it is")
    assert {checks[f"operation.{name}"].status for name in ("float32", "float16", "bfloat16")} == {"skipped"}
    dead = facts(probes=answers(CPU, {**failed, **unsaid}), torch_on_disk=None)
    assert judged(dead, CPU)["torch.build"].status == "skipped"


def test_card_without_code_and_cards_that_torch_does_not_see() -> None:
    few = replace(healthy(), probes=answers(CUDA, architectures=["sm_75"]))
    blocked(judged(few)["torch.architectures"], "sm_75")
    unseen = replace(healthy(), probes=answers(CUDA, cards=[], available=False, why="no CUDA device is visible"))
    blocked(judged(unseen)["torch.device"], "no CUDA device is visible")
    assert judged(replace(unseen, cuda_visible="7"))["torch.device"].repair == "unset CUDA_VISIBLE_DEVICES"
    reboot = answers(CUDA, cards=[], available=False, why="Driver/library version mismatch")
    assert judged(replace(healthy(), probes=reboot))["torch.device"].repair.startswith("reboot")
    cpu_build = answers(CUDA, cards=[], available=False, cuda=None)
    assert judged(replace(healthy(), probes=cpu_build))["torch.device"].found == "this torch is a CPU build"

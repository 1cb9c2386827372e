"""Checks on made-up facts: what no environment here can show, such as cards, builds and their combinations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools.environments.installed.installed_files import Broken, Sweep
from tools.environments.installed.installed_files import InstalledDistribution as Recorded
from tools.environments.installed.package_facts import Distribution, PackageFacts
from tools.environments.machine.gpu_facts import Card, GpuFacts
from tools.environments.machine.host_facts import Disk, HostFacts
from tools.environments.machine.image_facts import ImageFacts
from tools.environments.machine.interpreter_facts import ForeignEntry, InterpreterFacts
from tools.environments.machine.network_facts import HubFacts, Proxy
from tools.environments.model import Check, Profile
from tools.environments.preflight import preflight
from tools.environments.preflight.checks import check_catalogue, network, package_consistency, pin, torch_build, wording
from tools.environments.preflight.child_probe import ProbeFacts, ProbeOutcome
from tools.environments.preflight.preflight_facts import PreflightFacts, StampFacts, steps
from tools.environments.registry import registry
from tools.environments.registry.pep440 import Version

REGISTRY = registry.load()
CUDA = REGISTRY.get("TRAIN-CUDA-MECHANISM")
CPU = REGISTRY.get("TRAIN-CPU")
H100 = Card("NVIDIA H100", 79.6, "9.0", "0" * 16)
ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
TORCH: dict[str, Any] = {
    "version": "2.11.0+cu128",
    "cuda": "12.8",
    "architectures": ARCHITECTURES,
    "cards": [[9, 0]],
    "available": True,
    "bf16_native": True,
}


def answers(
    profile: Profile, changes: Mapping[str, ProbeOutcome] | None = None, **torch: Any
) -> tuple[ProbeFacts, ...]:
    """Every step of the profile gone well, but for `changes`; `torch` replaces what torch says."""
    outcomes = {
        f"{kind} {argument}".rstrip(): ProbeOutcome(True, "", {}) for part in steps(profile) for kind, argument in part
    }
    for name in ("torch-facts", "torch-facts cuda"):
        if name in outcomes:
            outcomes[name] = ProbeOutcome(True, "", {**TORCH, **torch})
    return (ProbeFacts({**outcomes, **(changes or {})}),)


def healthy(profile: Profile = CUDA) -> PreflightFacts:
    """A machine and an environment on profile."""
    gpu = GpuFacts("nvml", "570.86.10", "12.8", (H100,)) if profile.gpu else None
    return PreflightFacts(
        host=HostFacts("linux-x86_64", "3.12.3", 8, 64.0, Disk("/env", 100.0), None, False, gpu),
        interpreter=InterpreterFacts(
            "/env/bin/python", "3.12.3", "cpython", "/env", "/usr", "venv", ("/env/lib",), (), (), (), None, ()
        ),
        packages=PackageFacts({}),
        modules={name: f"/env/lib/{name}/__init__.py" for name in profile.required_modules},
        torch_on_disk=("2.11.0+cu128", "12.8") if profile.gpu else ("2.13.0+cpu", None),
        lines=(),
        markers={},
        stamp=StampFacts(None),
        image=ImageFacts(None, None, None),
        requirement_digest="sha256:0",
        proxies=(),
        cuda_visible=None,
        fresh_name="llm_new",
        probes=answers(profile),
        files=Sweep(10, ()),
    )


def judged(facts: PreflightFacts, profile: Profile = CUDA) -> dict[str, Check]:
    return {check.id: check for check in preflight.judge(profile, REGISTRY, facts).checks}


def host(facts: PreflightFacts, **changes: Any) -> PreflightFacts:
    return replace(facts, host=replace(facts.host, **changes))


def test_every_check_is_in_the_catalogue_once_and_in_its_order() -> None:
    for name in REGISTRY.profiles:
        profile = REGISTRY.get(name)
        checks = preflight.judge(profile, REGISTRY, healthy(profile)).checks
        assert [check.id for check in checks] == list(check_catalogue.CHECKS)


def test_healthy_machine_is_ok_and_nothing_that_applies_is_left_out() -> None:
    report = preflight.judge(CUDA, REGISTRY, healthy())
    assert report.status == "ok"
    skipped = {check.id for check in report.checks if check.status == "skipped"}
    assert skipped == {
        "environment.stamp",
        "container.image",
        "operation.tf32",
        "network.proxy",
        "hub.reach",
        "hub.disk",
        "notebook.packages",
        "notebook.registration",
        "notebook.kernel",
    }


@pytest.mark.parametrize(
    ("capability", "architectures", "covered"),
    [
        ("9.0", ["sm_90"], True),
        ("9.0", ["sm_90a"], True),
        ("8.9", ["sm_80", "sm_86"], True),
        ("8.6", ["sm_89"], False),
        ("7.0", ["sm_75"], False),
        ("12.1", ["sm_120"], True),
        ("12.1", ["sm_120a"], False),
        ("10.3", ["sm_100f"], False),
        ("12.0", ["sm_100", "compute_90"], True),
        ("7.5", ["compute_80"], False),
        ("9.0", ["sm_80"], False),
        ("9.0", ["nonsense", "sm_", "sm_x"], False),
        ("9", ["sm_90"], True),
        ("9.0", [], False),
    ],
)
def test_machine_code_and_ptx(capability: str, architectures: list[str], covered: bool) -> None:
    assert torch_build.covers(architectures, capability) == covered


@pytest.mark.parametrize(
    ("version", "system", "fits"),
    [
        ("2.13.0+cpu", "linux-x86_64", True),
        ("2.13.0", "linux-x86_64", False),
        ("2.13.0", "darwin-arm64", True),
        ("2.13.0+cu130", "linux-x86_64", False),
        ("2.14.0+cpu", "linux-x86_64", False),
        ("2.13.0rc1+cpu", "linux-x86_64", False),
        ("2.10.2+cpu", "linux-x86_64", False),
    ],
)
def test_build_of_a_cpu_profile(version: str, system: str, fits: bool) -> None:
    assert CPU.torch is not None
    assert pin.build_fits(CPU.torch, Version(version), system) == fits


@pytest.mark.parametrize(
    ("version", "cuda", "driver", "words", "other"),
    [
        ("2.11.0+cu130", "13.0", "580.65.06", "another package index", "TRAIN-CUDA130-MECHANISM"),
        ("2.11.0+cu130", "13.0", "570.86.10", "another package index", None),
        ("2.11.0+cpu", None, "580.65.06", "a CPU build", None),
        ("2.13.0+cu128", "12.8", "580.65.06", "another version", None),
    ],
)
def test_wrong_build_says_why_and_which_profile_it_belongs_to(
    version: str, cuda: str | None, driver: str, words: str, other: str | None
) -> None:
    facts = host(healthy(), gpu=GpuFacts("nvml", driver, None, (H100,)))
    found = judged(replace(facts, probes=answers(CUDA, version=version, cuda=cuda)))["torch.build"]
    assert (found.status, words in found.found) == ("blocked", True)
    assert "--env-name llm_new" in found.repair
    assert ("--profile TRAIN-CUDA130-MECHANISM" in found.repair) == (other is not None)


def test_cpu_build_in_a_gpu_environment_is_never_called_another_profiles() -> None:
    facts = replace(healthy(), probes=answers(CUDA, version="2.13.0+cpu", cuda=None))
    assert "use the profile for this build" not in judged(facts)["torch.build"].repair


def test_stamp_tells_which_torch_was_replaced() -> None:
    facts = replace(
        healthy(),
        stamp=StampFacts(CUDA.id, "2.11.0+cu128", ()),
        probes=answers(CUDA, version="2.11.0+cu130", cuda="13.0"),
    )
    assert "it was 2.11.0+cu128 when the install finished" in judged(facts)["torch.build"].found


def test_torch_that_fails_to_speak_is_read_from_disk() -> None:
    failed = {"torch-facts cuda": ProbeOutcome(False, "AttributeError: _C", {})}
    checks = judged(replace(healthy(), probes=answers(CUDA, failed)))
    assert checks["torch.build"].status == "ok"
    assert (checks["torch.device"].status, checks["torch.device"].found) == ("blocked", "AttributeError: _C")
    assert checks["torch.architectures"].status == "skipped"
    assert checks["operation.float16"].status == "skipped"


def test_bf16_takes_card_and_torch() -> None:
    turing = GpuFacts("nvml", "570.86.10", "12.8", (replace(H100, name="NVIDIA T4", capability="7.5"),))
    old = host(healthy(), gpu=turing)
    assert judged(healthy())["gpu.bf16"].status == "ok"
    agree = judged(replace(old, probes=answers(CUDA, cards=[[7, 5]], bf16_native=False)))
    assert (agree["gpu.bf16"].status, "fp16 with a scaler" in agree["gpu.bf16"].found) == ("skipped", True)
    assert agree["operation.bfloat16"].status == "skipped"
    assert (
        preflight.judge(CUDA, REGISTRY, replace(old, probes=answers(CUDA, cards=[[7, 5]], bf16_native=False))).status
        == "ok"
    )
    disagree = judged(replace(healthy(), probes=answers(CUDA, bf16_native=False)))["gpu.bf16"]
    assert (disagree.status, disagree.found) == ("warning", "the card does, PyTorch does not")
    other = judged(old)["gpu.bf16"]
    assert (other.status, other.found) == ("warning", "the card does not, PyTorch does")


def test_tf32_is_skipped_on_a_card_without() -> None:
    claims = replace(CUDA, dtypes=("float32", "tf32"))
    assert judged(replace(healthy(), probes=answers(claims)), claims)["operation.tf32"].status == "ok"
    assert (
        judged(replace(healthy(), probes=answers(claims, cards=[[7, 5]])), claims)["operation.tf32"].status == "skipped"
    )
    assert judged(healthy(CPU), replace(CPU, dtypes=("tf32",)))["operation.tf32"].found == "CPUs have none"


@pytest.mark.parametrize(
    ("error", "repair"),
    [
        ("OutOfMemoryError: CUDA out of memory", "nvidia-smi lists"),
        ("no kernel image is available", "no code for this card"),
        ("cuBLAS", "create a new"),
    ],
)
def test_failed_operation_is_mended_by_its_cause(error: str, repair: str) -> None:
    failed = {"operate float16 cuda": ProbeOutcome(False, error, {})}
    found = judged(replace(healthy(), probes=answers(CUDA, failed)))["operation.float16"]
    assert (found.status, repair in found.repair) == ("blocked", True)


def test_step_that_kills_the_child_is_blocked_and_later_ones_are_not_reached() -> None:
    outcomes = dict(answers(CUDA)[0].outcomes)
    for name in ("operate float16 cuda", "operate bfloat16 cuda", "import accelerate"):
        outcomes.pop(name)
    dead = ProbeFacts(outcomes, "killed by SIGSEGV", "operate float16 cuda")
    checks = judged(replace(healthy(), probes=(dead,)))
    assert (checks["operation.float16"].status, checks["operation.float16"].found) == ("blocked", "killed by SIGSEGV")
    assert checks["operation.bfloat16"].found == "not reached: killed by SIGSEGV in operate float16 cuda"
    assert (checks["packages.import"].status, "accelerate" in checks["packages.import"].found) == ("skipped", True)


def test_answer_that_never_came_from_a_living_child_is_blocked() -> None:
    outcomes = dict(answers(CPU)[0].outcomes)
    outcomes.pop("import rich")
    outcomes.pop("operate float32 cpu")
    outcomes.pop("import torch")
    checks = judged(replace(healthy(CPU), probes=(ProbeFacts(outcomes),)), CPU)
    assert checks["packages.import"].status == checks["torch.import"].status == "blocked"
    assert checks["operation.float32"].found == "not reached"


def test_driver_of_another_profile_names_it() -> None:
    newer = REGISTRY.get("TRAIN-CUDA130-MECHANISM")
    found = judged(healthy(), newer)["gpu.driver"]
    assert (found.status, "--profile TRAIN-CUDA-MECHANISM" in found.repair) == ("blocked", True)


@pytest.mark.parametrize(
    ("kind", "container", "status"),
    [
        ("venv", None, "ok"),
        ("conda", None, "ok"),
        ("conda-base", None, "warning"),
        ("base", None, "warning"),
        ("base", "docker", "ok"),
    ],
)
def test_environment_of_its_own(kind: Any, container: str | None, status: str) -> None:
    facts = host(healthy(), container=container)
    facts = replace(facts, interpreter=replace(facts.interpreter, kind=kind))
    assert judged(facts)["python.prefix"].status == status


def test_conda_listens_to_the_user_site_and_is_told_how_not_to() -> None:
    user = ForeignEntry("/srv/user/.local/lib/site-packages", "user site")
    facts = healthy()
    python = replace(facts.interpreter, kind="conda", foreign=(user,), user_site=user.path)
    modules = {**facts.modules, "transformers": f"{user.path}/transformers/__init__.py"}
    checks = judged(replace(facts, interpreter=python, modules=modules))
    assert checks["python.user-site"].repair.startswith(
        "conda env config vars set -p /env PYTHONNOUSERSITE=1 PYTHONPATH="
    )
    assert checks["packages.origin"].repair == "export PYTHONNOUSERSITE=1"
    assert checks["python.path"].status == "ok"


def hub(**changes: Any) -> PreflightFacts:
    made = HubFacts("Qwen/Qwen2.5-0.5B", "the hub", None, False, True, "answers 200", Disk("/cache", 50.0))
    return replace(healthy(CPU), hub=replace(made, **changes))


@pytest.mark.parametrize(
    ("changes", "reach", "disk", "words"),
    [
        ({}, "ok", "ok", "answers 200"),
        ({"cached": True, "reached": False}, "ok", "skipped", "complete in the cache"),
        ({"reached": False, "answer": "does not answer (timeout)"}, "blocked", "ok", "does not answer"),
        ({"offline": "HF_HUB_OFFLINE", "reached": False}, "blocked", "ok", "HF_HUB_OFFLINE forbids"),
        ({"cache": Disk("/cache", 0.4)}, "ok", "blocked", "answers"),
        ({"cache": Disk("/cache", None)}, "ok", "ok", "answers"),
    ],
)
def test_hub_counts_only_when_the_run_would_download(
    changes: dict[str, Any], reach: str, disk: str, words: str
) -> None:
    checks = judged(hub(**changes), CPU)
    assert (checks["hub.reach"].status, checks["hub.disk"].status) == (reach, disk)
    assert words in checks["hub.reach"].found
    assert judged(healthy(CPU), CPU)["hub.reach"].status == "skipped"


def test_socks_without_socksio_blocks_only_a_download() -> None:
    proxies = (Proxy("ALL_PROXY", "socks5"),)
    assert network.check(CPU, replace(hub(), proxies=proxies))[0].status == "blocked"
    assert network.check(CPU, replace(hub(cached=True), proxies=proxies))[0].status == "warning"
    socksio = Distribution("socksio", "1.0.0", "/env/lib", "/env/lib/socksio-1.0.0.dist-info", (), "pip")
    facts = replace(hub(), proxies=proxies, packages=PackageFacts({"socksio": socksio}))
    assert network.check(CPU, facts)[0].status == "ok"


def broken(*names: str) -> Sweep:
    items = [
        Broken(Recorded(name, "1.0", Path(f"/env/lib/{name}-1.0.dist-info")), "x.py is missing", 1) for name in names
    ]
    return Sweep(10, tuple(items))


@pytest.mark.parametrize(
    ("names", "stamped", "words"),
    [
        (("rich",), None, "requirements/torch-cpu.txt && "),
        (
            ("rich", "numpy"),
            CPU.id,
            "install them anew: /env/bin/python -m pip install --force-reinstall --no-deps numpy==1.0 rich==1.0",
        ),
        (("torch",), None, "create a new environment"),
        (tuple(f"p{number}" for number in range(9)), None, "create a new environment"),
    ],
)
def test_broken_files_are_mended_by_name_or_left(names: tuple[str, ...], stamped: str | None, words: str) -> None:
    facts = replace(healthy(CPU), files=broken(*names), stamp=StampFacts(stamped))
    found = judged(facts, CPU)["packages.files"]
    assert (found.status, words in found.repair) == ("blocked", True)


def test_certificates_that_a_machine_adds_are_no_fault() -> None:
    own = [
        Broken(item.distribution, "certifi/cacert.pem has 9 bytes instead of 8", 1) for item in broken("certifi").broken
    ]
    found = judged(replace(healthy(CPU), files=Sweep(10, tuple(own))), CPU)["packages.files"]
    assert (found.status, "certificates that this machine adds" in found.found) == ("ok", True)
    more = [replace(own[0], count=2), *broken("rich").broken]
    found = judged(replace(healthy(CPU), files=Sweep(10, tuple(more))), CPU)["packages.files"]
    assert (found.status, "certifi: " in found.found) == ("blocked", True)


def test_marker_that_cannot_be_decided_does_not_apply() -> None:
    odd = Distribution("odd", "1", "/env/lib", "/env/lib/odd-1.dist-info", ("absent ; python_version ~= 'x'",), "pip")
    assert package_consistency.conflicts(replace(healthy(CPU), packages=PackageFacts({"odd": odd}))) == []


def test_long_lists_stay_short() -> None:
    assert wording.some(["a", "b"]) == "a, b"
    assert wording.some(list("abcdef")) == "a, b, c, d and 2 more"


def test_image_digest_is_told_where_it_is_known() -> None:
    facts = replace(healthy(CPU), image=ImageFacts("TRAIN-CPU", "sha256:0", "sha256:abc"))
    assert judged(facts, CPU)["container.image"].found == "sha256:abc"


@pytest.mark.parametrize("name", list(REGISTRY.profiles))
def test_children_of_every_profile_import_each_module_once(name: str) -> None:
    profile = REGISTRY.get(name)
    imported = [argument for part in steps(profile) for kind, argument in part if kind == "import"]
    assert sorted(imported) == sorted(profile.required_modules)
    if profile.torch:
        assert imported[0] == "torch"

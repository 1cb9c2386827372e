"""The host gate is pure: every rule is shown by one machine that passes and one that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tools.environments.machine import host_gate
from tools.environments.machine.gpu_facts import Card, GpuFacts
from tools.environments.machine.host_facts import Disk, HostFacts
from tools.environments.model import Check, Docs, GpuGate, HostGate, Profile

GATE = GpuGate(count=1, memory_gib=8, driver_floor="525", driver_native="570", compute_capability="7.5")
CPU = Profile(
    id="TEST-CPU",
    layer="cpu",
    title="",
    title_zh="",
    purpose="",
    purpose_zh="",
    python=("3.11", "3.12"),
    torch=None,
    requirements=(),
    constraints=(),
    required_modules=(),
    forbidden=(),
    gpu=None,
    host=HostGate(systems=("linux-x86_64",), memory_gib=8, download_gib=0.4, disk_gib=1.3, minutes="2-4"),
    environment="llm_test",
    dtypes=(),
    experiments=(),
    tags=(),
    docs=Docs("", ""),
)
CUDA = replace(CPU, id="TEST-CUDA", layer="cuda", gpu=GATE, experiments=("mixed_precision_backward",))
T4 = Card("NVIDIA T4", 14.6, "7.5", "0" * 16)
DRIVER = GpuFacts("nvml", "580.65.06", "13.0", (T4,))
MACHINE = HostFacts("linux-x86_64", "3.12.3", 2, 16.0, Disk("/envs", 80.0), None, False, DRIVER)


def check(checks: tuple[Check, ...], name: str) -> Check:
    return next(item for item in checks if item.id == name)


def test_ids_and_order_are_fixed() -> None:
    names = ["host.system", "host.python", "host.memory", "host.disk", *host_gate.GPU_CHECKS]
    assert [item.id for item in host_gate.gate(CUDA, MACHINE)] == names
    assert [item.id for item in host_gate.gate(CPU, MACHINE)] == names


def test_good_machine_is_ok_throughout_and_repairs_nothing() -> None:
    assert {item.status for item in host_gate.gate(CUDA, MACHINE)} == {"ok"}
    assert {item.repair for item in host_gate.gate(CUDA, MACHINE)} == {""}


def test_cpu_profile_asks_nothing_of_cards() -> None:
    checks = host_gate.gate(CPU, replace(MACHINE, gpu=GpuFacts("none", problem="none found")))
    assert [item.status for item in checks] == ["ok"] * 4 + ["skipped"] * 4


HOST_FAULTS = [
    ("host.system", replace(MACHINE, system="darwin-arm64"), "blocked", "--list-profiles"),
    ("host.system", replace(MACHINE, system="linux-x86_64-musl"), "blocked", "linux-x86_64"),
    ("host.system", replace(MACHINE, system="win32"), "blocked", "WSL 2"),
    ("host.python", replace(MACHINE, python="3.13.1"), "blocked", "--profile TEST-CUDA --python 3.12"),
    ("host.python", replace(MACHINE, python="3.1.1"), "blocked", "--python 3.12"),
    ("host.memory", replace(MACHINE, memory_gib=4.0), "warning", "smoke"),
    ("host.disk", replace(MACHINE, disk=Disk("/envs", 0.8)), "blocked", "free 0.5 GiB"),
    ("host.disk", replace(MACHINE, disk=Disk("/envs", None)), "warning", "df -h /envs"),
]


@pytest.mark.parametrize(("name", "facts", "status", "repair"), HOST_FAULTS)
def test_host_faults(name: str, facts: HostFacts, status: str, repair: str) -> None:
    found = check(host_gate.gate(CUDA, facts), name)
    assert found.status == status
    assert repair in found.repair


def test_memory_just_below_nominal_passes_and_unknown_is_skipped() -> None:
    assert check(host_gate.gate(CPU, replace(MACHINE, memory_gib=7.4)), "host.memory").status == "ok"
    assert check(host_gate.gate(CPU, replace(MACHINE, memory_gib=None)), "host.memory").status == "skipped"


def test_disk_need_may_be_smaller_than_the_registry_says() -> None:
    little = replace(MACHINE, disk=Disk("/envs", 0.8))
    assert check(host_gate.gate(CPU, little, disk_needed_gib=0.5), "host.disk").status == "ok"


def gpu(**changes: object) -> HostFacts:
    return replace(MACHINE, gpu=replace(DRIVER, **changes))  # type: ignore[arg-type]


GPU_FAULTS = [
    ("gpu.memory", gpu(cards=(replace(T4, memory_gib=7.3),)), "blocked", "class"),
    ("gpu.driver", gpu(driver="520.61.05"), "blocked", "570"),
    ("gpu.driver", gpu(driver="535.183.01"), "warning", "570"),
    ("gpu.driver", gpu(driver=None), "warning", "nvidia-smi"),
    ("gpu.capability", gpu(cards=(replace(T4, capability="7.0"),)), "blocked", "newer card"),
]


@pytest.mark.parametrize(("name", "facts", "status", "repair"), GPU_FAULTS)
def test_gpu_faults(name: str, facts: HostFacts, status: str, repair: str) -> None:
    found = check(host_gate.gate(CUDA, facts), name)
    assert (found.status, repair in found.repair) == (status, True)


def test_an_8_gib_card_may_report_7_4() -> None:
    assert check(host_gate.gate(CUDA, gpu(cards=(replace(T4, memory_gib=7.4),))), "gpu.memory").status == "ok"


def test_driver_floor_and_native_are_inclusive() -> None:
    assert check(host_gate.gate(CUDA, gpu(driver="570")), "gpu.driver").status == "ok"
    assert check(host_gate.gate(CUDA, gpu(driver="525.60.13")), "gpu.driver").status == "warning"


def test_two_cards_wanted_and_one_found_is_blocked_on_the_count_alone() -> None:
    pair = replace(CUDA, gpu=replace(GATE, count=2))
    assert check(host_gate.gate(pair, MACHINE), "gpu.count").status == "blocked"
    assert check(host_gate.gate(pair, MACHINE), "gpu.memory").status == "ok"
    assert check(host_gate.gate(pair, gpu(cards=(T4, T4))), "gpu.count").status == "ok"
    mixed = (T4, replace(T4, memory_gib=4.0))
    assert check(host_gate.gate(pair, gpu(cards=mixed)), "gpu.memory").status == "blocked"


@pytest.mark.parametrize(
    ("problem", "repair"),
    [
        (
            "none (no NVML library, no /dev/nvidia0)",
            "python -m experiments fit --profile TEST-CUDA --memory-gib 8",
        ),
        ("NVML: Driver/library version mismatch", "reboot"),
        ("the driver did not answer within 5 s", "reboot"),
        (None, "nvidia-smi"),
    ],
)
def test_no_card_is_blocked_once_and_the_rest_does_not_apply(problem: str | None, repair: str) -> None:
    checks = host_gate.gate(CUDA, gpu(cards=(), problem=problem, driver=None))
    assert [item.status for item in checks[4:]] == ["blocked", "skipped", "skipped", "skipped"]
    assert repair in checks[4].repair
    assert checks[4].found == (problem or "none")


def test_what_would_fit_is_offered_only_where_something_is_run() -> None:
    bare = host_gate.gate(replace(CUDA, experiments=()), gpu(cards=(), problem=None, driver=None))
    assert "experiments fit" not in check(bare, "gpu.count").repair
    assert "use a CPU profile" in check(bare, "gpu.count").repair


def test_cards_not_asked_for_are_skipped() -> None:
    checks = host_gate.gate(CUDA, replace(MACHINE, gpu=None))
    assert [item.status for item in checks[4:]] == ["skipped"] * 4


@pytest.mark.parametrize(("text", "value"), [("570.86.10", (570, 86, 10)), ("9.0", (9, 0)), ("r570.x", (0, 0))])
def test_numbers(text: str, value: tuple[int, ...]) -> None:
    assert host_gate.numbers(text) == value

"""Companions on the CUDA 13.0 build: what is derived, what stays the parent's, and what the loader refuses."""

from __future__ import annotations

import copy
import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.environments.errors import LabError
from tools.environments.layout import REGISTRY_PATH, ROOT
from tools.environments.model import GpuGate, HostGate, Profile, TorchPin
from tools.environments.registry import companions, profile_list, registry

REGISTRY = registry.load()
DOCUMENT: dict[str, Any] = json.loads(REGISTRY_PATH.read_bytes())
COMPANIONS = [profile for profile in REGISTRY.profiles.values() if profile.companion_of]
HERE = "requirements/environment-profiles.json#"
# What a companion may differ in; every other field is the parent's.
DERIVED = {
    *("id", "title", "title_zh", "purpose", "purpose_zh", "torch", "requirements", "gpu", "host", "environment"),
    *("docs", "companion_of"),
}
Mutation = Callable[[dict[str, Any]], object]


def place(name: str) -> int:
    return next(number for number, entry in enumerate(DOCUMENT["profiles"]) if entry["id"] == name)


def set_(name: str, **fields: Any) -> Mutation:
    return lambda document: document["profiles"][place(name)].update(fields)


def added(name: str, like: str, **fields: Any) -> Mutation:
    """A profile that extends `like`, last in the list."""
    entry = {"id": name, "extends": like, "environment": f"llm_{name.lower().replace('-', '_')}", **fields}
    return lambda document: document["profiles"].append(entry)


def changed(*changes: Mutation) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    for change in changes:
        change(document)
    return document


def refused(document: dict[str, Any], root: Path = ROOT) -> LabError:
    with pytest.raises(LabError) as caught:
        registry.build(document, root)
    assert caught.value.next
    return caught.value


@pytest.mark.parametrize(
    ("parent", "companion"),
    [
        ("TRAIN-CUDA-MECHANISM", "TRAIN-CUDA130-MECHANISM"),
        ("PT-SFT-CUDA", "PT-SFT-CUDA130"),
        ("Q-QLORA", "Q-QLORA-CUDA130"),
        ("CUDA", "CUDA130"),
        ("A-CUDAX", "A-CUDAX-CUDA130"),
        ("A-CUDA-CUDA", "A-CUDA130-CUDA"),
    ],
)
def test_the_id_names_the_build_where_the_parent_names_cuda(parent: str, companion: str) -> None:
    assert companions.id_of(parent) == companion


@pytest.mark.parametrize("driver", ["550", "570"])
def test_a_build_for_no_newer_driver_than_the_parent_s_has_no_companions(driver: str) -> None:
    def change(document: dict[str, Any]) -> None:
        document["cuda130"]["driver"] = driver

    assert "native on drivers before" in refused(changed(change)).wanted


def test_minutes_of_a_companion_are_a_number_one_can_wait_for() -> None:
    parent = DOCUMENT["profiles"][place("TRAIN-CUDA-MECHANISM")]
    error = refused(changed(set_("TRAIN-CUDA-MECHANISM", host={**parent["host"], "minutes": f"4-{'9' * 5000}"})))
    assert "minutes" in error.where


def test_who_has_one() -> None:
    """Each entry that asks for one, and the topics that planned with one."""
    assert [c.companion_of for c in COMPANIONS] == [e["id"] for e in DOCUMENT["profiles"] if e.get("cuda130")]
    planned = {"TRAIN-CUDA-MECHANISM", "PAR-CUDA-MECHANISM", "Q-CUDA-MECHANISM", "Q-QLORA"}
    planned |= {"PT-SFT-CUDA", "PT-RL-CUDA", "PT-DISTILL-CUDA", "PT-DELIVERY-CUDA"}
    assert planned <= {c.companion_of for c in COMPANIONS}


@pytest.mark.parametrize("companion", COMPANIONS, ids=lambda profile: profile.id)
def test_a_companion_is_its_parent_on_another_build(companion: Profile) -> None:
    parent = REGISTRY.get(companion.companion_of)
    ids = list(REGISTRY.profiles)
    assert ids[ids.index(parent.id) + 1] == companion.id
    ours, theirs = ({f.name: getattr(p, f.name) for f in dataclasses.fields(p)} for p in (companion, parent))
    assert {name for name in ours if ours[name] != theirs[name]} == DERIVED
    assert parent.torch is not None
    assert companion.torch == TorchPin(
        parent.torch.specifier, "cu130", "13.0", "https://download.pytorch.org/whl/cu130"
    )
    assert companion.requirements == ("torch-cu130.txt", *parent.requirements[1:])
    assert parent.gpu is not None
    assert companion.gpu == dataclasses.replace(parent.gpu, driver_floor="580", driver_native="580")
    assert companion.environment == parent.environment.replace("_cu128", "_cu130")
    saves = DOCUMENT["cuda130"]["saves"]
    assert companion.host.download_gib == pytest.approx(parent.host.download_gib - saves["download_gib"])
    assert companion.host.disk_gib == pytest.approx(parent.host.disk_gib - saves["disk_gib"])
    assert "its results never stand for that profile" in companion.purpose
    assert parent.id in companion.purpose
    assert "结果不能代替该 Profile" in companion.purpose_zh
    assert parent.id in companion.purpose_zh
    assert "driver 580 or newer" in companion.title


def test_the_companion_that_was_written_by_hand_before_is_what_it_was() -> None:
    """Records name this profile: the facts that they were made under, word by word."""
    found, parent = REGISTRY.get("TRAIN-CUDA130-MECHANISM"), REGISTRY.get("TRAIN-CUDA-MECHANISM")
    assert found.title == "one CUDA card, torch 2.11.0+cu130, driver 580 or newer"
    assert found.title_zh == "单张 CUDA 卡，torch 2.11.0+cu130，驱动 580 及以上"
    assert found.purpose == (
        "The mechanisms of TRAIN-CUDA-MECHANISM on the CUDA 13.0 build; its results never stand for that profile."
    )
    assert found.purpose_zh == "与 TRAIN-CUDA-MECHANISM 相同的机制，使用 CUDA 13.0 构建；结果不能代替该 Profile。"
    assert found.torch == TorchPin("==2.11.0", "cu130", "13.0", "https://download.pytorch.org/whl/cu130")
    assert found.requirements == ("torch-cu130.txt", "training-mechanism.txt")
    assert found.gpu == GpuGate(1, 8, "580", "580", "7.5")
    assert found.host == HostGate(("linux-x86_64",), 16, 2.7, 5.1, "3-10")
    assert found.environment == "llm_train_mechanism_cu130"
    assert (found.experiments, found.forbidden) == (parent.experiments, parent.forbidden)


def test_a_companion_is_not_inherited() -> None:
    """What extends a profile with a companion has none of its own, until it asks for one."""
    document = changed(added("NEW-CUDA", "PT-SFT-CUDA"), added("NEWER-CUDA", "PT-SFT-CUDA", cuda130=True))
    known = registry.build(document).profiles
    assert "NEW-CUDA130" not in known
    assert known["NEWER-CUDA130"].companion_of == "NEWER-CUDA"
    assert known["NEWER-CUDA130"].environment == "llm_newer_cuda_cu130"


def test_false_is_none() -> None:
    known = registry.build(changed(set_("Q-QLORA", cuda130=False))).profiles
    assert "Q-QLORA" in known
    assert "Q-QLORA-CUDA130" not in known


CASES: list[tuple[str, list[Mutation], str, str, str]] = [
    ("a word", [set_("Q-QLORA", cuda130="true")], f"/profiles/{place('Q-QLORA')}/cuda130", "true or false", "'true'"),
    ("a number", [set_("Q-QLORA", cuda130=1)], f"/profiles/{place('Q-QLORA')}/cuda130", "true or false", "1"),
    ("null", [set_("Q-QLORA", cuda130=None)], f"/profiles/{place('Q-QLORA')}/cuda130", "true or false", "null"),
    (
        "in a template",
        [lambda d: d["templates"]["trl"].update(cuda130=True)],
        "/templates/trl/cuda130",
        "one of the fields",
        "cuda130",
    ),
    (
        "an id that is written too",
        [added("Q-QLORA-CUDA130", "Q-QLORA")],
        f"/profiles/{place('Q-QLORA')}/cuda130",
        "an id of its own for the companion",
        "'Q-QLORA-CUDA130', which is written here too",
    ),
    (
        "two parents for one id",
        [added("Q-QLORA-CUDA", "Q-QLORA", cuda130=True)],
        f"/profiles/{len(DOCUMENT['profiles'])}/cuda130",
        "an id of its own for the companion",
        "the companion of Q-QLORA",
    ),
    (
        "on CPU",
        [set_("TRAIN-CPU", cuda130=True)],
        f"/profiles/{place('TRAIN-CPU')}/cuda130",
        "cuda130 in layer cuda alone",
        "layer cpu",
    ),
    (
        "in a delivery profile",
        [set_("PERF-DELIVERY", cuda130=True)],
        f"/profiles/{place('PERF-DELIVERY')}/cuda130",
        "cuda130 in layer cuda alone",
        "layer delivery",
    ),
    (
        "beside a serving backend",
        [set_("INF-VLLM-011-CU128", cuda130=True)],
        f"/profiles/{place('INF-VLLM-011-CU128')}/cuda130",
        "cuda130 in layer cuda alone",
        "layer serving",
    ),
    (
        "beside another build",
        [lambda d: d["cuda130"].update(of="cu126")],
        f"/profiles/{place('TRAIN-CUDA-MECHANISM')}/cuda130",
        "build cu126 of torch in a profile with cuda130",
        "cu128",
    ),
    (
        "a torch file that is not first",
        [set_("Q-QLORA", requirements=["qlora.txt", "torch-cu128.txt"])],
        f"/profiles/{place('Q-QLORA')}/requirements/0",
        "the torch file torch-cu128.txt",
        "qlora.txt",
    ),
    (
        "a size that the build would more than save",
        [set_("Q-QLORA", host={"download_gib": 1.3, "disk_gib": 7.8, "minutes": "1"})],
        f"/profiles/{place('Q-QLORA')}/host/download_gib",
        "more than the 1.3 GiB that its companion saves",
        "1.3",
    ),
    (
        "an environment that belongs to another",
        [set_("TRAIN-CPU", environment="llm_qlora_cu130")],
        f"/profiles/{place('Q-QLORA')}/cuda130",
        "an environment of its own for each profile",
        "'llm_qlora_cu130', which belongs to TRAIN-CPU, for its companion Q-QLORA-CUDA130",
    ),
    (
        "a build without its torch file",
        [lambda d: d["cuda130"]["torch"].update(build="cu132", cuda="13.2")],
        f"/profiles/{place('TRAIN-CUDA-MECHANISM')}/cuda130",
        "a file that exists",
        "no requirements/torch-cu132.txt, for its companion TRAIN-CUDA130-MECHANISM",
    ),
    (
        "a name and a number of CUDA that differ",
        [lambda d: d["cuda130"]["torch"].update(cuda="12.9")],
        f"/profiles/{place('TRAIN-CUDA-MECHANISM')}/cuda130",
        "cuda 13.0 for build cu130",
        "12.9",
    ),
    (
        "a profile that extends a companion",
        [added("NEW-CUDA", "Q-QLORA-CUDA130")],
        f"/profiles/{len(DOCUMENT['profiles'])}/extends",
        "a template or profile that exists",
        "Q-QLORA-CUDA130",
    ),
]


@pytest.mark.parametrize(("changes", "where", "wanted", "found"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_each_wrong_companion_is_refused_at_its_place(
    changes: list[Mutation], where: str, wanted: str, found: str
) -> None:
    error = refused(changed(*changes))
    assert error.where == HERE + where
    assert wanted in error.wanted
    assert found in error.found


def test_a_torch_file_that_pins_another_build_is_refused(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    file = tmp_path / "requirements" / "torch-cu130.txt"
    file.write_text(file.read_text().replace("==2.11.0+cu130", "==2.12.0+cu130"))
    error = refused(DOCUMENT, tmp_path)
    assert error.where == f"{HERE}/profiles/{place('TRAIN-CUDA-MECHANISM')}/cuda130"
    assert "torch ==2.11.0 in build cu130" in error.wanted


@pytest.mark.parametrize("companion", COMPANIONS, ids=lambda profile: profile.id)
def test_a_driver_decides_between_the_two(companion: Profile) -> None:
    parent = REGISTRY.get(companion.companion_of)
    for profile in (parent, companion):
        assert REGISTRY.hint(profile, "580.65.06") == companion.id
        assert REGISTRY.hint(profile, "575.51") == parent.id
        assert REGISTRY.hint(profile, "560.1") is None


def test_the_list_sets_a_companion_in_under_its_parent() -> None:
    lines = profile_list.listing().splitlines()
    for companion in COMPANIONS:
        at = next(at for at, line in enumerate(lines) if line.split()[:1] == [companion.companion_of])
        assert lines[at].startswith(f"  {companion.companion_of} ")
        assert lines[at + 1].startswith(f"    {companion.id} ")

"""Profiles that contradict the isolation table, their layer, each other or their files: one fault at a time."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.environments.errors import LabError
from tools.environments.layout import REGISTRY_PATH, ROOT
from tools.environments.registry import families, registry
from tools.environments.registry.rules import cuda_of

DOCUMENT: dict[str, Any] = json.loads(REGISTRY_PATH.read_bytes())
Mutation = Callable[[dict[str, Any]], object]


def place(name: str) -> int:
    return next(number for number, entry in enumerate(DOCUMENT["profiles"]) if entry["id"] == name)


def profile(document: dict[str, Any], name: str) -> dict[str, Any]:
    entry: dict[str, Any] = document["profiles"][place(name)]
    return entry


def refused(change: Mutation, root: Path = ROOT) -> LabError:
    document = copy.deepcopy(DOCUMENT)
    change(document)
    with pytest.raises(LabError) as caught:
        registry.build(document, root)
    assert caught.value.next
    return caught.value


def at(name: str, field: str) -> str:
    return f"requirements/environment-profiles.json#/profiles/{place(name)}/{field}"


def set_(name: str, **fields: Any) -> Mutation:
    return lambda document: profile(document, name).update(fields)


def copied(name: str, **fields: Any) -> Mutation:
    """A second profile like `name`, last in the list."""
    return lambda document: document["profiles"].append({**copy.deepcopy(profile(document, name)), **fields})


LAST = f"requirements/environment-profiles.json#/profiles/{len(DOCUMENT['profiles'])}"


@pytest.mark.parametrize(
    ("change", "where", "wanted", "found"),
    [
        # between entries
        (copied("TRAIN-CPU", title="again"), f"{LAST}/id", "each id once", "also at /profiles/1"),
        (copied("TRAIN-CPU", id="NEW-CPU"), f"{LAST}/environment", "an environment of its own", "belongs to TRAIN-CPU"),
        (set_("TRAIN-CPU", extends="nowhere"), at("TRAIN-CPU", "extends"), "that exists", "'nowhere'"),
        (
            lambda d: (
                profile(d, "TRAIN-CPU").update(extends="PT-CPU"),
                profile(d, "PT-CPU").update(extends="TRAIN-CPU"),
            ),
            at("PT-CPU", "extends"),
            "extends that ends",
            "TRAIN-CPU -> PT-CPU -> TRAIN-CPU",
        ),
        (
            lambda d: d["templates"].update(alone={"extends": "alone"}),
            "requirements/environment-profiles.json#/templates/alone/extends",
            "extends that ends",
            "alone -> alone",
        ),
        (set_("TRAIN-CPU", topic="alchemy"), at("TRAIN-CPU", "topic"), "a topic", "'alchemy'"),
        (lambda d: profile(d, "TRAIN-CPU").pop("title"), at("TRAIN-CPU", "title"), "the field 'title'", "nothing"),
        (
            lambda d: d["templates"]["gpu"]["gpu"].pop("memory_gib"),
            at("TRAIN-CUDA-MECHANISM", "gpu/memory_gib"),
            "the field 'memory_gib'",
            "nothing",
        ),
        # the table itself
        (
            lambda d: d["isolation"]["families"]["vllm"]["packages"].append("trl"),
            "requirements/environment-profiles.json#/isolation/families/post-training/packages/0",
            "each package in one family",
            "also in vllm",
        ),
        (
            lambda d: d["isolation"]["alone"].append("nobody"),
            f"requirements/environment-profiles.json#/isolation/alone/{len(DOCUMENT['isolation']['alone'])}",
            "a family of the table",
            "'nobody'",
        ),
        (
            lambda d: d["isolation"]["families"].pop("cuda"),
            "requirements/environment-profiles.json#/isolation/families",
            "the family 'cuda'",
            "none",
        ),
        (
            set_("Q-QLORA", capabilities=["quantization", "sorcery"]),
            at("Q-QLORA", "capabilities/1"),
            "of the table",
            "sorcery",
        ),
        (set_("Q-QLORA", capabilities=["torch"]), at("Q-QLORA", "capabilities/0"), "of the table", "torch"),
        # a layer and what it may be
        (set_("TRAIN-CPU", torch={"build": "cu128"}), at("TRAIN-CPU", "torch/build"), "a CPU build", "cu128"),
        (
            set_("TRAIN-CUDA-MECHANISM", torch={"build": "cpu"}),
            at("TRAIN-CUDA-MECHANISM", "torch/build"),
            "CUDA",
            "cpu",
        ),
        (set_("TRAIN-CPU", torch={"cuda": "12.8"}), at("TRAIN-CPU", "torch/cuda"), "cuda null for build cpu", "12.8"),
        (set_("Q-QLORA", torch={"cuda": "13.0"}), at("Q-QLORA", "torch/cuda"), "cuda 12.8 for build cu128", "13.0"),
        (set_("TRAIN-CPU", torch=None), at("TRAIN-CPU", "torch"), "torch in every layer but delivery", "null"),
        (
            set_("PERF-DELIVERY", torch=DOCUMENT["templates"]["cpu"]["torch"]),
            at("PERF-DELIVERY", "torch"),
            "torch in every layer but delivery",
            "cpu",
        ),
        (set_("Q-QLORA", gpu=None), at("Q-QLORA", "gpu"), "a gpu in layer cuda", "0 cards"),
        (
            set_("TRAIN-CPU", gpu={**DOCUMENT["templates"]["gpu"]["gpu"], "driver_floor": "1", "driver_native": "1"}),
            at("TRAIN-CPU", "gpu"),
            "no gpu in layer cpu",
            "1 cards",
        ),
        (set_("TRAIN-CPU", tags=["cuda"]), at("TRAIN-CPU", "tags"), "tags cpu", "cuda"),
        (set_("INF-VLLM-MTP", tags=["serving"]), at("INF-VLLM-MTP", "tags"), "tags cuda, serving", "serving"),
        # one card never stands for several
        (set_("PAR-CUDA-MECHANISM", tags=["cuda"]), at("PAR-CUDA-MECHANISM", "tags"), "multi-gpu", "cuda"),
        (set_("Q-QLORA", tags=["cuda", "multi-gpu"]), at("Q-QLORA", "tags"), "tags cuda in layer cuda", "multi-gpu"),
        (
            set_("PAR-CUDA-MECHANISM", gpu={"count": 1}, tags=["cuda"]),
            at("PAR-CUDA-MECHANISM", "gpu/count"),
            "2 cards for multi-gpu",
            "1",
        ),
        (
            set_("PAR-CUDA-MECHANISM", experiments=["mixed_precision_backward"]),
            at("PAR-CUDA-MECHANISM", "experiments/0"),
            "apart from those of one",
            "which TRAIN-CUDA",
        ),
        # one capability, one backend
        (
            set_("Q-CUDA-MECHANISM", capabilities=["quantization", "post-training"]),
            at("Q-CUDA-MECHANISM", "capabilities"),
            "at most one capability that must be alone",
            "quantization and post-training",
        ),
        (
            set_("Q-CUDA-MECHANISM", capabilities=["vllm"]),
            at("Q-CUDA-MECHANISM", "capabilities"),
            "vllm only in layer serving",
            "layer cuda",
        ),
        (
            set_("PT-CPU", capabilities=["quantization"]),
            at("PT-CPU", "capabilities"),
            "only in layer cuda",
            "layer cpu",
        ),
        (
            set_("INF-VLLM-MTP", capabilities=["vllm", "sglang"]),
            at("INF-VLLM-MTP", "capabilities"),
            "at most one capability",
            "vllm and sglang",
        ),
        (set_("INF-VLLM-MTP", capabilities=[]), at("INF-VLLM-MTP", "capabilities"), "exactly one backend", "none"),
        # files
        (
            set_("TRAIN-CPU", requirements=["torch-cpu.txt", "gone.txt"]),
            at("TRAIN-CPU", "requirements/1"),
            "a file that exists",
            "no requirements/gone.txt",
        ),
        (
            set_("TRAIN-CPU", constraints=["constraints/gone.txt"]),
            at("TRAIN-CPU", "constraints/0"),
            "a file that exists",
            "no requirements/constraints/gone.txt",
        ),
        (
            set_("TRAIN-CPU", requirements=["torch-cu128.txt", "training-mechanism.txt"]),
            at("TRAIN-CPU", "requirements"),
            "torch >=2.11,<2.14 in build cpu, pinned exactly",
            "torch==2.11.0+cu128 in requirements/torch-cu128.txt:3",
        ),
        (
            set_("TRAIN-CPU", requirements=["training-mechanism.txt"]),
            at("TRAIN-CPU", "requirements"),
            "a torch line for linux-x86_64, Python 3.11",
            "none",
        ),
        (
            set_("INF-VLLM-SPEC025", requirements=["torch-cu128.txt", "vllm-0.25.txt"]),
            at("INF-VLLM-SPEC025", "requirements"),
            "in build cu129",
            "cu128",
        ),
        (
            set_("TRAIN-CPU", requirements=["torch-cpu.txt", "quantization.txt"]),
            at("TRAIN-CPU", "requirements"),
            "only what a cpu profile with torch may hold",
            "torchao",
        ),
        (
            set_("TRAIN-CUDA-MECHANISM", requirements=["torch-cu128.txt", "post-training.txt"]),
            at("TRAIN-CUDA-MECHANISM", "requirements"),
            "only what a cuda profile with torch, cuda may hold",
            "trl",
        ),
        (
            set_("PERF-DELIVERY", requirements=["torch-cpu.txt"]),
            at("PERF-DELIVERY", "requirements"),
            "only what a delivery profile with no family may hold",
            "torch==2.13.0+cpu",
        ),
        (
            set_("INF-VLLM-MTP", requirements=["torch-2.13-cu130.txt", "notebook.txt"]),
            at("INF-VLLM-MTP", "requirements"),
            "the backend vllm",
            "no line asks for it",
        ),
    ],
)
def test_each_contradiction_is_refused_with_place_rule_and_mend(
    change: Mutation, where: str, wanted: str, found: str
) -> None:
    error = refused(change)
    assert error.where == where
    assert wanted in error.wanted
    assert found in error.found


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ("torch==2.13.0+cpu", True),
        ("torch==2.12.1+cpu ; sys_platform == 'linux'\ntorch>=2.11,<2.14 ; sys_platform == 'darwin'", True),
        ("torch>=2.11,<2.14", False),  # a range takes a CUDA build as soon as PyPI has a newer one
        ("torch==2.13.0", False),
        ("torch==2.14.0+cpu", False),
        ("torch==2.13.0+cu130", False),
        ("torch==2.13.*", False),
        ("torch", False),
        ("torch==2.13.0+cpu ; python_version < '3.12'", False),
        ("torch==2.13.0+cpu ; platform_machine == 'x86_64'", False),
    ],
)
def test_torch_is_pinned_wherever_it_applies_on_linux(tmp_path: Path, line: str, holds: bool) -> None:
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "requirements" / "torch-cpu.txt").write_text(line + "\n")
    document = copy.deepcopy(DOCUMENT)
    if "darwin" not in line:
        document["templates"]["cpu"]["host"]["systems"].remove("darwin-arm64")
    if holds:
        assert registry.build(document, tmp_path).profiles
        return
    with pytest.raises(LabError, match=r"wanted (a )?torch "):
        registry.build(document, tmp_path)


def test_a_broken_requirement_file_is_refused_with_its_own_place(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "requirements" / "measuring.txt").write_text("numpy>=2,<3\nnumpy >>> 3\n")
    assert refused(lambda document: None, tmp_path).where == "requirements/measuring.txt:2"


def test_forbidden_follows_from_the_table_alone() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["isolation"]["families"]["new-backend"] = {"packages": ["new-engine"], "layers": ["serving"]}
    for found in registry.build(document).profiles.values():
        assert "new-engine" in found.forbidden
    table = DOCUMENT["isolation"]
    assert families.forbidden(table, table["families"]) == ()
    everything = {package for family in table["families"].values() for package in family["packages"]}
    assert set(families.forbidden(table, ())) == everything


def test_a_new_profile_is_one_entry() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["profiles"].append(
        {**profile(document, "TRAIN-CPU"), "id": "NEW-CPU", "environment": "llm_new", "title": "another"}
    )
    added = registry.build(document).get("NEW-CPU")
    assert added.docs.quickstart == "docs/training_mechanism/quickstart.md#new-cpu"
    assert added.capabilities == ("torch",)


@pytest.mark.parametrize(("build", "cuda"), [("cpu", None), ("cu128", "12.8"), ("cu129", "12.9"), ("cu130", "13.0")])
def test_the_cuda_version_in_a_builds_name(build: str, cuda: str | None) -> None:
    assert cuda_of(build) == cuda


@pytest.mark.parametrize(
    ("field", "owner", "page"),
    [
        ("quickstart", "quantization", "quickstart"),
        ("assets", "basics", "assets"),
        ("assets", "parallelism", "quickstart"),
    ],
)
def test_a_document_that_another_topic_has_is_refused(field: str, owner: str, page: str) -> None:
    """Otherwise the page of one would be written over the other's, and nothing would say so."""

    def change(document: dict[str, Any]) -> None:
        taken = document["topics"][owner][page]
        document["topics"]["later"] = {**document["topics"]["quantization"], **fresh, field: taken}

    fresh = {"quickstart": "docs/later/quickstart.md", "assets": "docs/later/assets.md"}
    error = refused(change)
    assert error.where == f"requirements/environment-profiles.json#/topics/later/{field}"
    assert error.found.endswith(f"which belongs to {owner}")


def test_a_generated_topic_has_two_documents() -> None:
    def change(document: dict[str, Any]) -> None:
        document["topics"]["quantization"]["assets"] = document["topics"]["quantization"]["quickstart"]

    assert "two documents" in refused(change).wanted

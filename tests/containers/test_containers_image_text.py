"""The rendered files of images: as the registry is, one template for both, and what a Dockerfile here has to hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tools.containers import image_text, naming
from tools.containers.image_text import CPU, GPU, KINDS, ImageKind
from tools.environments.layout import ROOT
from tools.environments.registry import registry
from tools.rendering import __main__ as documents

KNOWN = registry.load(ROOT)
BOTH = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


def test_what_is_committed_is_what_is_rendered() -> None:
    for path, text in image_text.files(KNOWN, ROOT).items():
        assert path.read_text(encoding="utf-8") == text, path


def test_drift_is_found_and_mended_by_the_documents_own_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / CPU.dockerfile
    path.parent.mkdir()
    wanted = image_text.dockerfile(CPU, KNOWN)
    path.write_text(wanted.replace("python:3", "python:2"), encoding="utf-8")
    monkeypatch.setattr(documents, "wanted", lambda root: ({path: wanted}, []))
    (finding,) = documents.check(tmp_path, with_links=False)
    assert "invoke assets.sync" in finding.message
    documents.sync(tmp_path)
    assert path.read_text(encoding="utf-8") == wanted


def test_the_two_dockerfiles_differ_in_what_a_gpu_asks_for_alone() -> None:
    cpu, gpu = (image_text.dockerfile(kind, KNOWN).splitlines() for kind in KINDS)
    only = [line for line in gpu if line not in cpu]
    assert len(only) == 8
    assert {line.strip() for line in only if "NVIDIA" in line} == {
        "NVIDIA_VISIBLE_DEVICES=all \\",
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    }


@BOTH
def test_a_dockerfile_holds_what_every_image_here_has(kind: ImageKind) -> None:
    text = image_text.dockerfile(kind, KNOWN)
    stages = re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE)
    assert stages == ["base", "plan", "torch", "packages", "lab"]
    assert f"ARG BASE_IMAGE={image_text.BASE_IMAGE}\n" in text
    assert re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+-[a-z-]+", image_text.BASE_IMAGE)
    assert "--target image --layers /plan" in text
    assert '--adopt --env-name "$(readlink -f .envs/current)"' in text  # the base of conda is an environment too
    assert re.search(r"^USER \$\{LAB_USER\}$", text, re.MULTILINE)
    assert "ARG LAB_USER=lab" in text
    assert "--quick" in text.partition("HEALTHCHECK")[2]
    for label in (naming.OURS, naming.PROFILE, naming.REGISTRY, naming.REQUIREMENTS, naming.COMMIT):
        assert f"{label}=" in text
    assert KNOWN.digest in text
    assert not re.search(r"(?i)password|token|secret", text)


@BOTH
def test_code_comes_after_packages_and_the_commit_last(kind: ImageKind) -> None:
    text = image_text.dockerfile(kind, KNOWN)
    order = ["torch.sh", "packages.sh", "--adopt", "COPY . ./", 'ARG COMMIT=""']
    places = [text.index(part) for part in order]
    assert places == sorted(places)


@BOTH
def test_conda_s_file_gives_python_and_isolation_alone(kind: ImageKind) -> None:
    content = yaml.safe_load(image_text.conda_file(kind, KNOWN))
    profile = KNOWN.get(kind.profile)
    assert content["name"] == profile.environment
    assert content["dependencies"] == [f"python={profile.python[-1]}", "pip"]
    assert content["variables"] == {"PYTHONNOUSERSITE": "1", "PYTHONPATH": ""}


def test_each_profile_has_the_kind_of_its_gate() -> None:
    assert image_text.kind_of(KNOWN.get("TRAIN-CPU")) is CPU
    assert image_text.kind_of(KNOWN.get("PERF-DELIVERY")) is CPU
    assert image_text.kind_of(KNOWN.get("INF-VLLM-MTP")) is GPU


def test_a_mark_without_a_value_is_a_defect() -> None:
    with pytest.raises(KeyError):
        image_text.filled("Dockerfile.in", {})

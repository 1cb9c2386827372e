"""The runtime snapshot: collected without torch, with a reason where something is not known."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from sample_records import DIGEST, H200

from experiments.evidence import runtime_snapshot
from experiments.evidence.runtime import Threads
from tools.environments.layout import ROOT
from tools.environments.machine import host_facts


def test_this_machine() -> None:
    found = runtime_snapshot.collect(threads=Threads(intra_op=2))
    assert found.python == platform.python_version()
    assert found.host.machine == platform.machine()
    assert found.host.cores == host_facts.cores()
    assert found.packages["jsonschema"] == metadata.version("jsonschema")
    assert found.devices == ()
    assert found.threads.intra_op == 2
    assert platform.node() not in str(found.host)


def test_what_was_asked_in_a_child_is_passed_on() -> None:
    found = runtime_snapshot.collect(
        torch="2.11.0+cu130", torch_cuda="13.0", cudnn="9.1", driver="580.1", devices=[H200]
    )
    assert (found.torch, found.torch_cuda, found.cudnn, found.driver) == ("2.11.0+cu130", "13.0", "9.1", "580.1")
    assert found.devices == (H200,)


def test_collecting_imports_no_torch() -> None:
    code = (
        "import sys\nfrom experiments.evidence import runtime_snapshot\nruntime_snapshot.collect()\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_image_is_named_by_who_started_it() -> None:
    assert runtime_snapshot.image({runtime_snapshot.IMAGE_VARIABLE: DIGEST}).digest == DIGEST


@pytest.mark.parametrize("given", ["", "latest", "sha256:abc", DIGEST + "\n"])
def test_without_a_digest_there_is_a_reason(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for runtime, reason in ((None, "not in a container"), ("docker", "in a container (docker)")):
        monkeypatch.setattr(host_facts, "container", lambda environ, runtime=runtime: runtime)
        found = runtime_snapshot.image({runtime_snapshot.IMAGE_VARIABLE: given})
        assert found.digest is None
        assert found.reason is not None
        assert found.reason.startswith(reason)


def test_the_cpu_model_is_read_or_left_out(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz  \nmodel name\t: Other\n")
    assert runtime_snapshot.cpu_model(info) == "Some CPU @ 2 GHz"
    info.write_text("processor\t: 0\n")
    assert runtime_snapshot.cpu_model(info) is None


def test_a_package_with_broken_metadata_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "torch":
            raise KeyError("Version")
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    assert runtime_snapshot.installed() == {}

"""The choice of torch: exact build, chosen from what was really listed, refused with the option that fixes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.environments.errors import LabError
from tools.environments.model import TorchPin
from tools.environments.sources import torch_wheel
from tools.environments.sources.index_settings import IndexSettings
from tools.environments.sources.torch_wheel import Sources, TorchChoice

CPU = TorchPin(">=2.11,<2.14", "cpu", None, "https://download.pytorch.org/whl/cpu")
CU128 = TorchPin("==2.11.0", "cu128", "12.8", "https://download.pytorch.org/whl/cu128")
LINUX = "linux-x86_64"


def name(version: str, tag: str = "cp311", platform: str = "manylinux_2_28_x86_64") -> str:
    return f"torch-{version}-{tag}-{tag}-{platform}.whl"


def page(*names: str) -> torch_wheel.Reader:
    return lambda address, limit: names


def unreachable(address: str, limit: float) -> torch_wheel.Names:
    raise LabError("an index that answers", "no answer (Name or service not known)", "", address)


def folder(tmp_path: Path, *names: str) -> str:
    for entry in names:
        (tmp_path / entry).touch()
    return str(tmp_path)


def test_takes_the_newest_of_the_build_that_the_range_admits() -> None:
    names = (name("2.14.0+cpu"), name("2.13.0+cpu"), name("2.12.1+cpu"), name("2.13.1+cu130"), name("2.13.1"))
    chosen = torch_wheel.choose(CPU, "3.11.7", LINUX, Sources(index=CPU.index), read=page(*names))
    assert chosen == TorchChoice("2.13.0+cpu", CPU.index, "index")
    assert chosen.requirement == "torch==2.13.0+cpu"


def test_the_files_own_pin_is_preferred_where_a_place_has_it() -> None:
    names = (name("2.13.0+cpu"), name("2.12.1+cpu"))
    sources = Sources(index=CPU.index)
    chosen = torch_wheel.choose(CPU, "3.11", LINUX, sources, preferred="2.12.1+cpu", read=page(*names))
    assert chosen.version == "2.12.1+cpu"
    chosen = torch_wheel.choose(CPU, "3.11", LINUX, sources, preferred="2.11.5+cpu", read=page(*names))
    assert chosen.version == "2.13.0+cpu"


def test_a_wheel_folder_wins_and_no_network_is_asked(tmp_path: Path) -> None:
    place = folder(tmp_path, name("2.13.0+cpu"))
    chosen = torch_wheel.choose(CPU, "3.11", LINUX, Sources((place,), CPU.index), read=unreachable)
    assert chosen == TorchChoice("2.13.0+cpu", place, "folder")


def test_a_cuda_wheel_in_the_folder_is_never_a_cpu_profiles_torch(tmp_path: Path) -> None:
    place = folder(tmp_path, name("2.13.0"), name("2.13.0+cu130"))
    with pytest.raises(LabError) as caught:
        torch_wheel.choose(CPU, "3.11", LINUX, Sources((place,), CPU.index, offline=True))
    assert "only torch" in caught.value.found
    assert "+cu130" not in caught.value.next


def test_cuda_takes_its_exact_build_only() -> None:
    names = (name("2.11.0+cu130"), name("2.11.0+cu128"), name("2.11.0"))
    assert torch_wheel.choose(CU128, "3.11", LINUX, Sources(index="x"), read=page(*names)).version == "2.11.0+cu128"


def test_escaped_names_as_an_index_writes_them() -> None:
    names = ("torch-2.13.0%2Bcpu-cp312-cp312-manylinux_2_28_x86_64.whl",)
    assert torch_wheel.choose(CPU, "3.12", LINUX, Sources(index="x"), read=page(*names)).version == "2.13.0+cpu"


@pytest.mark.parametrize(
    ("entry", "platform", "fits"),
    [
        (name("2.13.0+cpu"), LINUX, True),
        (name("2.13.0+cpu", "cp312"), LINUX, False),
        (name("2.13.0+cpu", platform="manylinux_2_28_aarch64"), LINUX, False),
        (name("2.13.0+cpu", platform="manylinux_2_28_aarch64"), "linux-aarch64", True),
        (name("2.13.0+cpu", platform="musllinux_1_2_x86_64"), LINUX, False),
        (name("2.13.0+cpu", platform="win_amd64"), LINUX, False),
        (name("2.13.0", platform="macosx_11_0_arm64"), "darwin-arm64", True),
        ("torch-2.13.0+cpu-cp311-cp311t-manylinux_2_28_x86_64.whl", LINUX, False),
        ("torchvision-0.26.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl", LINUX, False),
        ("torch-2.13.0+cpu.tar.gz", LINUX, False),
        ("torch-not.a.version-cp311-cp311-manylinux_2_28_x86_64.whl", LINUX, False),
    ],
)
def test_what_runs_here(entry: str, platform: str, fits: bool) -> None:
    assert (torch_wheel.suitable(entry, "3.11", platform) is not None) == fits


def test_macos_wheels_carry_no_local_part() -> None:
    names = (name("2.13.0", platform="macosx_11_0_arm64"),)
    assert torch_wheel.choose(CPU, "3.11", "darwin-arm64", Sources(index="x"), read=page(*names)).version == "2.13.0"


def test_a_flat_mirror_is_read_where_there_is_no_page_a_project() -> None:
    def read(address: str, limit: float) -> torch_wheel.Names:
        if address.endswith("/torch/"):
            raise LabError("an index that has this file", "HTTP 404", "", address)
        return (name("2.13.0+cpu"),)

    chosen = torch_wheel.choose(CPU, "3.11", LINUX, Sources(index="https://mirror.example/cpu"), read=read)
    assert chosen == TorchChoice("2.13.0+cpu", "https://mirror.example/cpu/", "page")


def test_another_python_than_the_folder_is_for_says_which_would_do(tmp_path: Path) -> None:
    place = folder(tmp_path, name("2.13.0+cpu", "cp311"))
    with pytest.raises(LabError) as caught:
        torch_wheel.choose(CPU, "3.12", LINUX, Sources((place,), CPU.index), read=unreachable, also=("3.11", "3.12"))
    error = caught.value
    assert "CPU build for Python 3.12" in error.wanted
    assert "2.13.0+cpu for cp311" in error.found
    assert "Name or service not known" in error.found
    assert "--python 3.11" in error.next
    assert "--torch-index" in error.next
    assert "--find-links" in error.next


def test_a_page_of_wheels_given_by_address_is_read() -> None:
    place = "https://user:secret@wheels.example/all"
    chosen = torch_wheel.choose(CPU, "3.11", LINUX, Sources((place,), "x"), read=page(name("2.13.0+cpu")))
    assert chosen.kind == "page"
    with pytest.raises(LabError) as caught:
        torch_wheel.choose(CPU, "3.11", LINUX, Sources((place,), CPU.index), read=unreachable)
    assert "secret" not in str(caught.value)


def test_an_index_without_the_build_says_what_it_has() -> None:
    with pytest.raises(LabError) as caught:
        torch_wheel.choose(CPU, "3.11", LINUX, Sources(index=CPU.index), read=page(name("2.9.0+cpu")))
    assert "2.9.0+cpu for cp311" in caught.value.found


def test_an_unreadable_folder_is_a_finding(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        torch_wheel.choose(CPU, "3.11", LINUX, Sources((str(tmp_path / "gone"),), "", offline=True))
    assert "No such file" in caught.value.found


def test_the_settings_name_the_places() -> None:
    settings = IndexSettings(torch_index="https://mirror.example/cpu", find_links=("/wheels",), offline=True)
    assert torch_wheel.sources(CPU, settings) == Sources(("/wheels",), "https://mirror.example/cpu", True)
    assert torch_wheel.sources(CPU, IndexSettings()).index == CPU.index

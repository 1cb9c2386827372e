"""Lending wheel folders over loopback: real requests, to a page that pip and our own reader understand."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tools.containers import lending
from tools.environments.errors import LabError
from tools.environments.sources import indexes

LINUX = sys.platform == "linux"


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "one", tmp_path / "two"]
    for folder in made:
        folder.mkdir()
        (folder / "both-1.0-py3-none-any.whl").write_text(folder.name)
    (made[0] / "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl").write_bytes(b"w" * 3_000_000)
    (made[1] / "secret.txt").write_text("secret")
    return made


def test_nothing_to_lend_is_no_server() -> None:
    with lending.lent([]) as page:
        assert page is None


def test_wheels_are_listed_and_handed_out_and_nothing_else_is(folders: list[Path]) -> None:
    with lending.lent(folders, "127.0.0.1", 0) as page:
        assert page is not None
        names = indexes.file_names(page, limit_s=5)
        assert sorted(names) == ["both-1.0-py3-none-any.whl", "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"]
        quoted = page + "torch-2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl"
        assert len(urllib.request.urlopen(quoted).read()) == 3_000_000
        assert urllib.request.urlopen(page + "both-1.0-py3-none-any.whl").read() == b"one"  # the first folder wins
        for other in ("secret.txt", "../two/secret.txt", "%2e%2e/two/secret.txt", "one/"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(page + other)
            assert refused.value.code == 404
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(page)


def test_pip_takes_a_wheel_from_it(folders: list[Path], tmp_path: Path) -> None:
    with lending.lent(folders, "127.0.0.1", 0) as page:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--no-index",
            "--find-links",
            str(page),
            "both",
        ]
        done = subprocess.run([*command, "-d", str(tmp_path)], capture_output=True, text=True, check=False)
    assert "both-1.0-py3-none-any.whl" in done.stdout + done.stderr


@pytest.mark.skipif(not LINUX, reason="only Linux answers on all of 127.0.0.0/8")
def test_the_address_is_the_checkout_s_own_and_stays(folders: list[Path]) -> None:
    addresses = {lending.address(Path(f"/some/checkout{number}")) for number in range(50)}
    assert len(addresses) > 45
    assert all(address.startswith("127.") and address != "127.0.0.1" for address in addresses)
    assert lending.address() == lending.address()
    with (
        lending.lent(folders, "127.4.5.6", 0) as page,
        pytest.raises(LabError, match="another build"),
        lending.lent(folders, "127.4.5.6", int(str(page).rsplit(":", 1)[1].strip("/"))),
    ):
        pass

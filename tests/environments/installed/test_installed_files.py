"""Files checked against RECORD, on real wheels installed by a real pip: what is missing, cut, altered, stray."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import install_checkout
import pytest

from tools.environments.errors import LabError
from tools.environments.installed import installed_files


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix into which a real pip has put three small packages."""
    folder = tmp_path_factory.mktemp("installed")
    wheels = folder / "wheels"
    wheels.mkdir()
    install_checkout.wheel(wheels, "alpha", "1.0", {"alpha/__init__.py": "a = 1\n", "alpha/deep/er/x.py": "b = 2\n"})
    install_checkout.wheel(wheels, "beta", "2.0", {"beta.py": "c = 3\n", "beta data, odd.txt": "d\n"})
    script = {
        "gamma.py": "def main(): pass\n",
        "gamma-3.0.dist-info/entry_points.txt": "[console_scripts]\ng=gamma:main\n",
    }
    install_checkout.wheel(wheels, "gamma", "3.0", script)
    prefix = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    command = [install_checkout.UV, "pip", "install", "--python", str(prefix / "bin/python"), "--offline", "--no-index"]
    command += ["--find-links", str(wheels), "--compile-bytecode", "alpha", "beta", "gamma"]
    subprocess.run(command, check=True, capture_output=True)
    return prefix


@pytest.fixture
def prefix(installed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(installed, tmp_path / "env", symlinks=True))


@pytest.fixture
def site(prefix: Path) -> Path:
    return installed_files.site_packages(prefix)


def names(sweep: installed_files.Sweep) -> list[str]:
    return [item.distribution.name for item in sweep.broken]


def test_a_whole_environment(site: Path) -> None:
    found = installed_files.sweep(site, hashes=True)
    assert found.broken == ()
    assert found.files > 10
    versions = {dist.name: dist.version for dist in installed_files.distributions(site)}
    assert versions == {"alpha": "1.0", "beta": "2.0", "gamma": "3.0"}


def test_a_missing_file(site: Path) -> None:
    (site / "alpha/deep/er/x.py").unlink()
    (broken,) = installed_files.sweep(site).broken
    assert (broken.distribution.name, broken.problem) == ("alpha", "alpha/deep/er/x.py is missing")


def test_a_name_with_a_comma_is_looked_at_too(site: Path) -> None:
    (site / "beta data, odd.txt").unlink()
    assert names(installed_files.sweep(site)) == ["beta"]


def test_a_file_cut_short(site: Path) -> None:
    (site / "beta.py").write_text("c")
    (broken,) = installed_files.sweep(site).broken
    assert "1 bytes instead of 6" in broken.problem


def test_content_of_the_same_length_needs_hashes(site: Path) -> None:
    (site / "beta.py").write_text("c = 4\n")
    assert installed_files.sweep(site).broken == ()
    assert "other content" in installed_files.sweep(site, hashes=True).broken[0].problem


def test_a_script_in_bin_belongs_to_it(prefix: Path, site: Path) -> None:
    (prefix / "bin" / "g").unlink()
    assert names(installed_files.sweep(site)) == ["gamma"]


@pytest.mark.parametrize("content", [None, "", "alpha/__init__.py,sha256=x,6\nalpha/deep", "a,b\n"])
def test_a_record_that_is_gone_or_cut(site: Path, content: str | None) -> None:
    record = site / "alpha-1.0.dist-info" / "RECORD"
    record.unlink()
    if content is not None:
        record.write_text(content)
    assert names(installed_files.sweep(site)) == ["alpha"]


def test_bytecode_may_be_removed_by_anyone(site: Path) -> None:
    for cache in list(site.rglob("__pycache__")):
        shutil.rmtree(cache)
    assert installed_files.sweep(site, hashes=True).broken == ()


def test_what_conda_installed_keeps_another_account(prefix: Path, site: Path) -> None:
    (site / "alpha/__init__.py").unlink()
    (site / "alpha-1.0.dist-info" / "INSTALLER").write_text("conda\n")
    assert names(installed_files.sweep(site)) == ["alpha"]
    (prefix / "conda-meta").mkdir()
    assert names(installed_files.sweep(site)) == []


def test_a_broken_distribution_is_taken_out_whole(prefix: Path, site: Path) -> None:
    (site / "alpha/__init__.py").unlink()
    (site / "gamma.py").unlink()
    installed_files.remove(site, installed_files.sweep(site).broken)
    left = {
        path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if "alpha" in str(path.relative_to(prefix))
    }
    assert left == set()
    assert not (prefix / "bin" / "g").exists()
    assert [dist.name for dist in installed_files.distributions(site)] == ["beta"]
    assert installed_files.sweep(site, hashes=True).broken == ()


def test_an_entry_that_points_out_of_the_environment_is_not_deleted(prefix: Path, site: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("keep")
    record = site / "alpha-1.0.dist-info" / "RECORD"
    record.write_text(record.read_text() + f"../../../../precious.txt,,\n{precious},,\nalpha/gone.py,,\n")
    installed_files.remove(site, installed_files.sweep(site).broken)
    assert precious.read_text() == "keep"


def test_strays_are_what_nobody_claims(site: Path) -> None:
    known = installed_files.top_level(site)
    (site / "half").mkdir()
    (site / "half/__init__.py").touch()
    (site / "~lpha").mkdir()
    (site / "one.py").touch()
    strays = installed_files.strays(site, ())
    assert {"half", "~lpha", "one.py"} <= set(strays)
    assert not {"alpha", "beta.py", "beta-2.0.dist-info"} & set(strays)
    assert installed_files.strays(site, known) == ("half", "one.py", "~lpha")
    installed_files.remove_strays(site, ("half", "one.py", "~lpha"))
    assert installed_files.top_level(site) == known


def test_an_environment_without_site_packages(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        installed_files.site_packages(tmp_path)
    assert "--recreate" in caught.value.next


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n", ("2.13.0+cpu", None)),
        ("__version__ = '2.11.0+cu128'\ncuda: Optional[str] = '12.8'\n", ("2.11.0+cu128", "12.8")),
        ('cuda = "13.0"\n', ("", "13.0")),
    ],
)
def test_torch_tells_its_build_without_being_imported(site: Path, text: str, found: tuple[str, str | None]) -> None:
    assert installed_files.torch_build(site) is None
    (site / "torch").mkdir()
    (site / "torch/version.py").write_text(text)
    assert installed_files.torch_build(site) == found

"""What is foreign on sys.path, told from this interpreter with made-up paths and variables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools.environments.layout import ENVS, ROOT
from tools.environments.machine import interpreter_facts
from tools.environments.machine.interpreter_facts import ForeignEntry

OWN = f"{sys.prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def test_this_interpreter_describes_itself() -> None:
    facts = interpreter_facts.gather()
    assert (facts.executable, facts.prefix) == (sys.executable, sys.prefix)
    assert facts.version == ".".join(map(str, sys.version_info[:3]))
    assert str(ROOT) not in facts.packages


@pytest.mark.parametrize(
    "entry",
    [
        OWN,
        str(ROOT),
        str(ROOT / "tests"),
        os.path.dirname(os.__file__),
        os.path.join(os.path.dirname(os.__file__), "lib-dynload"),
        f"/usr/lib/python{sys.version_info[0]}{sys.version_info[1]}.zip",
        "",
    ],
)
def test_own_entries_are_not_foreign(entry: str) -> None:
    assert interpreter_facts.gather({}, [entry]).foreign == ()


def test_the_working_folder_is_not_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert interpreter_facts.gather({}, [str(tmp_path)]).foreign == ()


def test_a_link_to_the_checkout_is_the_checkout(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ROOT)
    facts = interpreter_facts.gather({"PYTHONPATH": str(link)}, [str(link), str(link / "tests")])
    assert (facts.foreign, facts.pythonpath) == ((), ())
    assert str(link) not in facts.packages


def test_an_environments_folder_on_another_disk_is_no_part_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter_facts, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(interpreter_facts, "ENVS", tmp_path / "checkout" / ".envs")
    (tmp_path / "checkout").mkdir()
    (tmp_path / "disk" / "another").mkdir(parents=True)
    interpreter_facts.ENVS.symlink_to(tmp_path / "disk")
    entries = [str(tmp_path / "checkout" / ".envs" / "another"), str(tmp_path / "disk" / "another")]
    assert [entry.path for entry in interpreter_facts.gather({}, entries).foreign] == entries


def test_foreign_entries_are_told_with_their_source() -> None:
    named, user, other = "/opt/ros/humble/lib", "/srv/user/.local/lib/site-packages", "/srv/project"
    environment = str(ENVS / "another" / "lib" / "site-packages")
    path = [named, OWN, user, f"{sys.base_prefix}/lib/site-packages", other, environment]
    facts = interpreter_facts.gather({"PYTHONPATH": f"{named}:{ROOT}:"}, path, user)
    expected = [ForeignEntry(named, "PYTHONPATH"), ForeignEntry(user, "user site")]
    if sys.prefix != sys.base_prefix:
        expected.append(ForeignEntry(path[3], "system Python"))
    expected += [
        ForeignEntry(other, "a .pth file or the program"),
        ForeignEntry(environment, "a .pth file or the program"),
    ]
    assert list(facts.foreign) == expected
    assert facts.pythonpath == (named,)
    assert facts.user_site == user


def test_what_the_registration_took_off_is_remembered() -> None:
    facts = interpreter_facts.gather({"TMLAB_STRIPPED_PYTHONPATH": f"/opt/ros/lib:{ROOT}"}, [OWN])
    assert facts.stripped == ("/opt/ros/lib",)


@pytest.mark.parametrize(
    ("folders", "base", "kind"),
    [
        ((), "/elsewhere", "venv"),
        (("conda-meta",), "", "conda"),
        (("conda-meta", "condabin"), "", "conda-base"),
        ((), "", "base"),
    ],
)
def test_kind_of_environment(tmp_path: Path, folders: tuple[str, ...], base: str, kind: str) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir()
    assert interpreter_facts.environment_kind(str(tmp_path), base or str(tmp_path)) == kind


def test_user_site_comes_from_site_where_it_is_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    site = sys.modules["site"]
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(site, "USER_SITE", "/srv/user/site")
    assert interpreter_facts.gather({}, ["/srv/user/site"]).user_site == "/srv/user/site"
    assert interpreter_facts.gather({}, [OWN]).user_site is None
    monkeypatch.setattr(site, "ENABLE_USER_SITE", False)
    assert interpreter_facts.gather({}, ["/srv/user/site"]).user_site is None


@pytest.mark.parametrize(
    ("isolated", "ignores", "no_user", "flags"),
    [(1, 1, 1, ("-I",)), (0, 0, 0, ()), (0, 1, 0, ("-E",)), (0, 0, 1, ("-s",)), (0, 1, 1, ("-E", "-s"))],
)
def test_children_get_the_same_isolation(
    monkeypatch: pytest.MonkeyPatch, isolated: int, ignores: int, no_user: int, flags: tuple[str, ...]
) -> None:
    made_up = type("Flags", (), {"isolated": isolated, "ignore_environment": ignores, "no_user_site": no_user})
    monkeypatch.setattr(sys, "flags", made_up)
    assert interpreter_facts.gather({}, []).flags == flags

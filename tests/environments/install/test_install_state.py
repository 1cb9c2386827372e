"""What lies at an environment's place: kept until a new one can be made, never taken for finished when it is not."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import install_checkout
import pytest
from install_checkout import Checkout, answered

from tools.environments.install import install, install_state
from tools.environments.install.install_text import Narrator
from tools.environments.install.planning import InstallRequest
from tools.environments.installed import environment_lock, installed_files, stamp
from tools.environments.registry import registry
from tools.environments.sources.index_settings import IndexSettings


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return install_checkout.installed(tmp_path_factory.mktemp("template"))


@pytest.fixture
def ready(template: Checkout) -> Checkout:
    return install_checkout.put_back(template)


def everything(checkout: Checkout) -> dict[str, tuple[int, int]]:
    """Every file of the environment with its size and its time of change."""
    found = {path: path.lstat() for path in checkout.prefix().rglob("*") if "__pycache__" not in path.parts}
    return {str(path): (seen.st_size, seen.st_mtime_ns) for path, seen in found.items()}


def closed_address() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}/simple"


def need_a_huge_disk(checkout: Checkout) -> None:
    path = checkout.root / "requirements" / "environment-profiles.json"
    document = json.loads(path.read_text())
    document["profiles"][0]["host"]["disk_gib"] = 10**7
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("stopped_by", ["gate", "torch", "index"])
def test_recreate_keeps_the_old_one_where_a_new_one_is_blocked(ready: Checkout, stopped_by: str) -> None:
    before, journal = everything(ready), ready.journal()
    wheels = ("--find-links", str(ready.wheels))
    if stopped_by == "gate":
        need_a_huge_disk(ready)
        told = answered(ready, "--recreate", code=1)
        assert told["error"]["where"] == "host.disk"
    elif stopped_by == "torch":
        empty = ready.root / "empty"
        empty.mkdir()
        arguments = ("--recreate", "--find-links", str(empty), "--torch-index", closed_address())
        told = answered(ready, *arguments, code=1, offline=False)
        assert "torch" in told["error"]["wanted"]
    else:
        told = answered(ready, "--recreate", *wheels, "--index-url", closed_address(), code=1, offline=False)
        assert "index that answers" in told["error"]["wanted"]
    assert everything(ready) == before
    assert ready.journal() == journal
    assert install_checkout.put_back(ready).install("--locate").returncode == 0


def test_recreate_says_what_it_removed_once_it_could(ready: Checkout) -> None:
    (ready.prefix() / "mine.txt").touch()
    lines = ready.install("--recreate", "--backend", "uv").stdout.splitlines()
    named = [line.split()[0] for line in lines]
    assert named.index("host") < named.index("remove") < named.index("create")
    assert not (ready.prefix() / "mine.txt").exists()


def test_a_removal_that_was_stopped_half_way_starts_over(ready: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder cannot be put aside at once: the journal was begun anew before, so half of it is no riddle."""

    def half(prefix: Path, state: Path) -> None:
        (prefix / stamp.FILE_NAME).unlink()
        shutil.rmtree(prefix / "bin")
        raise KeyboardInterrupt

    monkeypatch.setattr(install_state, "discard", half)
    settings = IndexSettings(find_links=(str(ready.wheels),), offline=True)
    request = InstallRequest("TINY-CPU", backend="uv", recreate=True, settings=settings)
    with pytest.raises(KeyboardInterrupt):
        install.install(request, ready.environ, Narrator(io.StringIO()), ready.root)
    assert "starting over: it was interrupted in step create" in ready.install("--backend", "uv").stdout
    assert answered(ready)["status"] == "current"


@pytest.mark.parametrize("lost", ["", "package", "file"])
def test_a_lost_stamp_is_written_again_once_all_is_checked(ready: Checkout, lost: str) -> None:
    site = installed_files.site_packages(ready.prefix())
    (ready.prefix() / stamp.FILE_NAME).unlink()
    if lost == "package":
        for path in site.glob("tiny_beta*"):
            shutil.rmtree(path)
    if lost == "file":
        (site / "tiny_alpha" / "m7.py").unlink()
    told = answered(ready)
    assert told["status"] == "installed"
    assert list(told["steps"]) == ["torch", "tiny", "register", "pip-check", "preflight", "stamp"]
    assert stamp.read(ready.prefix()) is not None
    assert ready.whole().broken == ()
    assert answered(ready)["status"] == "current"


def test_a_lost_stamp_is_told_for_what_it_is(ready: Checkout) -> None:
    (ready.prefix() / stamp.FILE_NAME).unlink()
    assert "resuming at torch: its stamp is gone" in ready.install().stdout


def test_a_damaged_journal_beside_a_whole_stamp_stops_nothing(ready: Checkout) -> None:
    (ready.state() / "journal.jsonl").write_bytes(b"\x00\xff rubbish\n\x07\n")
    assert answered(ready)["status"] == "current"
    assert answered(ready, "--locate")["status"] == "current"
    (ready.prefix() / stamp.FILE_NAME).unlink()
    assert "is damaged" in answered(ready, code=1)["error"]["found"]
    shutil.rmtree(ready.prefix())
    assert answered(ready)["status"] == "installed"


def test_a_file_or_a_folder_of_the_wrong_kind_is_to_be_moved_away(ready: Checkout) -> None:
    (ready.prefix() / stamp.FILE_NAME).unlink()
    journal = ready.state() / "journal.jsonl"
    journal.unlink()
    journal.mkdir()
    told = answered(ready, code=1)
    assert "move the folder away" in told["error"]["next"]
    assert "journal.jsonl" in told["error"]["found"]
    shutil.rmtree(ready.state())
    ready.state().touch()
    assert "move the file away" in answered(ready, code=1)["error"]["next"]


@pytest.mark.race
def test_ctrl_c_before_the_removal_asks_for_it_again_and_after_it_does_not(ready: Checkout) -> None:
    arguments = ("--backend", "uv", "--recreate")
    with environment_lock.hold(ready.state() / "lock", "a test", print):
        child = ready.start(*arguments)
        assert child.stdout is not None
        assert "waiting for" in child.stdout.readline()
        os.killpg(child.pid, signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "--recreate" in out.partition("resume ")[2]
    assert (ready.prefix() / stamp.FILE_NAME).exists()
    child = ready.start(*arguments)
    while (ready.prefix() / stamp.FILE_NAME).exists() and child.poll() is None:
        time.sleep(0.001)
    assert ready.wait_for("start", "create", child)  # in the journal that was begun before the removal
    os.killpg(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert out.partition("resume ")[2]
    assert "--recreate" not in out.partition("resume ")[2]


def test_a_repair_holds_what_was_asked(tmp_path: Path) -> None:
    profile = registry.load().get("TRAIN-CPU")
    assert install_state.asked(InstallRequest(profile.id)) == ""
    asked = install_state.asked(InstallRequest(profile.id, backend="uv", python="/opt/my python/bin/python3.12"))
    assert asked == " --backend uv --python '/opt/my python/bin/python3.12'"
    lines = install_state.refused(profile, tmp_path / "x", ["another"], asked).next.splitlines()
    assert [line.endswith(asked) for line in lines] == [True, True]


def test_room_that_a_cache_shares_is_not_given_back(tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "own").write_bytes(b"x" * 2**20)
    (tmp_path / "cached").write_bytes(b"x" * 2**20)
    os.link(tmp_path / "cached", tmp_path / "environment" / "shared")
    assert install_state.size_gib(tmp_path / "environment") == 2 / 1024
    assert install_state.size_gib(tmp_path / "environment", alone=True) == 1 / 1024

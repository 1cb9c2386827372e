"""What a build gets to see: what .dockerignore lets in, nothing private, the same for every user and umask."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from tools.containers import context, image_text
from tools.environments.layout import ROOT

docker = pytest.importorskip("docker", reason="the Docker SDK is in the environment of the tests")


def test_what_runs_in_an_image_is_in_and_nothing_else() -> None:
    names = context.names(ROOT, image_text.CPU.dockerfile)
    tops = {name.partition("/")[0] for name in names}
    assert tops == {
        ".dockerignore",  # for the engine, which leaves it out of the image
        ".ide",
        "LICENSE",
        "cnb",
        "experiments",
        "noxfile.py",
        "pyproject.toml",
        "requirements",
        "tasks.py",
        "tools",
    }
    assert {"tools/environments/install/image_layers.py", "requirements/environment-profiles.json", "cnb/enter.sh"} <= {
        *names
    }
    assert {name for name in names if name.startswith(".ide/")} == {".ide/Dockerfile", ".ide/certificates/README.md"}
    assert not [name for name in names if name.endswith(".pyc") or "__pycache__" in name]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the things a user's folder holds and an image must not."""
    (tmp_path / ".dockerignore").write_text((ROOT / ".dockerignore").read_text(encoding="utf-8"), encoding="utf-8")
    for name in (
        *(
            ".env",
            ".git/config",
            ".envs/e/bin/python",
            "runs/x/record.json",
            "id_rsa",
            "docs/guide.md",
            "tests/test_a.py",
        ),
        *(".ide/Dockerfile", ".ide/Dockerfile.gpu", ".ide/certificates/README.md", ".ide/certificates/own.crt"),
        *("tools/__init__.py", "tools/__pycache__/a.pyc", "experiments/a.py", "experiments/.ipynb_checkpoints/a.py"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "tools" / "script.sh").write_text("#!/bin/sh\n")
    (tmp_path / "tools" / "script.sh").chmod(0o700)
    (tmp_path / "experiments" / "a.py").chmod(0o600)
    (tmp_path / "tools" / "link").symlink_to("__init__.py")
    return tmp_path


def test_an_archive_tells_nothing_of_its_maker(checkout: Path) -> None:
    certificate = checkout / "given.pem"
    certificate.write_text("certificate")
    with context.pack(checkout, ".ide/Dockerfile", certificate) as packed, tarfile.open(fileobj=packed) as archive:
        members = {member.name: member for member in archive}
        given = archive.extractfile(context.CERTIFICATE)
        assert given is not None
        assert given.read() == b"certificate"
    assert set(members) == {
        *(".dockerignore", ".ide/Dockerfile", ".ide/certificates/README.md", ".ide/certificates/own.crt"),
        *(context.CERTIFICATE, "tools/__init__.py", "tools/script.sh", "tools/link", "experiments/a.py"),
    }
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members.values()} == {(0, 0, "", "")}
    assert members["experiments/a.py"].mode == 0o644
    assert members["tools/script.sh"].mode == 0o755
    assert members["tools/link"].issym()


def test_a_file_that_cannot_be_read_is_an_error_of_the_system(checkout: Path) -> None:
    (checkout / "experiments" / "gone.py").symlink_to("nowhere")
    with context.pack(checkout, ".ide/Dockerfile") as packed, tarfile.open(fileobj=packed) as archive:
        assert "experiments/gone.py" not in archive.getnames()
    if os.geteuid() != 0:
        (checkout / "experiments" / "a.py").chmod(0)
        with pytest.raises(OSError, match=r"a\.py"):
            context.pack(checkout, ".ide/Dockerfile")

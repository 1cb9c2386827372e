"""The command lines of conda, uv and venv, and which of them is taken."""

from __future__ import annotations

import pytest

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.install import backends
from tools.environments.install.backends import Conda, Target, Uv, Venv
from tools.environments.sources.index_settings import IndexSettings

MIRROR = "https://user:secret@mirror.example/simple"


def target(*, prefix: str = ".envs/lab", image: bool = False, **settings: object) -> Target:
    return Target("lab", prefix, ".envs/.install/lab", IndexSettings(**settings), image=image)  # type: ignore[arg-type]


def test_auto_takes_conda_then_uv_then_venv() -> None:
    assert backends.choose("auto", conda="/c/conda", uv="/u/uv") == "conda"
    assert backends.choose("auto", conda=None, uv="/u/uv") == "uv"
    assert backends.choose("auto", conda=None, uv=None) == "venv"
    assert backends.choose("venv", conda="/c/conda", uv="/u/uv") == "venv"


def test_an_unknown_backend_is_wrong_usage() -> None:
    with pytest.raises(LabError) as caught:
        backends.choose("poetry", conda=None, uv=None)
    assert caught.value.code == EXIT_USAGE


def test_a_named_tool_that_is_not_there() -> None:
    for backend in ("conda", "uv"):
        found = backends.missing(backend, conda=None, uv=None)  # type: ignore[arg-type]
        assert found is not None
        assert "venv" in found.next
    assert backends.missing("venv", conda=None, uv=None) is None
    assert backends.missing("uv", conda=None, uv="/u/uv") is None


def test_uv() -> None:
    uv = Uv(target(), "/u/uv", "/usr/bin/python3.11")
    assert uv.create() == (("/u/uv", "venv", "--seed", "--python", "/usr/bin/python3.11", ".envs/lab"),)
    assert uv.install(("-r", "x.txt")) == ("/u/uv", "pip", "install", "--python", ".envs/lab/bin/python", "-r", "x.txt")
    assert uv.check() == ("/u/uv", "pip", "check", "--python", ".envs/lab/bin/python")
    assert uv.environment()["UV_PYTHON_DOWNLOADS"] == "never"
    assert uv.activate() == "source .envs/lab/bin/activate"


def test_venv_brings_pips_own_wheel() -> None:
    venv = Venv(target(), "/usr/bin/python3.11")
    assert venv.create() == (("/usr/bin/python3.11", "-m", "venv", "--without-pip", ".envs/lab"),)
    assert venv.upgrade_pip()[:3] == (".envs/lab/bin/python", ".envs/.install/lab/pip-wheel/pip", "install")
    assert venv.check() == (".envs/lab/bin/python", "-m", "pip", "check")
    assert venv.remove() == "rm -rf .envs/lab"


def test_conda_is_the_reference_commands() -> None:
    conda = Conda(target(prefix=""), "conda", "3.12")
    create, isolate = conda.create()
    assert create == ("conda", "create", "-n", "lab", "python=3.12", "-y")
    assert isolate == ("conda", "env", "config", "vars", "set", "-n", "lab", "PYTHONNOUSERSITE=1", "PYTHONPATH=")
    run = ("conda", "run", "--no-capture-output", "-n", "lab", "python")
    assert conda.upgrade_pip() == (*run, "-m", "pip", "install", "--upgrade", "pip")
    assert conda.activate() == "conda activate lab"
    assert conda.remove() == "conda env remove -n lab -y"


def test_no_bytecode_on_a_host_and_all_of_it_in_an_image() -> None:
    assert "--no-compile" in Venv(target(), "p").install(("x",))
    assert "--no-compile" not in Venv(target(image=True), "p").install(("x",))
    assert "--compile-bytecode" not in Uv(target(), "uv", "p").install(("x",))
    assert "--compile-bytecode" in Uv(target(image=True), "uv", "p").install(("x",))


@pytest.mark.parametrize("kind", ["uv", "venv", "conda"])
def test_addresses_go_by_environment_and_never_as_arguments(kind: str) -> None:
    here = target(index_url=MIRROR)
    commands = {"uv": Uv(here, "uv", "p"), "venv": Venv(here, "p"), "conda": Conda(here, "conda", "3.12")}[kind]
    argvs = [*commands.create(), commands.upgrade_pip(), commands.install(("x",)), commands.check()]
    assert "secret" not in str(argvs)
    env = commands.environment("https://token@torch.example/cpu")
    names = ("UV_DEFAULT_INDEX", "UV_INDEX") if kind == "uv" else ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
    assert [env[name] for name in names] == [MIRROR, "https://token@torch.example/cpu"]


def test_two_indexes_are_one_pool_for_uv_as_they_are_for_pip() -> None:
    uv = Uv(target(), "uv", "p")
    assert uv.environment("https://torch.example")["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert "UV_INDEX_STRATEGY" not in uv.environment()


@pytest.mark.parametrize("kind", ["uv", "venv"])
def test_offline_uses_folders_alone(kind: str) -> None:
    here = target(find_links=("/wheels", "/more wheels"), offline=True, index_url=MIRROR)
    commands = Uv(here, "uv", "p") if kind == "uv" else Venv(here, "p")
    argv = commands.install(("x",))
    assert argv[-6:] == ("--no-index", "--find-links", "/wheels", "--find-links", "/more wheels", "x")
    assert ("--offline" in argv) == (kind == "uv")
    assert commands.unpacks_pip
    assert "mirror" not in str(commands.environment())


def test_conda_offline_says_so() -> None:
    assert "--offline" in Conda(target(find_links=("/w",), offline=True), "conda", "3.12").create()[0]


def test_what_pips_own_file_says_of_the_network_is_carried() -> None:
    carried = target(network={"PIP_PROXY": "http://p.example", "PIP_RETRIES": "9"})
    env = Venv(carried, "p").environment()
    assert (env["PIP_PROXY"], env["PIP_RETRIES"], env["PIP_CONFIG_FILE"]) == ("http://p.example", "9", "/dev/null")

"""Registration against real virtual environments: what a started interpreter really sees."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tools.environments.errors import LabError
from tools.environments.installed import registration
from tools.environments.layout import ROOT

SCRIPT = ROOT / "tools" / "register_notebook_runtime.py"


@pytest.fixture(scope="module")
def bare_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = (
        tmp_path_factory.mktemp("envs") / "lab env ö"
    )  # a space and a letter outside ASCII, as in real home folders
    venv.create(prefix, with_pip=False, symlinks=True)
    return prefix


@pytest.fixture
def environment(bare_environment: Path) -> Path:
    registration.remove(site_of(bare_environment))
    return bare_environment


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small stand-in for another clone: what is registered is a folder, whatever it holds."""
    root = tmp_path / "höme" / "other clone"
    for package in ("tools", "experiments"):
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").touch()
    return root


def site_of(prefix: Path) -> Path:
    return prefix / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def started(prefix: Path, code: str, cwd: Path, *flags: str, **environ: str) -> str:
    """What a fresh interpreter of `prefix` prints for `code`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TMLAB"))}
    command = [str(prefix / "bin" / "python"), *flags, "-c", code]
    child = subprocess.run(command, cwd=cwd, env={**clean, **environ}, capture_output=True, text=True, check=True)
    assert child.stderr == ""
    return child.stdout.strip()


def script(prefix: Path, *arguments: str, cwd: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [str(prefix / "bin" / "python"), "-I", str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=cwd, env={**os.environ, **environ}, capture_output=True, text=True, check=False)


def test_both_packages_import_from_any_folder_once_registered(environment: Path, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        started(environment, "import tools", tmp_path)
    assert registration.register(site_of(environment))
    seen = started(
        environment, "import tools, experiments; print(tools.__file__, experiments.__file__, sep='|')", tmp_path
    )
    assert seen == f"{ROOT / 'tools' / '__init__.py'}|{ROOT / 'experiments' / '__init__.py'}"


def test_registering_again_changes_nothing(environment: Path) -> None:
    site = site_of(environment)
    assert registration.register(site)
    before = (site / registration.PTH_NAME).stat()
    assert not registration.register(site)
    assert (site / registration.PTH_NAME).stat().st_mtime_ns == before.st_mtime_ns
    assert [path.name for path in site.glob("*tmlab*")] == []


def test_an_installed_tools_package_does_not_win(environment: Path, tmp_path: Path) -> None:
    stranger = site_of(environment) / "tools"
    stranger.mkdir()
    (stranger / "__init__.py").touch()
    try:
        registration.register(site_of(environment))
        assert started(environment, "import tools; print(tools.__file__)", tmp_path) == str(
            ROOT / "tools" / "__init__.py"
        )
    finally:
        shutil.rmtree(stranger)


def test_the_standard_library_stays_in_front_of_the_checkout(environment: Path, checkout: Path, tmp_path: Path) -> None:
    (checkout / "json.py").write_text("raise SystemExit('the checkout shadowed the standard library')")
    registration.register(site_of(environment), checkout)
    assert started(environment, "import json; print(json.dumps(1))", tmp_path) == "1"


@pytest.mark.parametrize("flags", [(), ("-s",), ("-E",), ("-I",), ("-P",)])
def test_pythonpath_is_taken_off_and_remembered(environment: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    registration.register(site_of(environment))
    ros = tmp_path / "ros" / "site-packages"
    ros.mkdir(parents=True)
    (ros / "tools.py").touch()
    code = (
        "import sys, os, json, tools; left = os.environ.get('PYTHONPATH'); "
        f"print(json.dumps([sys.path, left, os.environ['{registration.STRIPPED_VARIABLE}'], tools.__file__]))"
    )
    given = f"{ros}{os.pathsep}relative{os.pathsep}"
    path, left, remembered, origin = json.loads(started(environment, code, tmp_path, *flags, PYTHONPATH=given))
    assert str(ros) not in path
    assert str(tmp_path / "relative") not in path
    assert left is None
    assert remembered == given
    assert origin == str(ROOT / "tools" / "__init__.py")


def test_an_empty_pythonpath_is_nothing_to_remember(environment: Path, tmp_path: Path) -> None:
    registration.register(site_of(environment))
    code = f"import os; print(os.environ.get('PYTHONPATH'), os.environ.get('{registration.STRIPPED_VARIABLE}'))"
    assert started(environment, code, tmp_path, PYTHONPATH="") == "None None"


def test_pythonpath_that_names_what_every_start_needs_breaks_nothing(environment: Path, tmp_path: Path) -> None:
    site = site_of(environment)
    registration.register(site)
    (site / "a_module_of_the_environment.py").touch()
    given = os.pathsep.join([os.path.dirname(os.__file__), str(site), str(ROOT)])
    code = "import json, tools, a_module_of_the_environment; print('whole')"
    assert started(environment, code, tmp_path, PYTHONPATH=given) == "whole"
    (site / "a_module_of_the_environment.py").unlink()


def test_a_link_to_an_environment_is_that_environment(environment: Path, tmp_path: Path) -> None:
    """As in an image: PATH names a link, and registering through either is the same to the other."""
    link = tmp_path / "current"
    link.symlink_to(environment)
    assert registration.register(site_of(environment))
    assert not registration.register(site_of(link))
    assert registration.read(site_of(link)) == registration.read(site_of(environment))
    assert registration.check(site_of(link), python=str(link / "bin" / "python")).status == "ok"
    named = str(site_of(environment))
    assert started(link, "import json; print(1)", tmp_path, PYTHONPATH=named) == "1"


def test_without_strip_pythonpath_is_left_alone(environment: Path, tmp_path: Path) -> None:
    registration.register(site_of(environment), strip=False)
    code = "import sys, os, tools; print(sys.path.count(os.environ['PYTHONPATH']))"
    assert started(environment, code, tmp_path, PYTHONPATH=str(tmp_path / "kept")) == "1"
    assert registration.check(site_of(environment), python=str(environment / "bin" / "python")).status == "ok"


def test_a_checkout_that_is_gone_does_not_disturb_a_start(environment: Path, checkout: Path, tmp_path: Path) -> None:
    registration.register(site_of(environment), checkout)
    assert started(environment, "import tools; print(tools.__file__)", tmp_path) == str(
        checkout / "tools" / "__init__.py"
    )
    shutil.rmtree(checkout)
    assert started(environment, f"import sys; print({str(checkout)!r} in sys.path)", tmp_path) == "False"
    check = registration.check(site_of(environment))
    assert check.status == "blocked"
    assert check.found.endswith("which is gone")


def test_read_tells_only_of_a_registration_that_is_whole(environment: Path, checkout: Path) -> None:
    site = site_of(environment)
    assert registration.read(site) is None
    registration.register(site, checkout)
    assert registration.read(site) == registration.Registration(checkout, strips=True)
    target = site / registration.PTH_NAME
    whole = target.read_text()
    for torn in (whole[: len(whole) // 2], "# []\n", "# {}\n", "ö", "", whole.replace("insert", "append")):
        target.write_text(torn)
        assert registration.read(site) is None
        assert registration.check(site).status == "blocked"


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        (
            "import sys; sys.modules['tools'] = type(sys)('tools'); sys.modules['tools'].__file__ = '/elsewhere'",
            "tools comes from",
        ),
        ("import sys; sys.modules['experiments'] = None", "ModuleNotFoundError"),
        ("import os; os._exit(3)", "does not start as it should"),
    ],
)
def test_the_proof_runs_the_interpreter_and_finds_what_spoils_it(environment: Path, fault: str, finding: str) -> None:
    site = site_of(environment)
    registration.register(site)
    spoiler = site / "zz_spoiler.pth"
    spoiler.write_text(fault + "\n")
    try:
        check = registration.check(site, python=str(environment / "bin" / "python"))
    finally:
        spoiler.unlink()
    assert check.status == "blocked"
    assert finding in check.found
    assert check.repair == registration.COMMAND


def test_the_proof_notices_when_pythonpath_gets_through(environment: Path) -> None:
    site = site_of(environment)
    registration.register(site)
    late = site / "zz_spoiler.pth"
    late.write_text(f"import sys, os; sys.path.append(os.environ['{registration.STRIPPED_VARIABLE}'])\n")
    try:
        check = registration.check(site, python=str(environment / "bin" / "python"))
    finally:
        late.unlink()
    assert (check.status, check.found) == ("blocked", "a folder named by PYTHONPATH stays on sys.path")


def test_an_interpreter_that_is_gone_is_a_finding(environment: Path, tmp_path: Path) -> None:
    registration.register(site_of(environment))
    check = registration.check(site_of(environment), python=str(tmp_path / "no-python"))
    assert check.status == "blocked"
    assert "FileNotFoundError" in check.found


def test_a_folder_that_refuses_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="activate the environment"):
        registration.register(tmp_path / "missing")
    (tmp_path / registration.PTH_NAME).mkdir()
    with pytest.raises(LabError, match="activate the environment"):
        registration.remove(tmp_path)


def test_only_an_environment_counts_as_one(tmp_path: Path) -> None:
    assert registration.is_environment("/a", "/b")
    assert not registration.is_environment(str(tmp_path), str(tmp_path))
    (tmp_path / "conda-meta").mkdir()
    assert registration.is_environment(str(tmp_path), str(tmp_path))


def test_the_command_registers_proves_and_removes(environment: Path, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "JUPYTER_DATA_DIR": str(tmp_path / "jupyter")}
    before = script(environment, "--check", **home)
    assert before.returncode == 1
    assert "→ python tools/register_notebook_runtime.py" in before.stdout
    assert script(environment, cwd=tmp_path, **home).stdout.startswith("registered: import tools")
    assert script(environment, **home).stdout.startswith("already registered")
    after = script(environment, "--check", **home)
    assert (after.returncode, after.stderr) == (0, "")
    assert "no kernel registered yet" in after.stdout
    assert script(environment, "--remove", **home).stdout == "removed\n"
    assert script(environment, "--remove", **home).stdout == "nothing was registered here\n"


def test_the_system_python_is_not_touched_unasked(tmp_path: Path) -> None:
    child = subprocess.run([system_python(), str(SCRIPT)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert child.returncode == 2
    assert child.stderr.startswith("blocked\n  wanted the Python of an environment")
    assert "Traceback" not in child.stderr


def test_the_system_python_is_not_advised_what_it_refuses(tmp_path: Path) -> None:
    command = [system_python(), str(SCRIPT), "--check"]
    child = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    advice = next(line for line in child.stdout.splitlines() if "→" in line)
    assert "activate an environment" in advice
    assert advice.endswith(f"{registration.COMMAND} --system")


def system_python() -> str:
    return os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]  # the interpreter a venv was made from


def test_wrong_usage_is_two(environment: Path) -> None:
    assert script(environment, "--check", "--remove").returncode == 2

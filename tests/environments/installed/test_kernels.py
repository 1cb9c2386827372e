"""The kernel check, with real interpreters behind the kernelspecs and one real kernel run from another folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tools.environments.installed import kernels, registration


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two environments as a user has them; both see the packages of the environment that runs the tests."""
    folder = tmp_path_factory.mktemp("envs")
    made = {name: folder / name for name in ("llm_train_cpu", "other")}
    here = next(Path(entry) for entry in sys.path if entry.endswith("site-packages"))
    for prefix in made.values():
        venv.create(prefix, with_pip=False, symlinks=True)
        site = prefix / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        (site / "packages_of_the_tests.pth").write_text(f"{here}\n")
    return made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "jupyter"


def python_of(prefix: Path) -> str:
    return str(prefix / "bin" / "python")


def write(data: Path, name: str, *argv: str, language: str = "python") -> None:
    folder = data / "kernels" / name
    folder.mkdir(parents=True)
    spec = {"argv": [*argv, "-m", "ipykernel_launcher"], "display_name": f"Python ({name})", "language": language}
    (folder / "kernel.json").write_text(json.dumps(spec))


def test_no_kernel_yet_is_ok_and_says_how_to_make_one(environments: dict[str, Path], data: Path) -> None:
    check = kernels.check(str(environments["llm_train_cpu"]), kernels.find([data]))
    assert check.status == "ok"
    assert "no kernel registered yet" in check.found
    assert "-m ipykernel install --user --name llm_train_cpu --display-name 'Python (llm_train_cpu)'" in check.found


def test_a_kernel_that_starts_its_environment_is_ok(environments: dict[str, Path], data: Path) -> None:
    ours = environments["llm_train_cpu"]
    write(data, "llm_train_cpu", python_of(ours))
    check = kernels.check(str(ours), kernels.find([data]))
    assert (check.status, check.found, check.repair) == ("ok", "llm_train_cpu does", "")


def test_a_kernel_of_this_name_for_another_interpreter_is_blocked(environments: dict[str, Path], data: Path) -> None:
    """Fault 28: the notebook would run in another environment than the one that was installed."""
    ours, other = environments["llm_train_cpu"], environments["other"]
    write(data, "LLM_train_cpu", python_of(other))  # Jupyter compares names without case
    check = kernels.check(str(ours), kernels.find([data]))
    assert (check.id, check.status) == ("notebook.kernel", "blocked")
    assert f"an interpreter of {other}" in check.found


def test_a_kernel_whose_interpreter_is_gone_is_blocked(environments: dict[str, Path], data: Path) -> None:
    """Fault 28: the environment was removed, the kernel stayed."""
    ours = environments["llm_train_cpu"]
    write(data, "llm_train_cpu", str(data / "gone" / "bin" / "python"))
    check = kernels.check(str(ours), kernels.find([data]))
    assert check.status == "blocked"
    assert "gone or does not run" in check.found


def test_the_mend_can_be_pasted_and_mends(environments: dict[str, Path], data: Path, tmp_path: Path) -> None:
    ours = environments["llm_train_cpu"]
    write(data, "llm_train_cpu", python_of(environments["other"]))
    check = kernels.check(str(ours), kernels.find([data]))
    environment = {**os.environ, "JUPYTER_DATA_DIR": str(data), "HOME": str(tmp_path)}
    subprocess.run(["bash", "-c", check.repair], env=environment, check=True, capture_output=True)
    assert kernels.check(str(ours), kernels.find([data])).status == "ok"


def test_an_environment_moved_under_its_kernel_is_found(tmp_path: Path, data: Path) -> None:
    """bin/python still starts, as a plain link to the system's: only the answering prefix shows it."""
    hollow = tmp_path / "llm_train_cpu"
    venv.create(hollow, with_pip=False, symlinks=True)
    (hollow / "pyvenv.cfg").unlink()
    write(data, "llm_train_cpu", python_of(hollow))
    assert kernels.check(str(hollow), kernels.find([data])).status == "blocked"


def test_a_bare_python_is_the_environment_s_own(environments: dict[str, Path]) -> None:
    ours = environments["llm_train_cpu"]
    inside = ours / "share" / "jupyter"
    write(inside, "python3", "python")
    try:
        assert kernels.check(str(ours), kernels.find([inside])).found == "python3 does"
    finally:
        (inside / "kernels" / "python3" / "kernel.json").unlink()


def test_other_kernels_only_warn(environments: dict[str, Path], data: Path, tmp_path: Path) -> None:
    ours, other = environments["llm_train_cpu"], environments["other"]
    write(data, "llm_train_cpu", python_of(ours))
    write(data, "other", python_of(other))
    found = kernels.find([data])
    assert kernels.check_others(str(ours), found).status == "ok"
    hollow = tmp_path / "hollow"
    venv.create(hollow, with_pip=False, symlinks=True)
    write(data, "gone", str(tmp_path / "removed" / "bin" / "python"))
    write(data, "replaced", python_of(hollow))
    (hollow / "pyvenv.cfg").write_text("home = /usr/bin\n")
    found = kernels.find([data])
    answers = {python_of(other): str(other), python_of(hollow): "/usr"}
    check = kernels.check_others(str(ours), found, ask=answers.get)
    assert check.status == "warning"
    assert "gone starts" in check.found
    assert f"replaced starts an interpreter of /usr, not of {hollow}" in check.found
    subprocess.run(["bash", "-c", check.repair], check=True)
    assert {kernel.name for kernel in kernels.find([data])} == {"llm_train_cpu", "other"}
    assert kernels.check(str(ours), found).status == "ok"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"argv": []}', '{"argv": 3}', "[" * 100_000, "\ud800", '{"argv": null}']
)
def test_a_kernel_json_that_cannot_be_read_starts_nothing(environments: dict[str, Path], data: Path, text: str) -> None:
    folder = data / "kernels" / "llm_train_cpu"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(text, encoding="utf-8", errors="surrogatepass")
    check = kernels.check(str(environments["llm_train_cpu"]), kernels.find([data]))
    assert check.status == "blocked"
    assert "starts nothing: its kernel.json cannot be read" in check.found


def test_kernels_of_other_languages_are_none_of_ours(data: Path) -> None:
    write(data, "ir", "R", language="R")
    assert kernels.find([data]) == ()


def test_the_first_kernel_of_a_name_hides_later_ones(tmp_path: Path) -> None:
    for place in ("first", "second"):
        write(tmp_path / place, "same", f"/{place}/bin/python")
    (found,) = kernels.find([tmp_path / "nowhere", tmp_path / "first", tmp_path / "second"])
    assert found.python == "/first/bin/python"


def test_the_data_folders_are_those_jupyter_looks_in(tmp_path: Path) -> None:
    """Held against jupyter_core itself, in a child so that its own environment variables apply."""
    cases: list[dict[str, str]] = [
        {},
        {"JUPYTER_PATH": "/a:/b"},
        {"JUPYTER_DATA_DIR": "/data"},
        {"XDG_DATA_HOME": "/xdg"},
    ]
    for variables in cases:
        environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], **variables}
        code = "import json, jupyter_core.paths as p; print(json.dumps(p.jupyter_path()))"
        child = subprocess.run(
            [sys.executable, "-s", "-c", code], env=environ, capture_output=True, text=True, check=True
        )
        assert set(map(str, kernels.data_folders(sys.prefix, environ))) == set(json.loads(child.stdout)), variables
    assert tmp_path / "Library" / "Jupyter" in kernels.data_folders("/p", {"HOME": str(tmp_path)}, platform="darwin")


def test_asking_gives_up_in_time(tmp_path: Path) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    assert kernels.ask(str(slow), time_limit_s=0.2) is None
    assert kernels.ask(sys.executable) == sys.prefix


@pytest.mark.slow
def test_a_real_kernel_imports_the_lab_from_another_folder(
    environments: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The door itself: ipykernel's own install command, then a notebook run by nbclient outside the checkout."""
    import nbformat
    from nbclient import NotebookClient

    prefix = environments["llm_train_cpu"]
    site = prefix / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    registration.register(site)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "ros"))
    name = "llm_train_cpu"
    install = [
        python_of(prefix),
        "-m",
        "ipykernel",
        "install",
        "--user",
        "--name",
        name,
        "--display-name",
        "Python (lab)",
    ]
    subprocess.run(install, check=True, capture_output=True)
    found = kernels.find(kernels.data_folders(str(prefix), os.environ))
    assert kernels.check(str(prefix), found).found == f"{name} does"

    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    facts = "[sys.prefix, tools.__file__, sys.path, dict(os.environ)]"
    code = f"import json, os, sys, tools, experiments\nprint(json.dumps({facts}))"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, kernel_name=name, timeout=60, resources={"metadata": {"path": str(notebooks)}}).execute()
    prefix_seen, origin, path, environ = json.loads(notebook.cells[0].outputs[0].text)
    assert prefix_seen == str(prefix)
    assert Path(origin) == registration.ROOT / "tools" / "__init__.py"
    assert str(tmp_path / "ros") not in path
    assert "PYTHONPATH" not in environ
    assert environ[registration.STRIPPED_VARIABLE] == str(tmp_path / "ros")

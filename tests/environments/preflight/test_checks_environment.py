"""Environments broken one way at a time, on disk, and the check that finds each: never a traceback, always a repair."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hand_made_environment import Environment, check, goes_elsewhere, make, not_ok, torch_files

from tools.environments.registry import registry

REGISTRY = registry.load()
CPU = REGISTRY.get("TRAIN-CPU")


@pytest.fixture
def own(tmp_path: Path) -> Environment:
    """An environment on profile, to be broken."""
    return make(tmp_path, CPU, torch_files("2.13.0+cpu", None), "2.13.0+cpu")


def only(own: Environment, name: str, status: str = "blocked", *arguments: str, **environ: str) -> dict[str, str]:
    """The one check that is not ok."""
    report = own.report("TRAIN-CPU", *arguments, **environ)
    assert not_ok(report) == {name: status}
    found = check(report, name)
    assert found["repair"]
    return found


def test_missing_metadata_file(own: Environment) -> None:
    (own.info("rich") / "METADATA").unlink()
    report = own.report("TRAIN-CPU")
    assert "has no METADATA file" in check(report, "packages.metadata")["found"]
    assert "not installed: rich" in check(report, "packages.versions")["found"]


def test_garbled_metadata(own: Environment) -> None:
    (own.info("rich") / "METADATA").write_bytes(b"\xff\xfe\x00garbage\x00" * 50)
    report = own.report("TRAIN-CPU")
    assert "names no package or no version" in check(report, "packages.metadata")["found"]


def test_version_that_is_none(own: Environment) -> None:
    own.install("rich", "not-a-version")
    found = only(own, "packages.versions")
    assert "rich not-a-version" in found["found"]


def test_metadata_that_cannot_be_read(own: Environment) -> None:
    metadata = own.info("rich") / "METADATA"
    metadata.unlink()
    metadata.mkdir()
    assert "cannot be read" in check(own.report("TRAIN-CPU"), "packages.metadata")["found"]


def test_one_package_recorded_twice(own: Environment) -> None:
    shutil.copytree(own.info("rich"), own.site / "rich-0.1.dist-info")
    metadata = own.site / "rich-0.1.dist-info" / "METADATA"
    assert check(own.report("TRAIN-CPU"), "packages.metadata")["status"] == "ok"  # twice the same
    metadata.write_text("Name: rich\nVersion: 0.1\n")
    assert "recorded twice" in check(own.report("TRAIN-CPU"), "packages.metadata")["found"]


def test_leftover_of_an_interrupted_upgrade(own: Environment) -> None:
    (own.site / "~ich").mkdir()
    found = only(own, "packages.metadata")
    assert "interrupted" in found["found"]


def test_missing_record(own: Environment) -> None:
    (own.info("rich") / "RECORD").unlink()
    found = only(own, "packages.files")
    assert found["found"].startswith("rich: ")
    assert "--force-reinstall" in found["repair"]


def test_missing_and_cut_files(own: Environment) -> None:
    (own.site / "rich" / "__init__.py").write_text("")
    found = only(own, "packages.files")
    assert "bytes instead of" in found["found"]
    (own.site / "torch" / "version.py").unlink()
    found = check(own.report("TRAIN-CPU", "--quick"), "packages.files")
    assert found["status"] == "skipped"


def test_missing_torch_file_asks_for_a_new_environment(own: Environment) -> None:
    extra = own.site / "torch" / "lib.py"
    record = own.info("torch") / "RECORD"
    record.write_text("torch/lib.py,sha256=x,9\n" + record.read_text())
    assert goes_elsewhere(only(own, "packages.files")["repair"], CPU)
    extra.write_text("x = 12345")
    assert not_ok(own.report("TRAIN-CPU")) == {"packages.files": "blocked"} or extra.stat().st_size == 9


def test_missing_required_module(own: Environment) -> None:
    own.remove("rich", "rich")
    report = own.report("TRAIN-CPU")
    assert not_ok(report) == {"packages.required": "blocked", "packages.versions": "blocked"}
    repair = check(report, "packages.required")["repair"]
    assert "-m pip install -r requirements/torch-cpu.txt" in repair
    assert "-m pip install -r requirements/training-mechanism.txt" in repair


def test_version_outside_the_range_names_file_and_line(own: Environment) -> None:
    own.install("transformers", "4.57.0")
    found = only(own, "packages.versions")
    assert "transformers 4.57.0 (wanted" in found["found"]
    assert ".txt:" in found["found"]


def test_forbidden_package(own: Environment) -> None:
    own.install("vllm", "0.11.0")
    found = only(own, "packages.forbidden")
    assert found["found"] == "vllm 0.11.0"
    assert goes_elsewhere(found["repair"], CPU)


@pytest.mark.parametrize(
    ("requires", "words"),
    [
        ("absent>=1", "needs absent, which is not installed"),
        ("numpy<1", "needs numpy<1, installed is"),
        ("numpy<1 ; python_version < '4' or extra == 'x'", "needs numpy<1"),
        ("!!!", "unreadable"),
    ],
)
def test_conflicting_dependencies(own: Environment, requires: str, words: str) -> None:
    own.install("rich", "14.0", requires=(requires,))
    assert words in only(own, "packages.dependencies")["found"]


@pytest.mark.parametrize("requires", ["absent ; extra == 'x'", "absent ; sys_platform == 'win32'", "numpy>=1", "NumPy"])
def test_dependencies_that_hold_or_do_not_apply(own: Environment, requires: str) -> None:
    own.install("rich", "14.0", requires=(requires,))
    assert own.report("TRAIN-CPU")["status"] == "ok"


TORCH_DEATHS = [
    ("raise ImportError('libcudart.so.12: cannot open shared object file')\n", "ImportError: libcudart.so.12"),
    ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "killed by SIGSEGV"),
    ("import ctypes\nctypes.string_at(0)\n", "killed by SIGSEGV"),
    ("import os\nos._exit(3)\n", "ended with exit code 3"),
    ("import os\nos._exit(0)\n", "ended with exit code 0"),
    ("raise SystemExit(0)\n", "SystemExit"),
    ("raise KeyboardInterrupt\n", "KeyboardInterrupt"),
    ("def f(:\n", "SyntaxError"),
    ("raise RecursionError\n", "RecursionError"),
]


@pytest.mark.parametrize(("body", "words"), TORCH_DEATHS, ids=[words for _, words in TORCH_DEATHS])
def test_torch_that_dies_on_import(tmp_path: Path, body: str, words: str) -> None:
    own = make(tmp_path, CPU, torch_files("2.13.0+cpu", None, body=body), "2.13.0+cpu")
    report = own.report("TRAIN-CPU")
    found = check(report, "torch.import")
    assert (found["status"], words in found["found"]) == ("blocked", True)
    assert goes_elsewhere(found["repair"], CPU)
    assert check(report, "torch.build")["status"] == "ok"  # read from disk, as torch itself could not be asked
    assert check(report, "operation.float32")["status"] != "ok"


def test_torch_that_hangs_costs_the_time_limit(tmp_path: Path) -> None:
    own = make(tmp_path, CPU, torch_files("2.13.0+cpu", None, body="import time\ntime.sleep(3600)\n"), "2.13.0+cpu")
    found = check(own.report("TRAIN-CPU", "--time-limit", "1"), "torch.import")
    assert found["found"] == "no answer within 1 s"


def test_torch_without_version_file_or_facts(tmp_path: Path) -> None:
    own = make(tmp_path, CPU, {"torch/__init__.py": "x = 1\n"}, "2.13.0+cpu")
    report = own.report("TRAIN-CPU")
    assert check(report, "torch.import")["status"] == "ok"
    assert check(report, "operation.float32")["status"] == "blocked"
    assert check(report, "torch.build")["status"] == "blocked"


def test_other_module_that_dies_is_found_beside_a_living_torch(own: Environment) -> None:
    (own.site / "transformers" / "__init__.py").write_text("import os; os._exit(9)")
    report = own.report("TRAIN-CPU")
    assert "transformers: ended with exit code 9" in check(report, "packages.import")["found"]
    assert check(report, "torch.import")["status"] == "ok"


def test_a_product_that_is_wrong(tmp_path: Path) -> None:
    files = torch_files("2.13.0+cpu", None)
    files["torch/__init__.py"] = files["torch/__init__.py"].replace("return self.value\n", "return self.value + 1\n")
    report = make(tmp_path, CPU, files, "2.13.0+cpu").report("TRAIN-CPU")
    assert "ArithmeticError" in check(report, "operation.float32")["found"]


def test_operation_that_fails_in_one_dtype_only(tmp_path: Path) -> None:
    files = torch_files("2.13.0+cpu", None, fails={"bfloat16": "not implemented for 'BFloat16'"})
    own = make(tmp_path, CPU, files, "2.13.0+cpu")
    assert "not implemented" in only(own, "operation.bfloat16")["found"]


def test_vanished_folder_on_sys_path_is_no_error(own: Environment) -> None:
    gone = own.home / "gone"
    gone.mkdir()
    (own.site / "gone.pth").write_text(f"{gone}\nimport sys; sys.path.append('/nonexistent/lib')\n")
    report = own.report("TRAIN-CPU")
    assert not_ok(report) == {"python.path": "warning"}
    gone.rmdir()
    assert not_ok(own.report("TRAIN-CPU")) == {"python.path": "warning"}


def test_failing_pth_file_is_no_error(own: Environment) -> None:
    (own.site / "broken.pth").write_text("import does_not_exist\n")
    assert own.run("--profile", "TRAIN-CPU").stdout.startswith("status=ok")


def test_system_packages_seen_through_the_environment(own: Environment) -> None:
    config = own.prefix / "pyvenv.cfg"
    config.write_text(
        config.read_text().replace("include-system-site-packages = false", "include-system-site-packages = true")
    )
    assert "system Python adds" in check(own.report("TRAIN-CPU"), "python.path")["found"]


@pytest.mark.parametrize(
    ("environ", "name", "status", "words"),
    [
        ({"HTTPS_PROXY": "socks5://user:secret@127.0.0.1:1080"}, "network.proxy", "warning", "socksio"),
        ({"ALL_PROXY": "127.0.0.1:3128"}, "network.proxy", "warning", "no scheme"),
        ({"TMLAB_IMAGE_PROFILE": "PT-CPU"}, "container.image", "blocked", "an image for PT-CPU"),
        (
            {"TMLAB_IMAGE_PROFILE": "TRAIN-CPU", "TMLAB_IMAGE_REQUIREMENT_DIGEST": "sha256:0"},
            "container.image",
            "warning",
            "other requirement files",
        ),
    ],
)
def test_variables_that_matter(own: Environment, environ: dict[str, str], name: str, status: str, words: str) -> None:
    found = only(own, name, status, **environ)
    assert words in found["found"]
    assert "secret" not in str(found)


def test_proxies_that_work_and_the_right_image_are_ok(own: Environment) -> None:
    own.install("socksio", "1.0.0")
    environ = {
        "https_proxy": "socks5h://127.0.0.1:1",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "TMLAB_IMAGE_PROFILE": "TRAIN-CPU",
    }
    report = own.report("TRAIN-CPU", **environ)
    assert check(report, "network.proxy")["found"] == "https_proxy (socks5h), HTTP_PROXY (http)"
    assert check(report, "container.image")["status"] == "ok"
    assert report["status"] == "ok"


def test_notebook_checks_apply_where_asked_or_where_jupyter_is(own: Environment) -> None:
    report = own.report("TRAIN-CPU")
    assert check(report, "notebook.packages")["status"] == "skipped"
    report = own.report("TRAIN-CPU", "--notebook")
    assert "jupyterlab" in check(report, "notebook.packages")["found"]
    assert check(report, "notebook.registration")["status"] == "ok"
    own.install("jupyterlab", "4.4")
    report = own.report("TRAIN-CPU")
    assert check(report, "notebook.packages")["status"] == "blocked"
    assert check(report, "notebook.kernel")["status"] == "ok"


def test_unregistered_runtime_blocks_notebooks_also_in_quick(own: Environment) -> None:
    assert check(own.report("TRAIN-CPU", "--notebook", "--quick"), "notebook.registration")["status"] == "ok"
    (own.site / "training_mechanism_lab.pth").unlink()
    for quick in ((), ("--quick",)):
        found = check(own.report("TRAIN-CPU", "--notebook", *quick), "notebook.registration")
        assert (found["status"], found["repair"]) == ("blocked", "python tools/register_notebook_runtime.py")


def test_delivery_profile_needs_no_torch_and_forbids_it(tmp_path: Path) -> None:
    profile = REGISTRY.get("PERF-DELIVERY")
    own = make(tmp_path, profile)
    report = own.report("PERF-DELIVERY")
    assert report["status"] == "ok"
    assert check(report, "torch.build")["status"] == "skipped"
    own.install("torch", "2.13.0+cpu", torch_files("2.13.0+cpu", None))
    assert not_ok(own.report("PERF-DELIVERY")) == {"packages.forbidden": "blocked"}


def test_read_only_environment_is_judged_all_the_same(own: Environment) -> None:
    os.chmod(own.site, 0o555)
    try:
        assert own.report("TRAIN-CPU")["status"] == "ok"
    finally:
        os.chmod(own.site, 0o755)

"""invoke's pipelines as a user calls them: exact exit codes, and nothing dropped in silence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from stages import few

from tools.environments.layout import ROOT
from tools.environments.registry import registry

INSTALLER = "tools/install_environment_profile.py"
LOCATE = ("--locate", "--json")
RECORDER = """
import json, sys
with open("calls", "a") as calls:
    print(json.dumps(sys.argv), file=calls)
"""
STAND_INS = {
    INSTALLER: """
if "--json" in sys.argv:
    print(json.dumps({"python": sys.executable}))
sys.exit(7 if "--recreate" in sys.argv else 0)
""",
    "tools/environment_preflight.py": "",
    "tools/register_notebook_runtime.py": "",
    "tools/test_framework_conformance.py": "sys.exit(1)",
    "tools/rendering/__main__.py": "",
    "tools/containers/__main__.py": "",
    "experiments/__main__.py": "",
}


INVOKE = [sys.executable, "-m", "invoke"]


def invoke(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [*INVOKE, *arguments]
    return subprocess.run(command, cwd=cwd, env={**os.environ}, capture_output=True, text=True, check=False)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The parts of a checkout that invoke reads, with the scripts behind the tasks replaced by recorders."""
    shutil.copy(ROOT / "tasks.py", tmp_path)
    for name in ("requirements", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, body in STAND_INS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(RECORDER + body)
    return tmp_path


def calls(clone: Path) -> list[list[str]]:
    path = clone / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    return [[Path(first).name, *rest] for first, *rest in map(json.loads, lines)]


def test_every_pipeline_is_listed_with_what_it_does() -> None:
    listed = {task["name"]: task["help"] for task in json.loads(invoke("--list", "--list-format=json").stdout)["tasks"]}
    assert set(listed) == {"install", "preflight", "register", "verify-gpu", "experiment", "conformance"}
    assert all(listed.values())
    groups = json.loads(invoke("--list", "--list-format=json").stdout)["collections"]
    names = {group["name"]: {task["name"] for task in group["tasks"]} for group in groups}
    assert names == {
        "ci": {"matrix"},
        "assets": {"sync", "check", "release"},
        "image": {"build", "smoke", "list", "prune"},
        "results": {"list", "show", "verify", "promote", "clear"},
    }


@pytest.mark.parametrize("form", ["github", "json"])
def test_the_matrix_is_one_line_of_json(form: str) -> None:
    done = invoke("ci.matrix", "--format", form)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    table = json.loads(done.stdout)
    rows = table["include"] if form == "github" else table
    assert {row["profile"] for row in rows} == set(registry.load(ROOT).profiles)


def three_lines(text: str) -> bool:
    heads = [line[:8] for line in text.splitlines()]
    return [heads[0][:7], *heads[1:]] == ["blocked", "  wanted", "  found ", "  → " + heads[-1][4:]]


def test_wrong_usage_is_two() -> None:
    for given in (["ci.matrix", "--format", "yaml"], ["install", "--profile", "TRAIN-CP"]):
        done = invoke(*given)
        assert done.returncode == 2
        assert three_lines(done.stderr)
    assert "TRAIN-CPU" in done.stderr


@pytest.mark.parametrize(
    "pipeline", few(1, ["install", "preflight", "register", "experiment", "verify-gpu", "conformance", "image.build"])
)
def test_a_quote_that_is_not_closed_is_wrong_usage(clone: Path, pipeline: str) -> None:
    done = invoke(pipeline, "--profile", "TRAIN-CPU", "--options", "--env-name 'x", cwd=clone)
    assert done.returncode == 2
    assert done.stderr.startswith("blocked --options\n")
    assert three_lines(done.stderr)
    assert "no closing quotation: --env-name 'x" in done.stderr
    assert calls(clone) == []


@pytest.mark.parametrize(("given", "codes"), [("ci.matrix", (0,)), ("--list", (0, 1))])  # the list is invoke's own
def test_a_reader_that_has_gone_is_no_fault(given: str, codes: tuple[int, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*INVOKE, given], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode in codes
    assert done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_told_plainly() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*INVOKE, "ci.matrix"], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:3] == ["  wanted output that can be written", "  found  No space left on device"]


@pytest.mark.parametrize("pipeline", few(1, ["install", "preflight", "register", "experiment"]))
def test_a_pipeline_without_its_profile_is_wrong_usage(clone: Path, pipeline: str) -> None:
    done = invoke(pipeline, cwd=clone)
    assert done.returncode == 2
    assert "wanted a profile of the registry" in done.stderr
    assert calls(clone) == []


def test_what_invoke_would_drop_in_silence_is_refused(clone: Path) -> None:
    done = invoke("install", "--profile", "TRAIN-CPU", "--", "--dry-run", cwd=clone)
    assert done.returncode == 2
    assert '--options "..."' in done.stderr
    assert three_lines(done.stderr)
    assert calls(clone) == []


def test_a_script_s_exit_code_is_the_task_s(clone: Path) -> None:
    assert invoke("install", "--profile", "TRAIN-CPU", "--options", "--recreate", cwd=clone).returncode == 7
    assert invoke("conformance", cwd=clone).returncode == 1


def test_a_script_that_was_killed_ends_the_task_as_a_shell_would_say(clone: Path) -> None:
    (clone / "tools" / "install_environment_profile.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    assert invoke("install", "--profile", "TRAIN-CPU", cwd=clone).returncode == 137


def test_an_experiment_runs_after_preflight_in_the_profile_s_environment(clone: Path) -> None:
    name = registry.load(ROOT).get("TRAIN-CPU").experiments[0]
    options = "--run-label L --backend venv"
    done = invoke("experiment", "--profile", "TRAIN-CPU", "--name", name, "--options", options, cwd=clone)
    assert done.returncode == 0, done.stderr
    asked, run = calls(clone)
    assert asked == ["install_environment_profile.py", "--profile", "TRAIN-CPU", "--backend", "venv", *LOCATE]
    start = ["--workload", "smoke", "--profile", "TRAIN-CPU", "--stop-if-blocked"]
    assert run[1:] == ["run", name, *start, "--run-label", "L"]


@pytest.mark.parametrize("pipeline", few(1, ["preflight", "register", "conformance", "experiment"]))
def test_a_check_of_an_absent_environment_installs_nothing(clone: Path, pipeline: str) -> None:
    shutil.copy(ROOT / INSTALLER, clone / INSTALLER)
    done = invoke(pipeline, "--profile", "BASE-CPU", "--options", "--backend uv", cwd=clone)
    assert done.returncode == 1
    assert f"install it: python {INSTALLER} --profile BASE-CPU" in done.stderr
    assert not (clone / ".envs").exists()
    assert calls(clone) == []


def test_verify_gpu_chains_install_preflight_and_smoke(clone: Path) -> None:
    (clone / "tools" / "validate_cnb_gpu.sh").write_text('echo "$*" >> validated\n')
    done = invoke("verify-gpu", "--profile", "TRAIN-CUDA-MECHANISM", cwd=clone)
    assert done.returncode == 0, done.stderr
    assert (clone / "validated").read_text() == f"--profile TRAIN-CUDA-MECHANISM --python {sys.executable}\n"
    names = [call[0] for call in calls(clone) if "--json" not in call]
    assert names == ["install_environment_profile.py", "environment_preflight.py", "__main__.py"]
    assert set(registry.load(ROOT).get("TRAIN-CUDA-MECHANISM").experiments) <= set(calls(clone)[-1])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--profile", "TRAIN-CPU"], "a GPU profile"),
        (["--options", "--experiment nope"], "an experiment of TRAIN-CUDA-MECHANISM"),
    ],
)
def test_verify_gpu_refuses_wrong_usage_before_anything(clone: Path, given: list[str], words: str) -> None:
    done = invoke("verify-gpu", *given, cwd=clone)
    assert done.returncode == 2
    assert words in done.stderr
    assert calls(clone) == []


def test_verify_gpu_hands_what_was_accepted_to_every_step(clone: Path) -> None:
    (clone / "tools" / "validate_cnb_gpu.sh").write_text('echo "$*" >> validated\n')
    assert invoke("verify-gpu", "--options", "--accept host.memory", cwd=clone).returncode == 0
    assert (clone / "validated").read_text().endswith("--accept host.memory\n")
    asked = [call for call in calls(clone) if call[0] in ("environment_preflight.py", "__main__.py")]
    assert asked
    assert all(call[-2:] == ["--accept", "host.memory"] for call in asked)


@pytest.mark.parametrize(
    ("given", "wanted"),
    few(
        2,
        [
            (["image.build", "--profile", "PT-CPU"], ["build", "--profile", "PT-CPU"]),
            (["image.build", "--gpu", "--options", "--no-cache --json"], ["build", "--gpu", "--no-cache", "--json"]),
            (["image.smoke", "--cpu"], ["smoke", "--cpu"]),
            (["image.list"], ["list"]),
            (["image.prune"], ["prune"]),
        ],
    ),
)
def test_the_image_tasks_hand_on(clone: Path, given: list[str], wanted: list[str]) -> None:
    assert invoke(*given, cwd=clone).returncode == 0
    assert [call[1:] for call in calls(clone)] == [wanted]


def test_verify_gpu_stops_where_the_image_does_not_hold(clone: Path) -> None:
    (clone / "tools" / "validate_cnb_gpu.sh").write_text("exit 3\n")
    assert invoke("verify-gpu", cwd=clone).returncode == 3
    assert not [call for call in calls(clone) if call[0] == "__main__.py"]


def test_register_writes_and_proves(clone: Path) -> None:
    invoke("register", "--profile", "TRAIN-CPU", cwd=clone)
    assert calls(clone)[1:] == [["register_notebook_runtime.py"], ["register_notebook_runtime.py", "--check"]]


def test_results_and_assets_hand_on(clone: Path) -> None:
    invoke("results.list", cwd=clone)
    invoke("results.show", "--label", "L", "--experiment", "e", cwd=clone)
    invoke("results.verify", cwd=clone)
    invoke("assets.sync", cwd=clone)
    invoke("assets.check", cwd=clone)
    assert [call[1:] for call in calls(clone)] == [
        ["results", "list"],
        ["results", "show", "L", "--experiment", "e"],
        ["results", "verify"],
        ["sync"],
        ["check"],
    ]

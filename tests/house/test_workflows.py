"""The GitHub workflows: actionlint finds nothing, the matrix comes from the registry, and their commands exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from outside_tools import actionlint, run

from tools.environments.layout import ROOT
from tools.environments.registry import ci_matrix, registry

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CI, FULL = (ROOT / ".github" / "workflows" / name for name in ("ci.yml", "full.yml"))


def load(path: Path) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    return load(CI)


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.network
def test_actionlint_finds_nothing_and_would_find_a_fault(tmp_path: Path) -> None:
    assert actionlint(tmp_path, *WORKFLOWS) == []
    broken = tmp_path / "broken.yml"
    broken.write_text(CI.read_text(encoding="utf-8").replace("needs: matrix", "needs: matrices"), encoding="utf-8")
    assert actionlint(tmp_path, broken)


def test_the_matrix_is_the_registry_s(workflow: dict[str, Any]) -> None:
    assert workflow["jobs"]["profile"]["strategy"]["matrix"] == "${{ fromJSON(needs.matrix.outputs.profiles) }}"
    (reading,) = [step for step in workflow["jobs"]["matrix"]["steps"] if step.get("id") == "registry"]
    assert "invoke ci.matrix --format github" in reading["run"]


def test_every_value_of_the_matrix_that_is_used_is_in_every_row() -> None:
    used = set(re.findall(r"matrix\.(\w+)", CI.read_text(encoding="utf-8"))) - {"outputs"}
    for row in ci_matrix.rows(registry.load(ROOT).profiles.values()):
        assert used <= set(row)


def test_cuda_profiles_plan_and_cpu_profiles_run() -> None:
    rows = {row["profile"]: row for row in ci_matrix.rows(registry.load(ROOT).profiles.values())}
    for profile in registry.load(ROOT).profiles.values():
        assert rows[profile.id]["arguments"] == ("" if profile.gpu is None else "--dry-run")
        assert ("cpu" in profile.tags) == (profile.gpu is None)


def test_there_is_a_workflow_for_every_push_and_one_for_every_week() -> None:
    assert [CI, FULL] == WORKFLOWS
    assert {"push", "pull_request"} <= {*load(CI)[True]}  # YAML 1.1 reads `on` as true
    assert {*load(FULL)[True]} == {"schedule", "workflow_dispatch"}
    _minute, _hour, day, month, weekday = load(FULL)[True]["schedule"][0]["cron"].split()
    assert (day, month, weekday.isdigit()) == ("*", "*", True)
    assert [step["run"] for step in steps(load(FULL)) if "run" in step] == ["bash .ci/full"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_nothing_gets_more_rights_than_reading(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in workflow["jobs"].values())
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in steps(workflow) if "uses" in step)
    assert all(job["timeout-minutes"] for job in workflow["jobs"].values())


def test_every_command_is_the_bootstrap_s(workflow: dict[str, Any]) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "invoke", "--list", "--list-format=json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    tree = json.loads(listed.stdout)
    tasks = {f"{group['name']}.{task['name']}" for group in tree["collections"] for task in group["tasks"]}
    for step in steps(workflow):
        for tool, name in re.findall(r"tools/bootstrap\.py (nox|invoke) ?([\w.]*)", step.get("run", "")):
            assert tool == "nox" or name in tasks, step["run"]


@pytest.mark.network
def test_hadolint_finds_nothing_and_would_find_a_fault(tmp_path: Path) -> None:
    done = run("hadolint", ".ide/Dockerfile", ".ide/Dockerfile.gpu", cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "")
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /tmp\n")
    assert run("hadolint", str(tmp_path / "Dockerfile")).returncode == 1


@pytest.mark.network
@pytest.mark.parametrize(
    ("shell", "name"),
    [
        ("dash", "tools/validate_cnb_gpu.sh"),
        ("dash", "cnb/enter.sh"),
        ("bash", ".ci/run"),
        ("bash", ".ci/full"),
        ("bash", ".ci/engine"),
    ],
)
def test_shellcheck_finds_nothing(shell: str, name: str) -> None:
    done = run("shellcheck", "-x", "-s", shell, name, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "")

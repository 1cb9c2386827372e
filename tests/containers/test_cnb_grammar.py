""".cnb.yml against a schema written from CNB's grammar, and what no schema can say: files, scripts, events, buttons."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tools.containers import cnb_text, image_text
from tools.environments.layout import ROOT
from tools.environments.registry import registry, requirement_text

SCHEMA = json.loads((ROOT / "tests" / "data" / "cnb.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
KNOWN = registry.load(ROOT)
DASH = shutil.which("dash") or "/bin/sh"


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / ".cnb.yml").read_text(encoding="utf-8"))
    return loaded


def pipelines(config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for branch, events in config.items():
        if not branch.startswith("."):
            for event, members in events.items():
                yield from ((event, pipeline) for pipeline in members)


def jobs(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for _, pipeline in pipelines(config):
        yield from pipeline["stages"]


def builds(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every image build: of a pipeline's own container, and of docker:cache."""
    for _, pipeline in pipelines(config):
        if "build" in pipeline.get("docker", {}):
            yield pipeline["docker"]["build"]
    yield from (job["options"] for job in jobs(config) if job.get("type") == "docker:cache")


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_it_holds_to_the_grammar(config: dict[str, Any]) -> None:
    assert [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(config)] == []


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """An edit of the parsed file: set the place that `path` leads to, or with ... take it away."""

    def edit(config: dict[str, Any]) -> None:
        *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
        place: Any = config
        for part in way:
            place = place[part]
        if value is ...:
            del place[last]
        else:
            place[last] = value

    return edit


FAULTS = {
    "a fallback image beside the build": put("$/vscode/0/docker/image", "python:3.12"),
    "an event that does not exist": put("$/vscode-gpu", [{"stages": ["ls"]}]),
    "a misspelled key": put("$/vscode/0/service", ["vscode"]),
    "a runner nobody has": put("$/web_trigger_gpu/0/runner/tags", "cnb:arch:amd64:gpu:H100"),
    "no stages": put("$/push/0/stages", ...),
    "a job that does nothing": put("$/push/0/stages/0", {"name": "n"}),
    "a cache without a Dockerfile": put("$/push/1/stages/0/options", {"by": ["a"]}),
    "an unknown service": put("$/vscode/0/services", ["vscode", "postgres"]),
    "a task CNB has not": put("$/push/1/stages/0/type", "docker:push"),
    "pipelines that are text": put("main/push", "ls"),
    "a crontab with too few fields": put("main/crontab: 1 2", [{"stages": ["ls"]}]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_schema_finds(config: dict[str, Any], fault: str) -> None:
    broken = copy.deepcopy(config)
    FAULTS[fault](broken)
    assert list(VALIDATOR.iter_errors(broken)), fault


def test_it_is_rendered_from_the_registry_as_it_is() -> None:
    ((path, text),) = cnb_text.files(KNOWN, ROOT).items()
    assert path.read_text(encoding="utf-8") == text


def test_every_profile_has_its_image_and_its_digest(config: dict[str, Any]) -> None:
    built = {pipeline["name"].removeprefix("image "): pipeline for pipeline in config["main"]["web_trigger_images"]}
    assert list(built) == list(KNOWN.profiles)
    for profile in KNOWN.profiles.values():
        script = built[profile.id]["stages"][0]["script"]
        assert f"--build-arg REQUIREMENT_DIGEST={requirement_text.digest(profile)} " in script
        assert f"-f {image_text.kind_of(profile).dockerfile} " in script
    on_push = {p["name"].removeprefix("image ") for p in config["main"]["push"] if p["name"].startswith("image ")}
    assert on_push == {profile.id for profile in KNOWN.profiles.values() if profile.gpu is None}


def test_a_build_sees_every_file_that_its_dockerfile_copies(config: dict[str, Any]) -> None:
    """CNB hides what `by` does not name, so each COPY needs at least one file there, and each named file exists."""
    for build in builds(config):
        given = build["by"]
        assert [name for name in {*given, *build["versionBy"]} if not (ROOT / name).is_file()] == []
        assert set(build["versionBy"]) <= set(given)
        text = (ROOT / build["dockerfile"]).read_text(encoding="utf-8")
        for source in re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE):
            assert source == "." or any(name.startswith(source) for name in given), source


def test_a_build_knows_each_of_its_arguments(config: dict[str, Any]) -> None:
    for build in builds(config):
        text = (ROOT / build["dockerfile"]).read_text(encoding="utf-8")
        known = set(re.findall(r"^ARG (\w+)", text, re.MULTILINE))
        assert set(build.get("buildArgs", {})) <= known


def test_docker_build_commands_know_their_arguments_too(config: dict[str, Any]) -> None:
    for job in jobs(config):
        if str(job.get("script", "")).startswith("docker build"):
            dockerfile = re.search(r"-f (\S+)", job["script"])
            assert dockerfile
            known = set(re.findall(r"^ARG (\w+)", (ROOT / dockerfile[1]).read_text(encoding="utf-8"), re.MULTILINE))
            assert set(re.findall(r"--build-arg (\w+)=", job["script"])) <= known


def test_scripts_are_dash_s_and_name_files_that_exist(config: dict[str, Any]) -> None:
    for job in jobs(config):
        script = job.get("script", [])
        for line in [script] if isinstance(script, str) else script:
            assert subprocess.run([DASH, "-n", "-c", line], check=False).returncode == 0, line
            words = line.split()
            if words[0] in ("sh", "python3", "python") and not words[1].startswith("-"):
                assert (ROOT / words[1]).is_file(), line


def test_what_needs_docker_asks_for_it(config: dict[str, Any]) -> None:
    for _, pipeline in pipelines(config):
        uses = [job for job in pipeline["stages"] if str(job.get("script", "")).startswith("docker ") or "type" in job]
        assert not uses or "docker" in pipeline["services"]


def test_workspaces_are_opened_by_the_service_on_runners_that_fit(config: dict[str, Any]) -> None:
    opened = {event: p for event, p in pipelines(config) if "vscode" in p.get("services", [])}
    assert set(opened) == {"vscode", "web_trigger_gpu"}
    assert ":gpu" not in opened["vscode"]["runner"]["tags"]
    gpu = opened["web_trigger_gpu"]
    assert gpu["runner"]["tags"].startswith("cnb:arch:amd64:gpu")
    assert gpu["docker"]["build"]["dockerfile"] == ".ide/Dockerfile.gpu"
    assert gpu["stages"][-1]["script"].startswith("sh tools/validate_cnb_gpu.sh")
    for pipeline in opened.values():
        assert pipeline["docker"]["build"]["buildArgs"]["LAB_USER"] == "root"


def test_every_button_has_its_event(config: dict[str, Any]) -> None:
    buttons = yaml.safe_load((ROOT / ".cnb" / "web_trigger.yml").read_text(encoding="utf-8"))
    events = {event for event, _ in pipelines(config) if event.startswith("web_trigger")}
    assert {button["event"] for entry in buttons["branch"] for button in entry["buttons"]} == events


def test_no_secret_and_no_registry_is_written_into_it() -> None:
    text = (ROOT / ".cnb.yml").read_text(encoding="utf-8")
    assert not re.search(r"TOKEN|PASSWORD|SECRET", text)
    assert "$CNB_DOCKER_REGISTRY/$CNB_REPO_SLUG_LOWERCASE" in text


@pytest.mark.parametrize("name", ["cnb/enter.sh", "tools/validate_cnb_gpu.sh"])
def test_scripts_parse_under_dash(name: str) -> None:
    done = subprocess.run([DASH, "-n", str(ROOT / name)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_enter_outside_an_image_says_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [DASH, str(ROOT / "cnb" / "enter.sh")], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "→ python3 tools/bootstrap.py" in done.stderr

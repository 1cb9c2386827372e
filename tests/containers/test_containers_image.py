"""The CPU image with TRAIN-CPU, really built and used: layers, labels, size, rebuilds, records; the GPU one to torch.

One image is built for the whole file, from a copy of what a build sees. It needs an engine, a base image and a package
index; .ci/run sets the first two up. The gate looks at that image and proves it with a smoke run; what builds again is
for the full stage. Tests may come in any order, so what looks at the first image names it by its id.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from container_engine import KNOWN, LONG, base_or_skip, built, client_or_skip, copied, file_from, ran, request
from own_pip import wheel_of_pip

from experiments.cli import asked
from tools.containers import build, container_command, inventory, naming, smoke
from tools.environments import profile_session
from tools.environments.install.install_text import Narrator
from tools.environments.layout import ROOT
from tools.environments.registry import requirement_text

pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.slow, LONG]

TRAIN_CPU = KNOWN.get("TRAIN-CPU")
REPOSITORY = "tmlab-test"


@dataclasses.dataclass(frozen=True)
class Made:
    """The image of this file, and how it came about."""

    client: Any
    base: str
    root: Path
    first: build.Built
    told: str

    @property
    def image(self) -> Any:
        """The first image, whatever was built since."""
        return self.client.images.get(self.first.image)

    @property
    def tagged(self) -> Any:
        """The image that has the profile's name now."""
        return self.client.images.get(naming.tag_of(TRAIN_CPU.id))

    def again(self, profile: str = "TRAIN-CPU", **changes: Any) -> tuple[build.Built, str]:
        return built(self.client, request(profile, self.base, **changes), self.root)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    client = client_or_skip()
    base = base_or_skip(client)
    root = copied(tmp_path_factory.mktemp("checkout"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(naming, "REPOSITORY", REPOSITORY)
        first, told = built(client, request("TRAIN-CPU", base), root)
        assert first.image == client.images.get(naming.tag_of(TRAIN_CPU.id)).id
        client.images.get(first.image).tag(REPOSITORY, "first")  # so that pruning keeps it
        yield Made(client, base, root, first, told)
        for image in client.images.list(REPOSITORY):
            for tag in image.tags:
                if tag.startswith(f"{REPOSITORY}:"):
                    client.images.remove(tag)


@pytest.fixture
def container(made: Made) -> Iterator[Any]:
    running = made.client.containers.run(made.image.id, ["sleep", "600"], detach=True, init=True)
    yield running
    running.remove(force=True)


def test_it_is_built_stage_by_stage_and_each_is_told(made: Made) -> None:
    assert {*made.first.kept, *made.first.made} == {"base", "plan", "torch", "packages", "lab"}
    words = [line.split()[0] for line in made.told.splitlines() if line.startswith("  ") and " running " not in line]
    assert words == ["base", "plan", "torch", "packages", "lab"]


def test_its_labels_say_what_it_is(made: Made) -> None:
    labels = made.image.labels
    assert labels[naming.PROFILE] == "TRAIN-CPU"
    assert labels[naming.REGISTRY] == KNOWN.digest
    assert labels[naming.REQUIREMENTS] == requirement_text.digest(TRAIN_CPU)
    assert labels[naming.COMMIT] == "c0ffee"


def test_who_it_runs_as_and_how_its_health_is_asked(made: Made, container: Any) -> None:
    config = made.image.attrs["Config"]
    assert config["User"] == "lab"
    assert ran(container, "id", "-u")[1].strip() != "0"
    code, said = ran(container, *config["Healthcheck"]["Test"][1:])
    assert code == 0, said
    assert said.startswith("status=ok")


def test_its_user_can_write_runs_and_change_nothing_else(container: Any) -> None:
    script = "touch runs/x && ! touch tools/x && ! touch .envs/x && ! touch .envs/current/lib/x && ! touch /lab/x"
    assert ran(container, "sh", "-c", script)[0] == 0


def test_nothing_secret_and_nothing_of_this_machine_is_in_its_history(made: Made) -> None:
    history = json.dumps(made.image.history())
    for word in ("secret", "password", "token", str(made.root), str(Path.home())):
        assert word not in history.lower()


def test_it_adds_less_than_half_as_much_again_as_the_environment_holds(made: Made, container: Any) -> None:
    added = made.image.attrs["Size"] - made.client.images.get(made.base).attrs["Size"]
    environment = int(ran(container, "sh", "-c", "du -sb .envs/current/ | cut -f1")[1])
    assert added < 1.5 * environment


def test_the_installer_finds_its_environment_current(container: Any) -> None:
    code, said = ran(container, "python", "tools/install_environment_profile.py", "--profile", "TRAIN-CPU", "--json")
    assert code == 0, said
    assert json.loads(said.splitlines()[-1])["status"] == "current"


def test_smoke_runs_inside_and_the_record_names_the_image(made: Made, tmp_path: Path) -> None:
    options = profile_session.parse(["--experiment", "mixed_precision_backward"])
    told = io.StringIO()
    proven = smoke.smoke(TRAIN_CPU, options, made.client, Narrator(told), tmp_path)
    assert proven.user == "lab"
    assert [line.split()[1] for line in told.getvalue().splitlines()[:4]] == ["ok"] * 4
    (path,) = map(Path, proven.records)
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["runtime"]["image"] == {"digest": made.tagged.id, "reason": None}
    assert record["evidence_level"] == "cpu_mechanism"
    assert record["profile"]["id"] == "TRAIN-CPU"
    statuses = {check["id"]: check["status"] for check in record["profile"]["preflight"]["checks"]}
    assert statuses["container.image"] == statuses["environment.stamp"] == statuses["notebook.registration"] == "ok"
    assert (path.parent / "gradients.svg").is_file()
    assert not made.client.containers.list(
        all=True, filters={"label": f"{naming.OURS}=smoke {naming.tag_of(TRAIN_CPU.id)}"}
    )


@pytest.mark.full
def test_what_fails_inside_is_told_with_its_last_lines_and_leaves_no_container(made: Made, tmp_path: Path) -> None:
    options = profile_session.parse(["--experiment", "mixed_precision_backward", "--workload", "no-such"])
    with pytest.raises(Exception, match="mixed_precision_backward") as failed:
        smoke.smoke(TRAIN_CPU, options, made.client, Narrator(io.StringIO()), tmp_path)
    assert "a workload of mixed_precision_backward" in str(failed.value)
    assert not made.client.containers.list(
        all=True, filters={"label": f"{naming.OURS}=smoke {naming.tag_of(TRAIN_CPU.id)}"}
    )


@pytest.mark.full
def test_the_cpu_image_never_yields_gpu_evidence(container: Any) -> None:
    command = ["python", "-m", "experiments", "run", "mixed_precision_backward", "--run-mode", "real_gpu"]
    code, said = ran(container, *command, "--profile", "TRAIN-CUDA-MECHANISM")
    assert code == 1
    assert "tools/validate_cnb_gpu.sh has passed" in said
    code, said = ran(container, "sh", "tools/validate_cnb_gpu.sh", "--profile", "TRAIN-CUDA-MECHANISM")
    assert code == 1
    summary = json.loads(file_from(container, "/lab/runs/gpu-validation.json"))
    assert (summary["status"], summary["image"]["profile"]) == ("blocked", "TRAIN-CPU")
    report = json.loads(
        ran(
            container,
            "python",
            "tools/environment_preflight.py",
            "--profile",
            "TRAIN-CUDA-MECHANISM",
            "--quick",
            "--json",
        )[1]
    )
    assert {check["id"]: check["status"] for check in report["checks"]}["container.image"] == "blocked"


@pytest.mark.full
def test_a_mounted_checkout_takes_the_image_s_environment(made: Made) -> None:
    """As in a CNB workspace: root, and the code somewhere else."""
    running = made.client.containers.run(made.image.id, ["sleep", "600"], detach=True, init=True, user="root")
    try:
        assert (
            ran(running, "sh", "-c", "mkdir /workspace && cp -r cnb experiments requirements tools /workspace")[0] == 0
        )
        code, said = ran(running, "sh", "/workspace/cnb/enter.sh")
        assert code == 0, said
        assert "status=ok" in said
        script = "cd / && python -c 'import tools; print(tools.__file__)'"
        assert ran(running, "sh", "-c", script)[1].strip() == "/workspace/tools/__init__.py"
        script = "cd /workspace && python tools/install_environment_profile.py --profile TRAIN-CPU"
        assert "environment current" in ran(running, "sh", "-c", script)[1]
    finally:
        running.remove(force=True)


@pytest.mark.full
def test_the_same_build_again_takes_all_of_it_from_the_cache(made: Made) -> None:
    again, told = made.again()
    assert again.made == ()
    assert again.image == made.tagged.id
    assert told.count("from the cache") == 5


@pytest.mark.full
def test_a_changed_experiment_keeps_torch_and_packages(made: Made) -> None:
    with open(made.root / "experiments" / "cli" / "listing.py", "a", encoding="utf-8") as file:
        file.write("# change\n")
    again, _ = made.again()
    assert again.kept == ("base", "plan", "torch", "packages")
    assert again.made == ("lab",)


@pytest.mark.full
def test_a_changed_tool_or_registry_keeps_torch_and_packages_too(made: Made) -> None:
    with open(made.root / "tools" / "environments" / "report_text.py", "a", encoding="utf-8") as file:
        file.write("# change\n")
    path = made.root / "requirements" / "environment-profiles.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("Runs no GPU experiment.", "Runs none."), encoding="utf-8")
    again, _ = made.again()
    assert {"base", "torch", "packages"} <= {*again.kept}


@pytest.mark.full
def test_it_is_listed_and_pruning_keeps_what_has_a_name(made: Made) -> None:
    made.again()
    (entry,) = [entry for entry in inventory.images(made.client, KNOWN) if entry.tag == naming.tag_of("TRAIN-CPU")]
    assert (entry.profile, entry.commit, entry.state) == ("TRAIN-CPU", "c0ffee", "current")
    lines = inventory.table([entry])
    assert lines[0].split()[:3] == ["profile", "image", "id"]
    assert entry.tag in lines[1]
    inventory.prune(made.client)
    assert made.tagged.id == entry.image
    assert not [
        image
        for image in made.client.images.list(filters={"dangling": True, "label": naming.PROFILE})
        if image.labels[naming.COMMIT] == "c0ffee"
    ]


@pytest.mark.full
@pytest.mark.parametrize("profile", ["TRAIN-CUDA-MECHANISM", "INF-VLLM-011-CU128"])
def test_the_gpu_image_is_built_as_far_as_no_large_wheel_is_needed(made: Made, profile: str) -> None:
    stage, told = made.again(profile, target="plan")
    assert stage.tag == ""
    assert "torch" not in [line.split()[0] for line in told.splitlines()]
    container = made.client.containers.create(stage.image, ["true"])
    try:
        script = file_from(container, "/plan/torch/.layers/torch.sh").decode()
        packages = file_from(container, "/plan/packages/.layers/packages.sh").decode()
    finally:
        container.remove()
    pin = KNOWN.get(profile).torch
    assert pin is not None
    assert f"torch{pin.specifier}+{pin.build}" in script
    assert f"-r requirements/{KNOWN.get(profile).requirements[1]}" in packages


@pytest.mark.full
def test_a_base_with_conda_has_its_environment_created_from_the_file(made: Made, tmp_path: Path) -> None:
    """A stand-in for conda in the base image, which makes a venv and gives it pip, as conda gives Python and pip."""
    (tmp_path / "conda").write_text(CONDA)
    (tmp_path / "conda").chmod(0o755)
    wheel_of_pip(tmp_path)
    (tmp_path / "Dockerfile").write_text(f"FROM {made.base}\nCOPY conda /usr/local/bin/conda\nCOPY pip-*.whl /opt/\n")
    image, _ = made.client.images.build(path=str(tmp_path), tag=f"{REPOSITORY}:conda-base", rm=True)
    stage, _ = built(made.client, request("PERF-DELIVERY", image.tags[0], target="torch"), made.root)
    running = made.client.containers.run(stage.image, ["sleep", "60"], detach=True, init=True)
    try:
        calls = file_from(running, "/opt/conda/asked").decode().splitlines()
        assert calls[0] == "env create -n llm_performance_delivery -f cnb/environment.yml"
        assert all(
            line.startswith("run --no-capture-output -n llm_performance_delivery python -m pip") for line in calls[1:]
        )
        script = ".envs/current/bin/python -c 'import sys; print(sys.prefix)' && readlink -f .envs/current"
        code, said = ran(running, "sh", "-c", script)
        assert (code, said.splitlines()[1]) == (0, "/opt/conda/envs/llm_performance_delivery")
    finally:
        running.remove(force=True)


CONDA = """#!/bin/sh
# Answers what the installer asks of conda, and nothing else.
set -eu
envs=/opt/conda/envs
mkdir -p $envs
case "$1 $2" in
  "info --json")
    found=$(find $envs -mindepth 1 -maxdepth 1 -printf '"%p", ')
    echo "{\\"envs\\": [${found%, }], \\"envs_dirs\\": [\\"$envs\\"]}" ;;
  "env create")
    echo "$*" >>/opt/conda/asked
    grep -q '^  - python=' "$6"
    python3 -m venv --without-pip "$envs/$4"
    mkdir "$envs/$4/conda-meta"
    python3 -m zipfile -e /opt/pip-*.whl "$envs"/"$4"/lib/python3*/site-packages ;;
  "run --no-capture-output")
    echo "$*" >>/opt/conda/asked
    name=$4
    shift 4
    PATH=$envs/$name/bin:$PATH exec "$@" ;;
  *) echo "unknown: $*" >&2; exit 2 ;;
esac
"""


@pytest.mark.full
def test_the_command_line_builds_proves_and_lists(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`run` is what `nox -s TRAIN-CPU -- --image` calls; it builds this very checkout."""
    monkeypatch.setattr(container_command.smoke, "RUNS", tmp_path)
    build = ["run", "--profile", "TRAIN-CPU", "--base-image", made.base, "--json"]
    if given := request("TRAIN-CPU", made.base).certificate:
        build += ["--ca", str(given)]
    command = [*build, "--experiment", "mixed_precision_backward", "--run-label", "by-command"]
    assert container_command.main(command, asked.check_all) == 0
    answer = json.loads(capfd.readouterr().out)
    assert (answer["tag"], answer["user"]) == (naming.tag_of("TRAIN-CPU"), "lab")
    assert answer["digest"] == answer["image"] == made.tagged.id
    (path,) = answer["records"]
    assert json.loads(Path(path).read_text(encoding="utf-8"))["identity"]["run_label"] == "by-command"
    assert made.tagged.labels[naming.COMMIT] == container_command.commit_of(ROOT)
    assert container_command.main(["list", "--json"], asked.check_all) == 0
    assert naming.tag_of("TRAIN-CPU") in [entry["tag"] for entry in json.loads(capfd.readouterr().out)]

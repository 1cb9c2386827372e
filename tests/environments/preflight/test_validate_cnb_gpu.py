"""tools/validate_cnb_gpu.sh under dash: each step blocked in its turn, a summary in every case, and the mark it leaves.

Device nodes, nvidia-smi and the two Python commands that need a card are stand-ins here; what reads their answers is
the real thing. On a real card it was run by hand: its summary lies in cnb/validations/.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tools.environments.installed import stamp
from tools.environments.layout import ROOT
from tools.environments.preflight import gpu_validation
from tools.environments.registry import registry

GPU = registry.load(ROOT).get("TRAIN-CUDA130-MECHANISM")
SCRIPT = ROOT / "tools" / "validate_cnb_gpu.sh"
SHELL = shutil.which("dash") or "/bin/sh"
SCHEMA = json.loads((ROOT / "cnb" / "validations" / "summary.schema.json").read_text(encoding="utf-8"))

SMI = '#!/bin/sh\necho "NVIDIA H200, 143771 MiB, 9.0, 580.65.06"\n'
# The commands that need a card answer from files; every other goes to the real interpreter.
PYTHON = """#!/bin/sh
case "$*" in
  *environment_preflight.py*) cat "$STAND_IN/preflight.json"; exit 0 ;;
  *"-m experiments run"*) echo "$*" >>"$STAND_IN/asked"; cat "$TMLAB_RUNS/.gpu-validation.json" >"$STAND_IN/during"
    cat "$STAND_IN/record.json"; echo "  a note" >&2; echo "it broke" >&2; exit "${EXPERIMENT_CODE:-0}" ;;
esac
exec {python} "$@"
"""
OK = {"wanted": "w", "found": "f", "repair": ""}
CHECKS = [{"id": name, "status": "ok", **OK} for name in ("gpu.count", "operation.float32", "operation.float16")]


def report(*more: dict[str, str]) -> dict[str, Any]:
    checks = [*CHECKS, *more]
    return {
        "profile": GPU.id,
        "registry_digest": "sha256:" + "0" * 64,
        "status": "ok",
        "accepted": [],
        "checks": checks,
    }


class Box:
    """A machine with a card, as far as the script can see."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin, self.devices, self.runs = folder / "bin", folder / "dev", folder / "runs"
        for each in (self.bin, self.devices, self.runs):
            each.mkdir()
        for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
            (self.devices / name).touch()
        self.put("bin/nvidia-smi", SMI)
        self.put("bin/python3", PYTHON.replace("{python}", sys.executable))
        self.put("preflight.json", json.dumps(report()))
        self.put("record.json", '{\n "evidence_level": "gpu_smoke"\n}')

    def put(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def run(self, *arguments: str, profile: str | None = GPU.id, **environ: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("CNB", "TMLAB_", "PYTHON"))}
        clean |= {"PATH": f"{self.bin}:{os.environ['PATH']}", "STAND_IN": str(self.folder), "LC_ALL": "C.UTF-8"}
        clean |= {"TMLAB_RUNS": str(self.runs), "TMLAB_DEVICES": str(self.devices), **environ}
        command = [SHELL, str(SCRIPT), *(() if profile is None else ("--profile", profile)), *arguments]
        return subprocess.run(command, cwd=self.folder, env=clean, capture_output=True, text=True, check=False)

    def summary(self, name: str = "runs/gpu-validation.json") -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(SCHEMA).validate(content)
        return content

    def mark(self) -> str | None:
        return gpu_validation.read(GPU, self.runs / gpu_validation.NAME)


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def blocked_at(box: Box, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The step at which a blocked run ended, which no step but those of the same report may follow."""
    assert done.returncode == 1, done.stdout + done.stderr
    told = box.summary()
    assert told["status"] == "blocked"
    assert box.mark() is None
    at = next(place for place, step in enumerate(told["steps"]) if step["status"] == "blocked")
    step: dict[str, Any] = told["steps"][at]
    assert all(later["id"].startswith("operation.") for later in told["steps"][at + 1 :])
    assert step["repair"]
    assert f"→ {step['repair']}" in done.stdout
    return step


def test_a_healthy_box_passes_and_is_marked(box: Box) -> None:
    done = box.run("--summary", "here.json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = box.summary("here.json")
    names = ["driver", "nodes", "nvidia-smi", "preflight", "operation.float32", "operation.float16", "experiment"]
    assert [(step["id"], step["status"]) for step in told["steps"]] == [(name, "ok") for name in names]
    assert told["steps"][0]["found"] == "580.65.06"
    assert told["record"]["experiment"] == "mixed_precision_backward"
    assert told["record"]["level"] == "gpu_smoke"
    assert told["registry_digest"] == report()["registry_digest"]
    assert box.mark() == "passed"
    assert json.loads((box.folder / "during").read_text())["state"] == "checked"
    assert (
        "--workload smoke --profile TRAIN-CUDA130-MECHANISM --run-mode real_gpu" in (box.folder / "asked").read_text()
    )
    assert str(box.folder) not in json.dumps(told)


def test_the_image_it_ran_in_is_told(box: Box) -> None:
    assert box.run(TMLAB_IMAGE_PROFILE=GPU.id, TMLAB_IMAGE_DIGEST="sha256:" + "a" * 64).returncode == 0
    assert box.summary()["image"] == {"profile": GPU.id, "digest": "sha256:" + "a" * 64}


def test_no_driver(box: Box) -> None:
    box.put("bin/nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed' >&2\nexit 9\n")
    assert blocked_at(box, box.run())["id"] == "driver"


@pytest.mark.parametrize("name", ["nvidia0", "nvidiactl", "nvidia-uvm"])
def test_a_device_node_that_is_missing(box: Box, name: str) -> None:
    (box.devices / name).unlink()
    step = blocked_at(box, box.run())
    assert step["id"] == "nodes"
    assert name.rstrip("0") in step["found"]


def test_wsl_has_a_node_of_its_own(box: Box) -> None:
    shutil.rmtree(box.devices)
    box.devices.mkdir()
    (box.devices / "dxg").touch()
    assert box.run().returncode == 0


def test_a_blocked_check_of_preflight(box: Box) -> None:
    bad = {
        "id": "torch.build",
        "status": "blocked",
        "wanted": "2.11.0+cu130",
        "found": '2.13.0+cpu "x" \\',
        "repair": "r",
    }
    box.put("preflight.json", json.dumps(report(bad)))
    step = blocked_at(box, box.run())
    assert (step["id"], step["repair"]) == ("preflight", "r")
    assert '2.13.0+cpu "x" \\' in step["found"]


def test_a_preflight_that_breaks(box: Box) -> None:
    box.put("preflight.json", "Traceback")
    assert blocked_at(box, box.run())["id"] == "preflight"


def test_a_dtype_that_does_not_compute(box: Box) -> None:
    wrong = {"id": "operation.bfloat16", "status": "blocked", "wanted": "exact", "found": "3.9", "repair": "new"}
    box.put("preflight.json", json.dumps({**report(wrong), "accepted": []}))
    done = box.run()
    assert done.returncode == 1
    steps = {step["id"]: step["status"] for step in box.summary()["steps"]}
    assert (steps["preflight"], steps["operation.bfloat16"]) == ("blocked", "blocked")


@pytest.mark.parametrize("record", ["", '{"status": "blocked"}'])
def test_an_experiment_without_a_record(box: Box, record: str) -> None:
    box.put("record.json", record)
    assert blocked_at(box, box.run())["id"] == "experiment"


def test_an_experiment_that_fails_says_its_last_line(box: Box) -> None:
    step = blocked_at(box, box.run(EXPERIMENT_CODE="3"))
    assert step["found"] == "mixed_precision_backward ended with 3: it broke"


def test_a_profile_without_experiments_is_validated_without_one(box: Box) -> None:
    done = box.run(profile="ARCH-CUDA-MECHANISM")
    assert done.returncode == 0, done.stdout + done.stderr
    assert box.summary()["steps"][-1]["status"] == "skipped"


def test_a_pass_of_before_does_not_outlive_a_failure(box: Box) -> None:
    assert box.run().returncode == 0
    box.put("bin/nvidia-smi", "#!/bin/sh\nexit 9\n")
    blocked_at(box, box.run())


def test_a_python_that_does_not_start(box: Box) -> None:
    step = blocked_at(box, box.run("--python", "no-such-python"))
    assert step["id"] == "python"


@pytest.mark.parametrize(
    ("profile", "words"),
    [("NO-SUCH", "a profile of the registry"), ("TRAIN-CPU", "a GPU profile\n  found  TRAIN-CPU")],
)
def test_a_profile_that_cannot_be_validated_is_wrong_usage_and_leaves_what_was_found(
    box: Box, profile: str, words: str
) -> None:
    assert box.run().returncode == 0
    before = (box.runs / "gpu-validation.json").read_bytes()
    done = box.run(profile=profile)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "→" in done.stderr
    assert (box.runs / "gpu-validation.json").read_bytes() == before
    assert box.mark() == "passed"


def test_a_registry_that_cannot_be_read_is_no_wrong_usage(box: Box) -> None:
    box.put("bin/broken", "#!/bin/sh\n[ $1 = -c ] && exit 0\nprintf '  found  torn\n  -> mend it\n' >&2\nexit 1\n")
    step = blocked_at(box, box.run("--python", "broken"))
    assert (step["id"], step["found"], step["repair"]) == ("profile", "torn", "mend it")


def test_runs_that_cannot_be_written_have_their_own_repair(box: Box) -> None:
    done = box.run("--summary", "here.json", TMLAB_RUNS="/proc/none")
    assert done.returncode == 1
    (step,) = box.summary("here.json")["steps"]
    assert (step["id"], step["status"]) == ("runs", "blocked")
    assert "/proc/none" in step["found"]
    assert "TMLAB_RUNS" in step["repair"]


@pytest.mark.parametrize("name", [".", "folder", "new/"])
def test_a_folder_is_no_summary(box: Box, name: str) -> None:
    (box.folder / "folder").mkdir()
    done = box.run("--summary", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert "a folder" in done.stderr
    assert not list(box.folder.glob("**/*.part"))


@pytest.mark.parametrize("arguments", [["--nope"], ["--summary"], ["--profile", "a b"], ["--accept", "x;id"]])
def test_wrong_usage_is_two(box: Box, arguments: list[str]) -> None:
    done = box.run(*arguments)
    assert done.returncode == 2
    assert "→ sh tools/validate_cnb_gpu.sh" in done.stderr


def test_without_a_profile_the_environment_s_stamp_decides(box: Box) -> None:
    home = box.folder / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    box.put("bin/python3", PYTHON.replace("{python}", str(home / "bin" / "python")))
    refused = box.run(profile=None)
    assert refused.returncode == 2
    assert "has no stamp" in refused.stderr
    assert not (box.runs / "gpu-validation.json").exists()
    stamp.write(stamp.Stamp(GPU.id, "sha256:0", str(home), {}, None, "venv", {}, {}))
    done = box.run(profile=None)
    assert done.stdout.startswith(f"{GPU.id} · ")
    assert box.summary()["profile"] == GPU.id
    assert box.run(profile=None, TMLAB_IMAGE_PROFILE="ARCH-CUDA-MECHANISM").stdout.startswith("ARCH-CUDA-MECHANISM · ")


def test_help_is_the_head_of_the_script(box: Box) -> None:
    done = box.run("--help")
    assert done.returncode == 0
    assert "May a GPU profile run" in done.stdout


def test_a_summary_that_cannot_be_written_is_no_pass(box: Box) -> None:
    done = box.run("--summary", "/proc/none/summary.json")
    assert done.returncode == 1
    assert done.stderr.startswith("blocked --summary\n")
    assert "could not be written to /proc/none/summary.json\n  → --summary FILE" in done.stderr
    assert len(done.stderr.splitlines()) == 4  # nothing of the shell's own
    assert done.stdout.splitlines()[-1].endswith("no summary was written")


def test_no_card_here_is_told_by_the_script_as_it_is() -> None:
    if shutil.which("nvidia-smi") or Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a card")
    done = subprocess.run(
        [SHELL, str(SCRIPT), "--profile", GPU.id, "--python", sys.executable, "--summary", os.devnull + "-not"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "driver              blocked" in done.stdout


@pytest.mark.parametrize("path", sorted((ROOT / "cnb" / "validations").glob("*-*.json")), ids=lambda path: path.name)
def test_what_was_validated_on_a_real_card_has_passed(path: Path) -> None:
    told = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    assert told["status"] == "passed"
    assert path.name.startswith(told["profile"])

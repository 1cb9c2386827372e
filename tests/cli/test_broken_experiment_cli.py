"""An experiment whose code does not import: one line in `list`, and everything about the others works."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from working_tree import command, copy_to

from experiments.evidence import store

TOPIC = "training_mechanism"
OTHER, BROKEN = "gradient_accumulation", "mixed_precision_backward"
FAULTS = {
    "syntax": ("def broken(:\n", "experiment.py:1", "SyntaxError: invalid syntax"),
    "missing": ("WORKLOADS = {}\n", "experiment.py", "has no attribute 'EXPERIMENT'"),
    "nothing": ("EXPERIMENT = None\n", "experiment.py", "AttributeError"),
    "raises": ("\n\nraise RuntimeError('two\\nlines')\n", "experiment.py:3", "RuntimeError: two lines"),
    "absent": ("import no_such_package\n", "experiment.py:1", "ModuleNotFoundError: No module named 'no_such_package'"),
    "ends": ("import sys\nsys.exit('gone')\n", "experiment.py:2", "SystemExit: gone"),
    "deeper": (f"from experiments.{TOPIC}.deeper.conclusions import x\n", "conclusions.py:2", "ZeroDivisionError"),
    "named": (
        f"from experiments.{TOPIC}.{OTHER}.experiment import EXPERIMENT\n",
        "experiment.py",
        f"EXPERIMENT is named '{OTHER}', its folder 'named'",
    ),
}


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with every fault in an experiment beside the real ones."""
    clone = copy_to(tmp_path_factory.mktemp("added"))
    for name, (code, _, _) in FAULTS.items():
        folder = clone / "experiments" / TOPIC / name
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "experiment.py").write_text(code)
    (clone / "experiments" / TOPIC / "deeper" / "conclusions.py").write_text("\nx = 1 / 0\n")
    return clone


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which an experiment with committed records is broken."""
    clone = copy_to(tmp_path_factory.mktemp("hurt"))
    (clone / "experiments" / TOPIC / BROKEN / "experiment.py").write_text("def broken(:\n")
    return clone


@pytest.fixture(scope="module", params=["def broken(:\n", "\nKIND = None\n"], ids=["syntax", "none"])
def hurt_kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which one kind of measurement is broken."""
    clone = copy_to(tmp_path_factory.mktemp("kind"))
    with (clone / "experiments" / "kinds" / "collective" / "kind.py").open("a") as file:
        file.write(request.param)
    return clone


def lab(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command(clone, "-m", "experiments", *arguments)


def test_each_fault_is_one_line_of_the_list(added: Path) -> None:
    done = lab(added, "list")
    assert done.returncode == 1
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert any(line.startswith(f"{OTHER} ") for line in lines)
    told = {line.split()[1].rstrip(":"): line for line in lines if line.startswith("broken ")}
    assert told.keys() == FAULTS.keys()
    for name, (_, place, words) in FAULTS.items():
        assert f"experiments/{TOPIC}/{name}/{place}: " in told[name]
        assert words in told[name]


def test_as_json_the_broken_ones_say_so(added: Path) -> None:
    done = lab(added, "list", "--json")
    assert done.returncode == 1
    found = {one["name"]: one for one in json.loads(done.stdout)}
    assert {name for name, one in found.items() if one["error"]} == FAULTS.keys()
    assert found[OTHER]["workloads"]
    assert found["raises"]["where"].endswith("raises/experiment.py:3")


def test_a_run_of_a_broken_one_is_refused_and_shows_where(added: Path) -> None:
    done = lab(added, "run", OTHER, "deeper", "--run-mode", "dry_run", "--run-label", "refused")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == f"blocked experiments/{TOPIC}/deeper/conclusions.py:2"
    assert f"python -c 'import experiments.{TOPIC}.deeper.experiment'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (added / "runs").exists()


def test_documents_and_report_do_not_mind_an_experiment_that_no_profile_names(added: Path) -> None:
    assert command(added, "-m", "tools.rendering", "check").returncode == 0
    done = lab(added, "report", "--profile", "TRAIN-CPU")
    assert done.returncode == 1  # the index may not be whole: it says which
    assert OTHER in done.stdout
    assert done.stdout.count("blocked experiments/") == len(FAULTS)


def test_the_others_run_while_one_is_broken(hurt: Path) -> None:
    done = lab(hurt, "run", OTHER, "--run-mode", "dry_run", "--run-label", "dry")
    assert done.returncode == 0, done.stderr
    assert store.read(hurt / "runs" / OTHER / "dry" / "record.json").evidence_level == "plan"


def test_records_are_read_and_verified_while_their_experiment_is_broken(hurt: Path) -> None:
    first = [min((hurt / "experiments" / "results" / name).glob("*.json")) for name in (BROKEN, OTHER)]
    done = lab(hurt, "results", "verify", "--json", *map(str, first))
    assert done.returncode == 0, done.stderr
    own, other = ({check["id"]: check for check in one["checks"]} for one in json.loads(done.stdout))
    for question in ("record.conclusions", "record.workload"):
        assert own[question]["status"] == "warning"
        assert f"not recomputed: experiments/{TOPIC}/{BROKEN}/experiment.py:1" in own[question]["found"]
        assert "python -c" in own[question]["repair"]
        assert "not recomputed" not in other[question]["found"]
    shown = lab(hurt, "show", BROKEN)
    assert shown.returncode == 0, shown.stderr
    assert f"not drawn: experiments/{TOPIC}/{BROKEN}/experiment.py:1" in shown.stdout


def test_the_index_and_the_documents_say_what_they_lack(hurt: Path) -> None:
    done = lab(hurt, "report")
    assert done.returncode == 1
    assert f"blocked experiments/{TOPIC}/{BROKEN}/experiment.py:1" in done.stdout
    assert OTHER in done.stdout
    checked = command(hurt, "-m", "tools.rendering", "check")
    assert checked.returncode == 1
    assert checked.stderr == ""
    lines = checked.stdout.splitlines()
    assert lines
    assert all("not made: " in line and f"{BROKEN}/experiment.py:1" in line for line in lines)


def test_what_fits_is_told_of_the_others(hurt: Path) -> None:
    done = lab(hurt, "fit", "--profile", "TRAIN-CUDA-MECHANISM", "--memory-gib", "80")
    assert done.returncode == 1
    assert OTHER in done.stdout
    assert f"blocked experiments/{TOPIC}/{BROKEN}/experiment.py:1" in done.stdout


def test_a_broken_kind_is_its_own_experiments_trouble(hurt_kind: Path) -> None:
    done = lab(hurt_kind, "run", "int8_weight_product", "--run-mode", "dry_run", "--run-label", "dry")
    assert done.returncode == 0, done.stderr
    assert lab(hurt_kind, "run", "--help").returncode == 0
    done = lab(hurt_kind, "run", "all_reduce_cost", "--run-mode", "dry_run")
    assert done.returncode != 0
    assert done.stderr.startswith("blocked experiments/")
    assert "Traceback" not in done.stderr
    listed = lab(hurt_kind, "list")
    assert "Traceback" not in listed.stdout + listed.stderr
    assert "int8_weight_product" in listed.stdout

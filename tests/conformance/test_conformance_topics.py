"""Pages of any topic: found by their folders alone, and a folder that is wrong is named with what it lacks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from probe_pages import PAGE_TOML, page_at, topic_at

import experiments
from experiments.conformance import catalogue, conformance_record, page_choice
from tools.environments.errors import LabError
from tools.environments.layout import ROOT
from tools.environments.registry import registry

SCRIPT = os.path.join("tools", "test_framework_conformance.py")
TRAINING = "training_mechanism"

RECORDED = """
import shutil
from pathlib import Path
from experiments.conformance import command, exercise
from experiments.evidence import index
from tools.environments.layout import ROOT
from tools.environments.model import Check, Report
from tools.environments.registry import registry
from tools.rendering import conformance_parts

def healthy(profile, known, accept):
    return Report(profile.id, known.digest, (Check("python.version", "ok", "3.11", "3.11"),))

asked = ["--topic", "probe", "--profile", "TRAIN-CPU", "--run-label", "first", "--require-passed"]
assert command.main(asked, healthy) == 0
assert command.main(["--page", "doubling", "--try-here"], healthy) == 0
assert exercise.main(["doubling", "--answer"]) == 0
assert exercise.main(["--all", "--topic", "probe"]) == 0
committed = ROOT / "experiments" / "results" / "conformance" / "first.json"
committed.parent.mkdir(parents=True)
shutil.copy(Path("runs", "conformance", "first", "record.json"), committed)
entries, refused = index.load(committed.parents[1])
assert not refused
made = conformance_parts.makers(entries, registry.load(ROOT))
print(made["conformance-pages"](("probe",), ROOT / "docs" / "a.md"))
print(made["conformance-faults"](("doubling",), ROOT / "docs" / "a.md"))
"""


@pytest.fixture(name="checkout", scope="module")
def fixture_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout to which somebody added a topic, and edited nothing."""
    place = tmp_path_factory.mktemp("checkout")
    for name in ("experiments", "tools", "requirements"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
    topic_at(place / "experiments")
    return place


@pytest.fixture(name="beside")
def fixture_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A second folder of experiments, beside the one of this checkout."""
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path)])
    return tmp_path


def ran(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=checkout,
        env={**environment, "TMLAB_RUNS": str(checkout / "runs")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_topic_s_page_is_found_run_recorded_and_shown_without_an_edit(checkout: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("hypothesis")
    done = ran(checkout, "-c", RECORDED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TRAIN-CPU · probe · 1 pages · checked against torch " in done.stdout
    assert "1 of 1 checks, 1 of 1 faults" in done.stdout
    assert "| `doubling` | Doubling | passed | 1 | 1 / 1 |" in done.stdout
    assert "| three times | `probe.doubling` |  | `by_torch` |" in done.stdout
    assert "experiments/mechanisms/probe/doubling.py" in done.stdout
    record = json.loads((checkout / "runs" / "conformance" / "first" / "record.json").read_text(encoding="utf-8"))
    assert (record["identity"]["kind"], record["identity"]["page"]) == ("conformance", "probe")
    assert record["workload"]["name"] == "probe"
    assert record["workload"]["digest"] == record["workload"]["registered_digest"]
    assert "experiments/probe/conformance" in record["source"]["scope"]
    assert not [name for name in record["source"]["scope"] if TRAINING in name]
    assert [one["name"] for one in record["candidates"]] == ["doubling/by_torch", "doubling/thrice"]
    assert set(record["runtime"]["packages"]) >= {"torch"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--topic", "prob"), ("wanted a topic that has pages", "found  'prob'", "→ --topic probe")),
        (("--topic", ""), ("found  ''", "--topic probe | training_mechanism")),
        (("--run-label", "x"), ("found  none is named", "--topic probe | training_mechanism")),
        (
            ("--topic", "probe", "--page", "attention"),
            ("attention, of training_mechanism", "--topic training_mechanism"),
        ),
        (("--page", "doubling", "--page", "attention"), ("attention, of training_mechanism", "a run has one topic")),
        (("--topic", "probe"), ("no profile of probe lists conformance", "--try-here")),
    ],
)
def test_what_is_asked_for_wrongly_is_answered_with_what_to_do(
    checkout: Path, arguments: tuple[str, ...], told: tuple[str, ...]
) -> None:
    done = ran(checkout, SCRIPT, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert all(words in done.stderr for words in told), done.stderr
    assert not (checkout / "runs" / "conformance" / "x").exists()


def test_the_topic_is_that_of_the_pages_or_of_the_profile_or_the_only_one(beside: Path) -> None:
    known = registry.load(ROOT)
    alone = page_choice.choose(known, None, (), None)
    assert (alone.topic.name, alone.pages) == (TRAINING, catalogue.ids(TRAINING))
    assert page_choice.need_profile(alone).id == "TRAIN-CPU"
    page_at(beside)
    chosen = page_choice.choose(known, None, (), "TRAIN-CUDA-MECHANISM")
    assert (chosen.topic.name, page_choice.need_profile(chosen).id) == (TRAINING, "TRAIN-CUDA-MECHANISM")
    assert page_choice.choose(known, None, ("doubling", "doubling"), "TRAIN-CPU").pages == ("doubling",)
    assert page_choice.choose(known, "probe", (), None).profile is None
    with pytest.raises(LabError, match="none is named"):
        page_choice.choose(known, None, (), "BASE-CPU")


def test_readers_see_the_order_that_the_pages_give(beside: Path) -> None:
    for page, order in (("first", 3), ("second", 20), ("third", 20)):
        page_at(beside, folder=page, page=PAGE_TOML.replace("1", str(order)))
    assert catalogue.ids("probe") == ("first", "second", "third")
    assert catalogue.ids() == (*catalogue.ids("probe"), *catalogue.ids(TRAINING))


def test_what_is_no_page_is_left_alone(beside: Path) -> None:
    folder = page_at(beside).parent
    for name in ("shared", "__pycache__", "left_over", ".ipynb_checkpoints"):
        (folder / name / "__pycache__").mkdir(parents=True)
    (folder / "shared" / "__init__.py").write_text('"""What pages share."""\n')
    assert catalogue.ids("probe") == ("doubling",)


@pytest.mark.parametrize(
    ("stem", "text", "told"),
    [
        ("page", None, "no such file"),
        ("page", "order = ", "Invalid value"),
        ("page", PAGE_TOML.replace("order = 1", 'order = "1"'), "of another type: order"),
        ("page", PAGE_TOML.replace("order = 1", "order = true"), "of another type: order"),
        ("page", PAGE_TOML + "colour = 1\n", "unknown: colour"),
        ("page", PAGE_TOML.replace("title_zh", "titel"), "missing: title_zh"),
    ],
)
def test_a_page_that_does_not_say_what_it_is_is_named(beside: Path, stem: str, text: str | None, told: str) -> None:
    page_at(beside, **{stem: text})
    with pytest.raises(LabError, match=told) as refused:
        catalogue.entries()
    assert refused.value.where.endswith("probe/conformance/doubling/page.toml")


@pytest.mark.parametrize(
    ("text", "told", "where"),
    [
        (None, "no such file", "mutants.toml"),
        ("thrice = 1\n", "found  1", "mutants.toml [thrice]"),
        ('[thrice]\nmodule = "a"\nold = "b"\nnew = "c"\n', "missing: fault", "mutants.toml [thrice]"),
    ],
)
def test_faults_that_cannot_be_read_are_named(beside: Path, text: str | None, told: str, where: str) -> None:
    page_at(beside, mutants=text)
    with pytest.raises(LabError, match=re.escape(told)) as refused:
        catalogue.mutants("doubling")
    assert refused.value.where.endswith(where)


@pytest.mark.parametrize(
    ("text", "told"),
    [("1 / 0\n", "ZeroDivisionError"), ("X = 1\n", "no attribute 'PAGE'"), ("import no_such_thing\n", "no_such_thing")],
)
def test_a_page_whose_code_does_not_import_is_named(beside: Path, text: str, told: str) -> None:
    topic = f"probe_{re.sub(r'[^a-z]', '_', told.lower())}"  # its own: Python keeps what it has imported
    page_at(beside, topic=topic, folder="broken", __init__=text)
    with pytest.raises(LabError, match=told) as refused:
        catalogue.load("broken")
    assert refused.value.where.endswith("conformance/broken")


def test_an_id_belongs_to_one_topic(beside: Path) -> None:
    page_at(beside, folder="attention")
    with pytest.raises(LabError, match="probe has attention"):
        catalogue.ids()


def test_the_registered_workloads_of_the_committed_records_are_still_registered(beside: Path) -> None:
    page_at(beside)
    folder = ROOT / "experiments" / "results" / "conformance"
    committed: list[dict[str, Any]] = [json.loads(file.read_bytes())["workload"] for file in folder.glob("*.json")]
    assert {one["name"] for one in committed} == {"part02"}
    assert {one["digest"] for one in committed} == {conformance_record.registered()["part02"]}
    assert set(conformance_record.registered()) == {"part02", "probe", *catalogue.ids()}


def test_the_engine_and_the_notebook_kit_name_no_topic_and_no_profile() -> None:
    known = registry.load(ROOT)
    words = {rf"\b{name}\b" for name in known.profiles} | {rf"experiments[./]{name}\b" for name in known.topics}
    named = re.compile("|".join(sorted({*words, rf"\b{TRAINING}\b"})))
    files = [*(ROOT / "experiments" / "conformance").rglob("*.py"), *(ROOT / "experiments" / "notebooks").rglob("*.py")]
    assert len(files) > 20
    found = {path.name: named.findall(path.read_text(encoding="utf-8")) for path in files}
    assert {name: hits for name, hits in found.items() if hits} == {}

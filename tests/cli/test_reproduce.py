"""`reproduce` of a record: of every kind, the printed command asks for the very workload that was measured."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import record_command
from record_command import call
from sample_records import cpu_record, gpu_record

from experiments import kinds
from experiments.cli import run, run_request
from experiments.conformance import catalogue, command, conformance_record, page_choice
from experiments.evidence import labels, store
from experiments.evidence.record import Record
from experiments.harness import profile_check
from experiments.harness.kind import Kind
from experiments.harness.measured_workload import REPETITION
from tools.environments.layout import ROOT

TIMES = ("--steps", "3", "--warmup", "7", "--rounds", "4", "--seed=-7")
# Of each kind an experiment, and a value other than the registered one for every option that changes a knob.
CHANGED = {
    "training_step": (
        "gradient_accumulation",
        *("--profile", "TRAIN-CPU", "--model", "Qwen/Qwen2.5-0.5B", "--head", "both", "--precision", "bf16"),
        *("--batch", "6", "--sequence", "32", "--piece-of", "2"),
    ),
    "operator": ("int8_weight_product", "--rows", "3", "--in-features", "40", "--out-features", "24"),
    "collective": (
        "all_reduce_cost",
        *("--ranks", "3", "--sizes", "1024,4096,65536", "--unseen", "16384", "--dtype", "float64"),
    ),
}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return record_command.folders(tmp_path, monkeypatch)


def planned(capsys: pytest.CaptureFixture[str], name: str, label: str, *options: str) -> Record:
    """The record of a dry run with these options."""
    code, _, err = call(capsys, "run", name, "--run-mode", "dry_run", "--run-label", label, *options)
    assert code == 0, err
    return store.read(labels.record_path(name, label))


def asked(text: str) -> run_request.Asked:
    """What a printed command asks for, under a label of its own."""
    words = shlex.split(text)
    assert words[:3] == ["python", "-m", "experiments"]
    parser = argparse.ArgumentParser(allow_abbrev=False)
    subparsers = parser.add_subparsers()
    run.add_parser(subparsers)
    run.add_named_options(subparsers.choices["run"], words[3:])
    (found,) = run_request.requests(parser.parse_args(words[3:]), profile_check.load())
    return found


def test_every_option_that_changes_a_knob_is_changed_here() -> None:
    assert CHANGED.keys() == {kind.word for kind in kinds.measured()}
    for kind in kinds.measured():
        knobs = {field.name for field in dataclasses.fields(kind.workload)}
        flags = {option.flag for option in kind.options if option.word in knobs}
        assert flags <= {*CHANGED[kind.word]}
        assert set(REPETITION) <= knobs


@pytest.mark.parametrize("kind", CHANGED)
def test_the_command_asks_for_the_workload_that_was_measured(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, *options = CHANGED[kind]
    registered = planned(capsys, name, "plain", *([] if kind != "training_step" else options[:2]))
    record = planned(capsys, name, "changed", *TIMES, *options)
    told = kinds.reproduce(record)
    before, after = registered.workload.knobs, record.workload.knobs
    own = [option.word for option in kinds.find(kind).options if option.word in after]  # type: ignore[attr-defined]
    assert not [knob for knob in (*REPETITION, *own) if before[knob] == after[knob]]
    found = asked(told)
    assert found.request.workload.digest() == record.workload.digest != registered.workload.digest
    assert (found.request.experiment.name, found.profile.id) == (name, record.profile.id)
    assert asked(kinds.reproduce(registered)).request.registered_digest == registered.workload.digest


def test_the_folder_of_a_local_model_is_left_to_be_filled_in() -> None:
    record = gpu_record()
    local = replace(record.model, weights_source="local")  # type: ignore[type-var]
    knobs = {**record.workload.knobs, "model": "local"}
    told = kinds.reproduce(replace(record, model=local, workload=replace(record.workload, knobs=knobs, digest="other")))
    assert told.count("--model ") == 1
    assert "--model-source local --model FOLDER --run-label NEW" in told


@pytest.mark.parametrize(
    "options",
    [
        ("--all",),
        ("--all", "--seed", "3"),
        ("--page", "attention"),
        ("--page", "attention", "--page", "autograd", "--seed", "3", "--no-mutants"),
        ("--no-mutants",),
    ],
    ids=" ".join,
)
def test_the_command_of_pages_asks_for_the_pages_that_were_run(options: tuple[str, ...]) -> None:
    def workload(*options: str) -> tuple[object, ...]:
        given = command._parser().parse_args(options)
        choice = page_choice.choose(profile_check.load(), given.topic, given.page, given.profile)
        return choice.topic, conformance_record.workload(choice.pages, given.seed, not given.no_mutants)

    topic, made = workload(*options)
    base = cpu_record()
    record = replace(
        base,
        identity=replace(base.identity, experiment="conformance", kind="conformance"),
        workload=made,  # type: ignore[arg-type]
        source=replace(base.source, scope=conformance_record.scope(topic.name)),  # type: ignore[attr-defined]
    )
    told = shlex.split(kinds.reproduce(record))
    assert told[:2] == ["python", "tools/test_framework_conformance.py"]
    assert workload(*told[2:]) == (topic, made)


def test_a_record_of_pages_from_before_kinds_is_reproduced_by_its_own_command() -> None:
    record = store.read(ROOT / "experiments" / "results" / "conformance" / "2026-11-30-164814.json")
    assert record.identity.kind == "training_step"
    told = "python tools/test_framework_conformance.py --all --profile TRAIN-CPU --run-label NEW"
    assert kinds.reproduce(record) == told
    assert catalogue.ids() == record.workload.knobs["pages"]


def test_of_a_kind_that_this_checkout_lacks_it_is_said_that_the_command_is_not_known() -> None:
    record = replace(cpu_record(), identity=replace(cpu_record().identity, kind="adding"))
    told = kinds.reproduce(record)
    assert told.startswith("not known here: wanted a kind of measurement that this checkout has: ")
    assert told.endswith("found 'adding'  → update this checkout: git pull")
    assert kinds.hints(record) == {}


def test_every_kind_says_something_of_each_of_its_marks() -> None:
    for word in kinds.words():
        kind = kinds.find(word)
        assert all(kind.words.marks.values()), word
        assert not isinstance(kind, Kind) or kind.options

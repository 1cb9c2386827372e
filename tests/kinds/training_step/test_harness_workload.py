"""Workloads: the digest covers every knob, wrong settings are refused, the ladder goes down step by step."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from experiments.cli import discovery
from experiments.evidence.digests import digest_of
from experiments.harness.measured_workload import changed, check_samples
from experiments.kinds.training_step.training_workload import TrainingWorkload, check, shorter
from experiments.models import registered_config
from tools.environments.errors import EXIT_USAGE, LabError

SHAPE = registered_config.shape(registered_config.config("tiny-qwen2"))
SMALL = TrainingWorkload(name="small", model="tiny-qwen2", batch=2, sequence=64, steps=2, warmup=1, rounds=2)


def test_the_digest_is_the_one_the_record_recomputes() -> None:
    assert SMALL.digest() == digest_of(SMALL.knobs())


def test_every_knob_but_the_name_changes_the_digest() -> None:
    assert replace(SMALL, name="other").digest() == SMALL.digest()
    others = {
        "model": "x",
        "head": "chunked",
        "optimizer": "adamw",
        "precision": "bf16",
        "oracle": False,
        "extra": {"k": 1},
        "learning_rate": 0.01,
        "dropout": 0.1,
    }
    for field in fields(TrainingWorkload):
        if field.name != "name":
            value = others.get(field.name, 7)
            assert replace(SMALL, **{field.name: value}).digest() != SMALL.digest(), field.name


def test_a_knob_that_was_not_given_stays_as_registered() -> None:
    assert changed(SMALL, batch=None, sequence=32) == replace(SMALL, sequence=32)


@pytest.mark.parametrize(
    ("knobs", "option"),
    [
        ({"batch": 0}, "--batch"),
        ({"batch": -1}, "--batch"),
        ({"batch": 10**12}, "--batch"),
        ({"sequence": 513}, "--sequence"),
        ({"sequence": 1}, "--sequence"),
        ({"steps": 0}, "--steps"),
        ({"rounds": 0}, "--rounds"),
        ({"warmup": -1}, "--warmup"),
        ({"piece_of": 0}, "--piece-of"),
        ({"seed": 2**53}, "--seed"),
        ({"seed": -(2**53)}, "--seed"),
        ({"steps": 10**20}, "--steps"),
        ({"rounds": 3_000_000}, "--rounds"),
        ({"warmup": 10**20}, "--warmup"),
        ({"piece_of": 10**20}, "--piece-of"),
        ({"steps": 10_000, "rounds": 3}, "--steps, --rounds"),
    ],
)
def test_a_workload_that_means_nothing_is_refused(knobs: dict[str, int], option: str) -> None:
    with pytest.raises(LabError) as caught:
        check(changed(SMALL, **knobs), SHAPE)
    assert caught.value.where == option
    assert caught.value.code == EXIT_USAGE


def test_the_largest_batch_that_is_named_is_taken() -> None:
    with pytest.raises(LabError, match=r"give --batch 262144 or less") as caught:
        check(changed(SMALL, batch=262145), SHAPE)
    assert caught.value.found == "262145 x 64"
    check(changed(SMALL, batch=262144), SHAPE)


def test_the_largest_numbers_that_are_named_are_taken() -> None:
    for knobs in ({"seed": 2**53 - 1}, {"seed": 1 - 2**53}, {"steps": 10_000}, {"rounds": 1000}, {"piece_of": 2**20}):
        check(changed(SMALL, **knobs), SHAPE)
    check_samples(changed(SMALL, rounds=100, steps=10), timed=25)
    with pytest.raises(LabError, match="100 rounds x 10 steps x 26 timed candidates") as caught:
        check_samples(changed(SMALL, rounds=100, steps=10), timed=26)
    assert caught.value.code == EXIT_USAGE


def test_the_ladder_shortens_the_sequence_first_then_the_batch_and_ends() -> None:
    steps = []
    workload: TrainingWorkload | None = replace(SMALL, batch=4, sequence=1024)
    while workload is not None:
        steps.append((workload.batch, workload.sequence))
        workload = shorter(workload)
    assert steps == [(4, 1024), (4, 512), (4, 256), (2, 256), (1, 256), (1, 128)]


def test_the_ladder_never_changes_what_else_was_asked() -> None:
    down = shorter(replace(SMALL, batch=4, sequence=1024, piece_of=2))
    assert down is not None
    assert replace(down, sequence=1024) == replace(SMALL, batch=4, sequence=1024, piece_of=2)


def test_every_registered_workload_is_sound() -> None:
    known, broken = discovery.each()
    trained = [experiment for experiment in known if experiment.kind.workload is TrainingWorkload]
    assert trained
    assert not broken
    for experiment in trained:
        assert {"smoke", "default", "fit-8gib", "large"} <= set(experiment.workloads), experiment.name
        for name, workload in experiment.workloads.items():
            assert workload.name == name
            check(workload, registered_config.shape(registered_config.config(workload.model)))

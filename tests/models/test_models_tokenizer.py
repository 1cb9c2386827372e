"""The shipped tokenizer and passage: exact both ways, made by the training that is shipped, cut into fixed rows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models import passage, registered_config, tokenizer
from experiments.models.batches import training_rows
from experiments.models.bpe_training import MERGES, train


def test_the_shipped_merges_are_those_the_training_finds() -> None:
    shipped = json.loads(tokenizer.FILE.read_text(encoding="utf-8"))["merges"]
    assert [tuple(pair) for pair in shipped] == train(passage.text(), MERGES)


def test_the_passage_comes_back_and_is_shorter_in_tokens() -> None:
    ids = tokenizer.encode(passage.text())
    assert tokenizer.decode(ids) == passage.text()
    assert len(ids) < len(passage.text().encode()) / 2


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 <= token < tokenizer.vocabulary() for token in ids)


def test_the_vocabulary_is_that_of_the_tiny_model() -> None:
    assert tokenizer.vocabulary() == registered_config.shape(registered_config.config("tiny-qwen2")).vocabulary


def test_rows_begin_again_at_the_end_of_the_text_and_targets_are_the_next_token() -> None:
    asset = registered_config.asset("tiny-qwen2")
    rows = training_rows(asset, batch=8, sequence=1024)
    assert rows.tokens == 8 * 1024
    for inputs, targets in zip(rows.inputs, rows.targets, strict=True):
        assert inputs[1:] == targets[:-1]
    assert rows.digest == training_rows(asset, batch=8, sequence=1024).digest
    assert rows.digest != training_rows(asset, batch=4, sequence=1024).digest


def test_no_tokens_are_no_rows() -> None:
    with pytest.raises(ValueError, match="no tokens"):
        tokenizer.rows([], 1, 4)

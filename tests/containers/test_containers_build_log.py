"""An engine's stream, cut anywhere, read into stages, steps, last lines, and the error."""

from __future__ import annotations

from typing import Any

import pytest

from tools.containers.build_log import KEPT_LINES, BuildLog

STREAM = """Step 1/6 : ARG BASE_IMAGE=python
Step 2/6 : FROM ${BASE_IMAGE} AS base
 ---> 592f981519a5
Step 3/6 : RUN one
 ---> Using cache
 ---> 111111111111
Step 4/6 : FROM base AS torch
 ---> 111111111111
Step 5/6 : COPY a b
 ---> Using cache
Step 6/6 : RUN two
 ---> Running in abc
\x1b[91mfirst line
\x1b[0msecond\rthird
Removing intermediate container abc
"""


def read(*events: dict[str, Any]) -> BuildLog:
    log = BuildLog()
    for event in events:
        log.feed(event)
    return log


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_stages_and_steps_however_the_stream_is_cut(size: int) -> None:
    log = read(*({"stream": STREAM[at : at + size]} for at in range(0, len(STREAM), size)))
    assert [(stage.name, stage.steps, stage.cached, stage.kept) for stage in log.stages] == [
        ("base", 1, 1, True),
        ("torch", 2, 1, False),
    ]
    assert log.step == "Step 6/6 : RUN two"
    assert log.lines == ["first line", "third"]
    assert (log.stage, log.last) == ("torch", "third")
    assert "".join(log.text) == STREAM


def test_the_image_the_error_and_a_pull() -> None:
    log = read(
        {"stream": "Step 1/2 : FROM debian\n"},
        {"status": "Downloading", "progress": "[==> ]", "id": "abc"},
        {"aux": {"ID": "sha256:1"}},
        {"errorDetail": {"code": 7, "message": "returned a non-zero code: 7"}, "error": "other words"},
    )
    assert log.last == "abc Downloading [==> ]"
    assert (log.image, log.error) == ("sha256:1", "returned a non-zero code: 7")
    assert log.stages[0].name == "stage 0"
    assert read({"error": "plain"}).error == "plain"


def test_before_the_first_stage_and_beside_what_is_known() -> None:
    log = read({"stream": "Step 1/2 : ARG A=1\n"}, {"aux": {}}, {"unknown": 1})
    assert (log.stage, log.last, log.image) == ("base", "Step 1/2 : ARG A=1", "")


def test_of_a_talkative_step_only_the_end_is_held() -> None:
    log = read({"stream": "Step 1/1 : FROM a AS b\n"}, {"stream": "".join(f"{n}\n" for n in range(1000))})
    assert len(log.lines) == KEPT_LINES + 1
    assert log.last == "999"

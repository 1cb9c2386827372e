"""What a run says while it goes on: JSON per line for machines, lines for logs, a bar without a thread for people."""

from __future__ import annotations

import io
import json
import threading

import pytest

from experiments.harness.events import Bar, Event, JsonLines, Listener, PlainLines, Silence

RUN: list[Event] = [
    {"event": "note", "text": "importing"},
    {"event": "began", "title": "page · smoke", "tasks": 2, "done": 0, "label": "x"},
    {"event": "task_began", "id": "gate / fp32"},
    {"event": "task_ended", "id": "gate / fp32", "status": "ok", "wall_s": 0.1, "message": None},
    {"event": "task_began", "id": "gate / bf16"},
    {"event": "task_ended", "id": "gate / bf16", "status": "oom", "wall_s": 0.2, "message": "no room"},
    {"event": "finished", "record": "runs/x/record.json", "level": "cpu_mechanism"},
]


def play(listener: Listener) -> None:
    for event in RUN:
        listener.hear(event)
    listener.close()


def test_json_lines_are_the_events_themselves() -> None:
    stream = io.StringIO()
    play(JsonLines(stream))
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == RUN


def test_plain_lines_say_what_finished_and_what_failed_and_why() -> None:
    stream = io.StringIO()
    play(PlainLines(stream))
    lines = stream.getvalue().splitlines()
    assert lines == [
        "  importing",
        "page · smoke · 2 tasks",
        "  gate / fp32  ok  0.1 s",
        "  gate / bf16  oom  0.2 s · no room",
    ]


def test_the_bar_reaches_its_end_tells_of_failures_and_starts_no_thread(capfd: pytest.CaptureFixture[str]) -> None:
    before = threading.active_count()
    bar = Bar()
    for event in RUN:
        bar.hear(event)
        assert threading.active_count() == before  # a thread that holds a lock at a fork would hang the child
    bar.close()
    said = capfd.readouterr()
    assert "no room" in said.err
    assert "100%" in said.err
    assert said.out == ""


def test_silence_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    play(Silence())
    assert capfd.readouterr() == ("", "")

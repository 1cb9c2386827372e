"""What a run says while it goes on: one vocabulary of events, and who turns them into a bar, lines or JSON.

Progress goes to standard error, so that standard output holds the result alone; JSON events go where they are asked
for. A bar is redrawn from the run's own loop and never from a thread: a thread that holds a lock at the moment of a
fork would hang the child.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol, TextIO

from experiments.evidence.vocabulary import JsonValue

Event = Mapping[str, JsonValue]  # {"event": "...", ...}


class Listener(Protocol):
    """Whoever wants to know how a run is getting on."""

    def hear(self, event: Event) -> None:
        """One event. `event` is began, resumed, note, task_began, task_ended, finished or interrupted.

        Of several runs also blocked or failed, where one of them ended without a record, and not_begun.
        """

    def close(self) -> None:
        """The run is over, however it ended."""


class Silence:
    """For a run nobody watches."""

    def hear(self, event: Event) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Nothing to close."""


class JsonLines:
    """One JSON object per line and event, flushed at once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def hear(self, event: Event) -> None:
        """Write the event."""
        self._stream.write(json.dumps(event, ensure_ascii=False, allow_nan=False) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Lines are flushed already."""


class Named:
    """Hands every event on with the experiment it belongs to, since several may run in turn."""

    def __init__(self, listener: Listener, experiment: str) -> None:
        self._listener = listener
        self._experiment = experiment

    def hear(self, event: Event) -> None:
        """Hand it on under its experiment's name."""
        self._listener.hear({**event, "experiment": self._experiment})

    def close(self) -> None:
        """Close the one behind."""
        self._listener.close()


class PlainLines:
    """For a log: one line when a run begins, and one per finished task."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def hear(self, event: Event) -> None:
        """Write the event as a line, if it is one a reader of logs wants."""
        line = _plain(event)
        if line is not None:
            self._stream.write(line + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Lines are flushed already."""


class Bar:
    """For a terminal: the run's name, a bar, and the task at hand, through rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[now]}"),
            console=Console(stderr=True),
            auto_refresh=False,
        )
        self._task = self._progress.add_task("", now="", visible=False)

    def hear(self, event: Event) -> None:
        """Move the bar, or print a note above it."""
        kind = event["event"]
        if kind == "began":
            self._progress.start()
            total, done = _whole(event["tasks"]), _whole(event["done"])
            self._progress.update(
                self._task, description=str(event["title"]), total=total, completed=done, visible=True
            )
        elif kind == "task_began":
            self._progress.update(self._task, now=str(event["id"]))
        elif kind == "task_ended":
            self._progress.update(self._task, advance=1)
        elif kind == "finished":
            self._progress.update(self._task, now="")
        line = _plain(event) if kind in ("note", "resumed") or event.get("status") in ("oom", "failed") else None
        if line is not None:
            self._progress.console.print(line, highlight=False)
        self._progress.refresh()

    def close(self) -> None:
        """Leave the last state of the bar on the screen."""
        self._progress.stop()


def _plain(event: Event) -> str | None:
    kind = event["event"]
    if kind == "began":
        return f"{event['title']} · {event['tasks']} tasks" + (f", {event['done']} done" if event["done"] else "")
    if kind == "resumed":
        return f"going on with {event['label']}: {event['done']} of {event['tasks']} tasks are kept"
    if kind == "note":
        return f"  {event['text']}"
    if kind == "task_ended":
        message = f" · {event['message']}" if event.get("message") else ""
        return f"  {event['id']}  {event['status']}  {event['wall_s']} s{message}"
    return None


def _whole(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0

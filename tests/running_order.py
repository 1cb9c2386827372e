"""The order in which tests run: the long lanes first, or, to find what depends on an order, a random one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import lanes
import pytest


def by_lane(items: Sequence[pytest.Item], table: Sequence[lanes.Lane]) -> list[pytest.Item]:
    """Lane by lane as the table lists them, so that no long test is left over for one worker at the end."""

    def lane(item: pytest.Item) -> int:
        return lanes.place(table, lanes.path_of(item.nodeid), {mark.name for mark in item.iter_markers()})

    return sorted(items, key=lane)


def shuffled(items: Sequence[pytest.Item], seed: int) -> list[pytest.Item]:
    """Files in random order and tests in random order within each, so that what a file shares is made once."""
    draw = random.Random(seed)
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(lanes.path_of(item.nodeid), []).append(item)
    order = list(files)
    draw.shuffle(order)
    for name in order:
        draw.shuffle(files[name])
    return [item for name in order for item in files[name]]

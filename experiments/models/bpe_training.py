"""How the shipped tokenizer was made: byte pair encoding over the shipped passage, so that its file can be made again.

`python -m experiments.models.bpe_training` prints the merges; a test compares them with the file under data/.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

from experiments.models.passage import text
from experiments.models.tokenizer import BYTES, apply_merge, pieces

MERGES = 509  # with 256 bytes and 3 special tokens: a vocabulary of 768


def train(source: str, merges: int) -> list[tuple[int, int]]:
    """The `merges` most frequent pairs, one after the other; ties go to the smaller pair, so the result is one only.

    Fewer come back when no pair occurs twice any more.
    """
    words = Counter(tuple(piece.encode()) for piece in pieces(source))
    learned: list[tuple[int, int]] = []
    while len(learned) < merges:
        counts: Counter[tuple[int, int]] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                counts[pair] += count
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        if counts[best] < 2:
            break
        token = BYTES + len(learned)
        learned.append(best)
        merged: Counter[tuple[int, ...]] = Counter()
        for word, count in words.items():
            merged[tuple(apply_merge(list(word), best, token))] += count
        words = merged
    return learned


if __name__ == "__main__":
    print(json.dumps({"merges": train(text(), MERGES)}, separators=(",", ":")))

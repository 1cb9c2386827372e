"""A small byte-level tokenizer of our own, shipped with its merges: no download, ids that fit any registered model.

Text is cut into pieces (a word with the space before it, a run of digits, a run of signs), each piece into UTF-8 bytes,
and the learned pairs are merged in the order in which they were learned (byte pair encoding; Sennrich et al. 2016,
arXiv:1508.07909). Decoding is exact for every string. How the merges were made: `bpe_training.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from experiments.models.source_types import TokenizerIdentity, digest_of_file

FILE = Path(__file__).resolve().parent / "data" / "tokenizer.json"
IDENTITY = "passage-bpe-768"
BYTES = 256
_PIECE = re.compile(r" ?[^\W\d_]+| ?\d+| ?[^\w\s]+|_+|\s+")


def pieces(source: str) -> list[str]:
    """Cut text where no merge may reach across. Joined again they are the text."""
    return _PIECE.findall(source)


def apply_merge(ids: list[int], pair: tuple[int, int], token: int) -> list[int]:
    """Replace each occurrence of `pair`, from the left, by `token`."""
    out: list[int] = []
    position = 0
    while position < len(ids):
        if position + 1 < len(ids) and (ids[position], ids[position + 1]) == pair:
            out.append(token)
            position += 2
        else:
            out.append(ids[position])
            position += 1
    return out


@cache
def _ranks() -> dict[tuple[int, int], int]:
    merges = json.loads(FILE.read_text(encoding="utf-8"))["merges"]
    return {(left, right): rank for rank, (left, right) in enumerate(merges)}


@cache
def _token_bytes() -> tuple[bytes, ...]:
    table = [bytes([value]) for value in range(BYTES)]
    for left, right in _ranks():
        table.append(table[left] + table[right])
    return tuple(table)


def vocabulary() -> int:
    """How many ids there are: bytes, merges, and the three special ones behind them (pad, begin, end)."""
    return BYTES + len(_ranks()) + 3


@cache
def _encode_piece(piece: str) -> tuple[int, ...]:
    ranks = _ranks()
    ids = list(piece.encode())
    while len(ids) > 1:
        best = min(pairwise(ids), key=lambda pair: ranks.get(pair, len(ranks)))
        if best not in ranks:
            break
        ids = apply_merge(ids, best, BYTES + ranks[best])
    return tuple(ids)


def encode(source: str) -> list[int]:
    """Token ids of a text."""
    return [token for piece in pieces(source) for token in _encode_piece(piece)]


def decode(ids: Iterable[int]) -> str:
    """The text of token ids; special tokens are nothing. Bytes that are no UTF-8 become U+FFFD."""
    table = _token_bytes()
    return b"".join(table[token] for token in ids if token < len(table)).decode(errors="replace")


def shipped_identity() -> TokenizerIdentity:
    """Name and digest of this tokenizer, for the record."""
    return TokenizerIdentity(id=IDENTITY, commit=None, digest=digest_of_file(FILE))


def rows(ids: Sequence[int], count: int, length: int) -> tuple[tuple[int, ...], ...]:
    """`count` rows of `length` ids, cut one after the other from a text that starts again at its end.

    Raises ValueError for an empty text.
    """
    if not ids:
        raise ValueError("no tokens to cut rows from")
    return tuple(tuple(ids[(row * length + place) % len(ids)] for place in range(length)) for row in range(count))

"""From text to the ids a run trains on: fixed rows cut from the passage, and the digest that names them in a record."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.models import passage, tokenizer
from experiments.models.source_types import ModelAsset, digest_of


@dataclass(frozen=True, slots=True)
class TokenRows:
    """`inputs[row][place]` and the id that follows it, `targets[row][place]`; both batch x sequence.

    `digest` is over both: the tokenized manifest of the record.
    """

    inputs: tuple[tuple[int, ...], ...]
    targets: tuple[tuple[int, ...], ...]
    digest: str

    @property
    def tokens(self) -> int:
        """How many positions carry a loss."""
        return sum(len(row) for row in self.targets)


def encode_passage(asset: ModelAsset) -> list[int]:
    """The shipped passage as this model's own token ids. Raises OSError or ValueError for a broken tokenizer file."""
    if asset.tokenizer_file is None:
        return tokenizer.encode(passage.text())
    from tokenizers import Tokenizer  # the Rust library, needed only for a downloaded tokenizer

    ids: list[int] = Tokenizer.from_file(str(asset.tokenizer_file)).encode(passage.text(), add_special_tokens=False).ids
    return ids


def training_rows(asset: ModelAsset, batch: int, sequence: int) -> TokenRows:
    """`batch` rows of `sequence` positions, each with its next token as target."""
    cut = tokenizer.rows(encode_passage(asset), batch, sequence + 1)
    inputs = tuple(row[:-1] for row in cut)
    targets = tuple(row[1:] for row in cut)
    return TokenRows(inputs=inputs, targets=targets, digest=digest_of({"inputs": inputs, "targets": targets}))

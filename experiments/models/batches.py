"""From text to the ids a run trains on: fixed rows cut from the passage, and the digest that names them in a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.evidence.digests import digest_of
from experiments.models import passage, tokenizer
from experiments.models.source_types import ModelAsset

IGNORED = -100  # a target that carries no loss: what cross_entropy ignores by default


@dataclass(frozen=True, slots=True)
class TokenRows:
    """`inputs[row][place]` and the id that follows it, `targets[row][place]`; both batch x sequence.

    A target of IGNORED carries no loss. `digest` is over both: the tokenized manifest of the record.
    """

    inputs: tuple[tuple[int, ...], ...]
    targets: tuple[tuple[int, ...], ...]
    digest: str

    @property
    def tokens(self) -> int:
        """How many positions carry a loss."""
        return sum(target != IGNORED for row in self.targets for target in row)


def encode_passage(asset: ModelAsset) -> list[int]:
    """The shipped passage as this model's own token ids. Raises OSError or ValueError for a broken tokenizer file."""
    if asset.tokenizer_file is None:
        return tokenizer.encode(passage.text())
    from tokenizers import Tokenizer  # the Rust library, needed only for a downloaded tokenizer

    ids: list[int] = Tokenizer.from_file(str(asset.tokenizer_file)).encode(passage.text(), add_special_tokens=False).ids
    return ids


def training_rows(asset: ModelAsset, batch: int, sequence: int, lengths: Sequence[int] | None = None) -> TokenRows:
    """`batch` rows of `sequence` positions, each with its next token as target.

    `lengths` says how long each row really is: what lies behind is padding, whose targets are IGNORED. Attention is
    causal, so no position that counts ever sees it. Raises ValueError where rows and lengths do not fit each other.
    """
    cut = tokenizer.rows(encode_passage(asset), batch, sequence + 1)
    inputs = tuple(row[:-1] for row in cut)
    targets = tuple(row[1:] for row in cut)
    if lengths is not None:
        targets = tuple(
            row[:length] + (IGNORED,) * (sequence - length) for row, length in zip(targets, lengths, strict=True)
        )
    return TokenRows(inputs=inputs, targets=targets, digest=digest_of({"inputs": inputs, "targets": targets}))

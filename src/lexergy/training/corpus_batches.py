"""A corpus as one stream of tokens, cut into training sequences: documents joined by EOS, batches a pure function of
their number.

Batch t takes sequences t·B … t·B + B−1 of an endless list of epochs, each a keyed shuffle of all sequences; between
epochs the cuts move by half a sequence, so that a token does not always have the same neighbours in front of it.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed
from lexergy.core.types import Direction
from lexergy.text.document import Document
from lexergy.text.joint import encode_plain

_AT_ONCE = 256  # documents tokenised in one call


def token_stream(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerBase,
    eos: int,
    direction: Direction = "left_to_right",
) -> Int[Tensor, "tokens"]:
    """All documents' ids, EOS after each (a right-to-left model reads the stream from its end), 4 bytes a token."""
    parts: list[Tensor] = []
    batch: list[str] = []

    def take() -> None:
        for ids in encode_plain(tokenizer, batch):
            parts.append(torch.tensor([*ids, eos], dtype=torch.int32))
        batch.clear()

    for document in documents:
        batch.append(document.text)
        if len(batch) == _AT_ONCE:
            take()
    if batch:
        take()
    if not parts:
        raise LexergyError("There is no text to train on: the corpus, or this part of it, is empty.")
    # EOS at both ends: the first document too is read after what a document is read after.
    stream = torch.cat([torch.tensor([eos], dtype=torch.int32), *parts])
    return stream if direction == "left_to_right" else stream.flip(0)


@dataclass
class Sequences:
    """Training sequences of `length` + 1 tokens (inputs and the targets one further)."""

    stream: Int[Tensor, "tokens"]
    length: int
    batch: int
    seed: int
    _order: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.per_epoch < self.batch:
            raise LexergyError(
                f"{self.stream.numel()} tokens make {max(0, self.per_epoch)} sequences of {self.length}: fewer than one "
                f"batch of {self.batch}. Give more text, shorter sequences or a smaller batch."
            )

    @property
    def hash(self) -> str:
        """What the text is: resuming over another is an error."""
        return hashlib.blake2b(self.stream.numpy().tobytes(), digest_size=16).hexdigest()

    @property
    def per_epoch(self) -> int:
        """Sequences in one pass; one is lost to the moving cuts."""
        return (self.stream.numel() - 1 - self.length // 2) // self.length

    def __call__(self, step: int) -> Int[Tensor, "batch length_and_one"]:
        """Batch number `step`."""
        places = range(step * self.batch, (step + 1) * self.batch)
        begins = torch.tensor([self._begin(*divmod(place, self.per_epoch)) for place in places])
        return self.stream[begins[:, None] + torch.arange(self.length + 1)].long()

    def _begin(self, epoch: int, place: int) -> int:
        if epoch not in self._order:
            self._order = {epoch: Keyed.of(self.seed, "epoch", epoch).permutation(self.per_epoch)[0]} | {
                e: o for e, o in self._order.items() if e == epoch - 1
            }
        return int(self._order[epoch][place]) * self.length + (epoch % 2) * (self.length // 2)

    def in_order(self, limit: int) -> Int[Tensor, "sequences length_and_one"]:
        """The first sequences as they stand: for validation."""
        count = min(limit, self.per_epoch)
        begins = torch.arange(count) * self.length
        return self.stream[begins[:, None] + torch.arange(self.length + 1)].long()

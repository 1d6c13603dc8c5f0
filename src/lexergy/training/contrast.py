"""What an energy is trained on: true texts and, beside each, some that were written instead, in the energy's tokens.

A part is chosen by a hash of the group (an author, a document): no group has windows on both sides. Batches are a pure
function of their number: which windows, by keyed epochs; which of their negatives, by a uniform choice without repeats.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed
from lexergy.core.types import Tokens
from lexergy.energies.base import Energy
from lexergy.energies.retokenised import Retokenised
from lexergy.text.mined import Mined
from lexergy.text.ragged import Ragged
from lexergy.text.split import part_of
from lexergy.text.tokenisers import same_vocabulary

Pair = tuple[str, str, Sequence[str]]
"""(context, true text, written texts)."""

PARTS = {"train": 0.95, "valid": 0.05}
LEAST_GROUPS = 5
"""Fewer groups than this are all trained on."""

VALIDATION_WINDOWS = 1024
VALIDATION_NEGATIVES = 4
"""How much a validation reads, at most: its error is far below what an epoch changes."""

_AT_ONCE = 1024  # rows translated in one call


@dataclass(frozen=True)
class Contrast:
    """`rows`: the true text of every window, then the written ones, window by window."""

    rows: Ragged
    per_prefix: int
    groups: list[str]

    @cached_property
    def hash(self) -> str:
        """What the data are: resuming over other data is an error."""
        digest = hashlib.blake2b(digest_size=16)
        for tensor in (self.rows.flat, self.rows.starts, self.rows.free_from, self.rows.free_to):
            digest.update(tensor.numpy().tobytes())
        digest.update("\n".join(self.groups).encode("utf-8"))
        return digest.hexdigest()

    def parts(self, seed: int) -> tuple[Int[Tensor, "train"], Int[Tensor, "valid"]]:
        """The windows to train on, and those to validate on: those of the groups whose hash says so; where it says so of
        none, or of all, those of one group in twenty by a keyed order; of fewer than five groups none."""
        known = sorted(set(self.groups))
        chosen = {group for group in known if part_of(group, PARTS, salt="energy") == "valid"}
        if len(chosen) in (0, len(known)):
            order = Keyed.of(0, "validation groups").permutation(len(known))[0].tolist()
            enough = max(1, round(PARTS["valid"] * len(known))) if len(known) >= LEAST_GROUPS else 0
            chosen = {known[i] for i in order[:enough]}
        held_out = torch.tensor([group in chosen for group in self.groups], dtype=torch.bool)
        valid = held_out.nonzero().squeeze(1)
        # In a shuffled order, so that a few groups with many windows do not speak for all.
        order = Keyed.of(seed, "validation").permutation(len(valid))[0][:VALIDATION_WINDOWS]
        return (~held_out).nonzero().squeeze(1), valid[order].sort().values

    def tokens(self, windows: Int[Tensor, "some"], numbers: Int[Tensor, "some k"]) -> Tokens:
        """The true texts of some windows, then the chosen written ones, window by window."""
        written = len(self.groups) + windows[:, None] * self.per_prefix + numbers
        return self.rows.batch(torch.cat([windows, written.flatten()]))


def contrast(data: Mined | Sequence[Pair], energy: Energy) -> Contrast:
    """The data as this energy reads them."""
    if energy.tokenizer is None:
        raise LexergyError(f"{type(energy).__name__} has no tokenizer, so it cannot be trained on texts.")
    if not isinstance(data, Mined):
        found = _own_pairs(data, energy)
    elif same_vocabulary(energy.tokenizer, data.tokenizer):
        found = Contrast(Ragged.concatenate([data.real, data.negatives]), data.per_prefix, data.groups)
    else:
        reader = Retokenised(energy, data.tokenizer)
        rows = [*_translated(reader, data.real), *_translated(reader, data.negatives)]
        found = Contrast(Ragged.concatenate(rows), data.per_prefix, data.groups)
    longest = int(found.rows.lengths.max())
    if energy.longest is not None and longest > energy.longest:
        raise LexergyError(
            f"A text of {longest} tokens does not fit the {energy.longest} of this energy. Mine with a shorter prefix "
            "or length, or start from a network for longer texts."
        )
    return found


def _translated(reader: Retokenised, rows: Ragged) -> list[Ragged]:
    every = torch.arange(len(rows)).split(_AT_ONCE)
    return [Ragged.of_tokens(reader.translate(rows.batch(part))) for part in every]


def _own_pairs(data: Sequence[Pair], energy: Energy) -> Contrast:
    counts = {len(written) for _, _, written in data}
    if len(counts) != 1 or 0 in counts:
        raise LexergyError(
            f"Every pair needs the same number of written texts, at least one; received {sorted(counts) or 'no pairs'}."
        )
    if any(isinstance(written, str) for _, _, written in data):
        raise LexergyError('A pair is ("context", "true text", ["written", …]): put its written texts in a list.')
    per_prefix = counts.pop()
    contexts = [context for context, _, _ in data]
    texts = [text for _, text, _ in data] + [text for _, _, texts in data for text in texts]
    every = contexts + [context for context in contexts for _ in range(per_prefix)]
    found = energy.encode(texts, every)
    rows = Ragged.of([(one.ids, one.free_from, one.free_to) for one in found])
    return Contrast(rows, per_prefix, contexts)


@torch.no_grad()
def energies_of(
    energy: Energy, data: Contrast, windows: Int[Tensor, "some"]
) -> tuple[Float[Tensor, "some"], Float[Tensor, "some _k"]]:
    """Energies of the true texts, and of the first few written ones."""
    k = min(data.per_prefix, VALIDATION_NEGATIVES)
    values = energy.of_tokens(data.tokens(windows, torch.arange(k).expand(len(windows), k)))
    return values[: len(windows)], values[len(windows) :].view(-1, k)


def shuffled(seed: int, index: int, batch: int, count: int) -> Int[Tensor, "_batch"]:
    """The places of batch `index` in an endless list of keyed epochs."""
    places = torch.arange(index * batch, (index + 1) * batch)
    epochs = places // count
    out = torch.empty_like(places)
    for epoch in epochs.unique().tolist():
        out[epochs == epoch] = _order(seed, epoch, count)[places[epochs == epoch] % count]
    return out


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, count: int) -> Int[Tensor, "_count"]:
    return Keyed.of(seed, "epoch", epoch).permutation(count)[0]


def choices(seed: int, index: int, windows: int, per_prefix: int, negatives: int) -> Int[Tensor, "_windows k"]:
    """Which written texts meet each true one in batch `index`."""
    keys = Keyed.grid(seed, [index] * windows, range(windows)).at("negatives")
    return keys.permutation(per_prefix)[:, :negatives]

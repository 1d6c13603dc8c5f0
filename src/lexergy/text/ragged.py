"""Many token rows in little memory: flat ids, where each row begins, and which part of it is free. Batches are
cut from it at the speed of an index; no Python runs per token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain as chained

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from lexergy.core.types import Tokens

Row = tuple[Sequence[int], int, int]
"""Ids, and the span that is free: from, to."""

Packed = tuple[Int[Tensor, "_total"], Int[Tensor, "_rows_and_one"]]
"""Rows without spans: all ids in order, and where each row begins (`shards.pack_rows` keeps them so)."""


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, 4 bytes a token."""

    flat: Int[Tensor, "total"]
    starts: Int[Tensor, "rows_and_one"]
    free_from: Int[Tensor, "rows"]
    free_to: Int[Tensor, "rows"]

    @staticmethod
    def of(rows: Sequence[Row]) -> "Ragged":
        """Rows as lists, packed."""
        starts = _starts(torch.tensor([len(ids) for ids, _, _ in rows], dtype=torch.long))
        ids = np.fromiter(chained.from_iterable(ids for ids, _, _ in rows), np.int32, count=int(starts[-1]))
        spans = torch.tensor([[a, b] for _, a, b in rows], dtype=torch.long).reshape(-1, 2)
        return Ragged(torch.from_numpy(ids), starts, spans[:, 0].contiguous(), spans[:, 1].contiguous())

    @staticmethod
    def of_tokens(tokens: Tokens) -> "Ragged":
        """The real tokens of a batch; what is free in a row is one span."""
        free = tokens.free & tokens.mask
        lengths = tokens.mask.sum(1)
        place = tokens.mask.cumsum(1) - 1
        # Where nothing is free the empty span stands at the end.
        first = torch.where(free, place, lengths[:, None]).amin(1) if place.shape[1] else lengths
        return Ragged(tokens.ids[tokens.mask].int(), _starts(lengths), first, first + free.sum(1))

    @staticmethod
    def continuing(contexts: Packed, continuations: Packed) -> "Ragged":
        """Row i is context i, given, then continuation i, free."""
        flat, starts = chain([contexts, continuations])
        return Ragged(flat, starts, contexts[1].diff(), starts.diff())

    @staticmethod
    def concatenate(parts: Sequence["Ragged"]) -> "Ragged":
        """The rows of some, below one another."""
        flat, starts = stack([(part.flat, part.starts) for part in parts])
        spans = [torch.cat([part.free_from for part in parts]), torch.cat([part.free_to for part in parts])]
        return Ragged(flat, starts, *spans)

    def __len__(self) -> int:
        return self.free_from.shape[0]

    def row(self, index: int) -> Row:
        """One row as lists."""
        ids = self.flat[int(self.starts[index]) : int(self.starts[index + 1])].tolist()
        return ids, int(self.free_from[index]), int(self.free_to[index])

    @property
    def lengths(self) -> Int[Tensor, "rows"]:
        """How many tokens each row has."""
        return self.starts.diff()

    def batch(self, index: Int[Tensor, "some"]) -> Tokens:
        """Some rows, padded on the right to the longest of them."""
        begin = self.starts[index]
        length = self.starts[index + 1] - begin
        at = torch.arange(int(length.max()) if len(index) else 0)
        mask = at < length[:, None]
        # Places behind the end of a row are read (the last of them would lie outside) and then blanked.
        place = (begin[:, None] + at).clamp_(max=max(self.flat.numel() - 1, 0))
        ids = self.flat[place].long().masked_fill_(~mask, 0) if self.flat.numel() else mask.long()
        free = (at >= self.free_from[index, None]) & (at < self.free_to[index, None])
        return Tokens(ids, mask, free)


def pack(tokens: Tokens) -> Packed:
    """The real, free tokens of each row of a batch."""
    free = tokens.free & tokens.mask
    return tokens.ids[free].int(), _starts(free.sum(1))


def take(rows: Packed, index: Int[Tensor, "some"]) -> Packed:
    """Some of the rows, repeats allowed."""
    flat, starts = rows
    lengths = starts.diff()[index]
    out = _starts(lengths)
    shift = torch.repeat_interleave(starts[index] - out[:-1], lengths)
    return flat[shift + torch.arange(int(out[-1]))], out


def chain(parts: Sequence[Packed]) -> Packed:
    """Row i is the rows i of the parts, one after another."""
    lengths = [starts.diff() for _, starts in parts]
    out = _starts(torch.stack(lengths).sum(0))
    joined = torch.empty(int(out[-1]), dtype=torch.int32)
    begin = out[:-1]
    for (flat, starts), length in zip(parts, lengths, strict=True):
        shift = torch.repeat_interleave(begin - starts[:-1], length)
        joined[shift + torch.arange(flat.numel())] = flat.int()
        begin = begin + length
    return joined, out


def stack(parts: Sequence[Packed]) -> Packed:
    """The rows of the parts, below one another."""
    flat = torch.cat([torch.zeros(0, dtype=torch.int32), *(ids.int() for ids, _ in parts)])
    lengths = torch.cat([torch.zeros(0, dtype=torch.long), *(starts.diff() for _, starts in parts)])
    return flat, _starts(lengths)


def _starts(lengths: Int[Tensor, "rows"]) -> Int[Tensor, "rows_and_one"]:
    """Where rows of these lengths begin, and where the last one ends."""
    starts = torch.zeros(len(lengths) + 1, dtype=torch.long)
    starts[1:] = lengths.cumsum(0)
    return starts

"""Many token rows in little memory: flat ids, where each row begins, and which part of it is free. Batches
are cut from it at the speed of an index.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from lexergy.core.types import Tokens

Row = tuple[Sequence[int], int, int]
"""Ids, and the span that is free: from, to."""


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths."""

    flat: Int[Tensor, "total"]
    starts: Int[Tensor, "rows_and_one"]
    free_from: Int[Tensor, "rows"]
    free_to: Int[Tensor, "rows"]

    @staticmethod
    def of(rows: Sequence[Row]) -> "Ragged":
        """Rows as lists, packed."""
        starts = torch.zeros(len(rows) + 1, dtype=torch.long)
        starts[1:] = torch.tensor([len(ids) for ids, _, _ in rows], dtype=torch.long).cumsum(0)
        flat = torch.empty(int(starts[-1]), dtype=torch.int32)
        for (ids, _, _), begin in zip(rows, starts.tolist(), strict=False):
            flat[begin : begin + len(ids)] = torch.as_tensor(ids, dtype=torch.int32)
        spans = torch.tensor([[a, b] for _, a, b in rows], dtype=torch.long).reshape(-1, 2)
        return Ragged(flat, starts, spans[:, 0].contiguous(), spans[:, 1].contiguous())

    def __len__(self) -> int:
        return self.free_from.shape[0]

    def row(self, index: int) -> Row:
        """One row as lists."""
        ids = self.flat[int(self.starts[index]) : int(self.starts[index + 1])].tolist()
        return ids, int(self.free_from[index]), int(self.free_to[index])

    @property
    def lengths(self) -> Int[Tensor, "rows"]:
        """How many tokens each row has."""
        return self.starts[1:] - self.starts[:-1]

    def batch(self, index: Int[Tensor, "some"]) -> Tokens:
        """Some rows, padded on the right to the longest of them."""
        begin, length = self.starts[index], self.lengths[index]
        at = torch.arange(int(length.max()) if len(index) else 0)
        mask = at < length[:, None]
        ids = (
            self.flat[(begin[:, None] + at).clamp(max=max(self.flat.numel() - 1, 0))]
            .long()
            .masked_fill(~mask, 0)
        )
        free = (at >= self.free_from[index, None]) & (at < self.free_to[index, None])
        return Tokens(ids, mask, free)

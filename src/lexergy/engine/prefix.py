"""Attention over a shared prompt and each text's own tokens: softmax over both, each prompt's keys and values held once.

    out = (Σ_s e^{a_s} v_s + Σ_o e^{a_o} v_o) / (Σ_s e^{a_s} + Σ_o e^{a_o}),     s over the prompt, o over the text's own tokens

The prompt's part is one matrix product for all samples of a prompt, where a copied cache reads the prompt again for each.

Relations: equals attention over prompt and text joined, up to rounding; scores and sums are float32 or better.
"""

from collections.abc import Sequence
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor


class SharedPrefix:
    """Keys and values of P prompts, once each, and of R rows, each row's own; rows stand prompt by prompt."""

    def __init__(
        self,
        keys: Sequence[Float[Tensor, "prompts heads length width"]],
        values: Sequence[Float[Tensor, "prompts heads length width"]],
        counts: Sequence[int],
        steps: int,
    ) -> None:
        """One tensor a layer; `counts`: how many rows each prompt has; `steps`: how many tokens a row may write."""
        _, heads, self.length, width = keys[0].shape
        self.keys, self.values = list(keys), list(values)
        self.rows = sum(counts)
        self.runs = _runs(counts)
        self.written = 0
        own = (self.rows, heads, steps, width)
        self._own_keys = [keys[0].new_empty(own) for _ in keys]
        self._own_values = [keys[0].new_empty(own) for _ in keys]

    @property
    def position(self) -> int:
        """Where the token that is read now stands."""
        return self.length + self.written

    def attend(
        self,
        layer: int,
        q: Float[Tensor, "rows heads group width"],
        k: Float[Tensor, "rows heads width"],
        v: Float[Tensor, "rows heads width"],
        scale: float,
    ) -> Float[Tensor, "rows heads group width"]:
        """One token a row, its keys and values added to the row's own. `group`: queries that share a head of keys."""
        own_keys, own_values, now = self._own_keys[layer], self._own_values[layer], self.written
        own_keys[:, :, now], own_values[:, :, now] = k, v
        wide = torch.promote_types(q.dtype, torch.float32)
        q = q * scale
        own = torch.matmul(q, own_keys[:, :, : now + 1].transpose(2, 3)).to(wide)
        shared = self._over_prompts(q, self.keys[layer].transpose(2, 3)).to(wide)
        top = torch.maximum(shared.amax(-1, keepdim=True), own.amax(-1, keepdim=True))
        own, shared = (own - top).exp_(), (shared - top).exp_()
        mass = own.sum(-1, keepdim=True) + shared.sum(-1, keepdim=True)
        out = torch.matmul(own.to(q.dtype), own_values[:, :, : now + 1]).to(wide)
        out += self._over_prompts(shared.to(q.dtype), self.values[layer]).to(wide)
        return (out / mass).to(q.dtype)

    def _over_prompts(
        self, x: Float[Tensor, "rows heads group inner"], by: Float[Tensor, "prompts heads inner outer"]
    ) -> Float[Tensor, "rows heads group outer"]:
        """Each row's matrix times its prompt's: all rows of a prompt in one product, prompts of as many rows in one batch."""
        parts = []
        for prompts, rows, count in self.runs:
            _, heads, group, inner = x.shape
            few = x[rows].reshape(-1, count, heads, group, inner).transpose(1, 2)
            product = torch.matmul(few.reshape(-1, heads, count * group, inner), by[prompts])
            parts.append(product.view(-1, heads, count, group, by.shape[-1]).transpose(1, 2).flatten(0, 1))
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _runs(counts: Sequence[int]) -> list[tuple[slice, slice, int]]:
    """Neighbouring prompts with as many rows: (which prompts, which rows, how many rows each)."""
    found, prompt, row = [], 0, 0
    for count, same in groupby(counts):
        many = len(list(same))
        found.append((slice(prompt, prompt + many), slice(row, row + many * count), count))
        prompt, row = prompt + many, row + many * count
    return found

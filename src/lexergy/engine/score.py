"""One number a text, for any network: duplicates once, batches by length under a token budget, results in input order.

The same path serves energies and language-model probabilities, so that what is proved of one (no dependence on batch,
order or padding) holds for the other.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from lexergy.core.types import Tokens
from lexergy.engine.batches import map_rows


def score(
    function: Callable[[Tokens], Tensor],
    tokens: Tokens,
    budget: int,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] | None = None,
) -> Float[Tensor, "batch *rest"]:
    """`function` on every row, as float64 on the CPU. Equal rows are computed once.

    Batches reach `function` left-aligned, cut to their longest row and on `device`.
    """
    if not len(tokens):
        return torch.zeros(0, dtype=torch.float64)
    tokens = tokens.left_aligned()
    firsts, back = _distinct(tokens)
    lengths = tokens.lengths[firsts].tolist()

    def run(rows: list[int]) -> Tensor:
        picked = tokens.select(firsts[torch.tensor(rows)])
        width = int(picked.lengths.max())
        batch = Tokens(picked.ids[:, :width], picked.mask[:, :width], picked.free[:, :width])
        return function(batch.to(device))

    with torch.no_grad():
        values = map_rows(run, lengths, budget, progress)
    return values[back]


def score_rows(
    function: Callable[[Tokens], Tensor],
    rows: Sequence[tuple[Sequence[int], int, int]],
    budget: int,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] | None = None,
) -> Float[Tensor, "batch *rest"]:
    """The same for ragged rows (ids, free from, free to): no rectangle of the longest text is ever made."""
    if not rows:
        return torch.zeros(0, dtype=torch.float64)
    seen: dict[tuple[tuple[int, ...], int, int], int] = {}
    back = [seen.setdefault((tuple(ids), start, end), len(seen)) for ids, start, end in rows]
    distinct = list(seen)

    def run(index: list[int]) -> Tensor:
        batch = Tokens.of([distinct[i][0] for i in index], [distinct[i][1] for i in index])
        ends = torch.tensor([distinct[i][2] for i in index])
        free = batch.free & (torch.arange(batch.ids.shape[1]) < ends[:, None])
        return function(Tokens(batch.ids, batch.mask, free).to(device))

    with torch.no_grad():
        values = map_rows(run, [len(ids) for ids, _, _ in distinct], budget, progress)
    return values[torch.tensor(back)]


def _distinct(tokens: Tokens) -> tuple[Tensor, Tensor]:
    """The first row of each group of equal rows, and for each row its group."""
    seen: dict[bytes, int] = {}
    ids, flags = tokens.ids.cpu().numpy(), (tokens.mask.int() + 2 * tokens.free.int()).to(torch.int8).cpu().numpy()
    firsts: list[int] = []
    back: list[int] = []
    for row in range(len(tokens)):
        key = ids[row].tobytes() + flags[row].tobytes()
        if key not in seen:
            seen[key] = len(firsts)
            firsts.append(row)
        back.append(seen[key])
    return torch.tensor(firsts), torch.tensor(back)

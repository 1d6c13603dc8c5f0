"""Batches by length under a token budget: no row is padded to the longest of a random batch.

Equation: a batch of rows R holds |R| · max_{r ∈ R} length(r) ≤ budget tokens, longest rows first; results
come back in the order the rows were given in.

Relations: equals calling the function on each row alone, when a row's value does not depend on its batch.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from lexergy.core.errors import LexergyError
from lexergy.engine.budget import for_each_batch


def by_length(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Batches of row numbers, longest first; a row that is longer than the budget goes alone."""
    batches: list[list[int]] = []
    for_each_batch(_longest_first(lengths), lengths, budget, batches.append)
    return batches


def map_rows(
    function: Callable[[list[int]], Tensor],
    lengths: Sequence[int],
    budget: int,
    progress: Callable[[int], None] | None = None,
) -> Float[Tensor, "rows *rest"]:
    """Values of all rows, float64 on the CPU, from a function that gives some rows a value or tensor each.

    The function meets batches by length under `budget` tokens; where it runs out of memory the budget is
    halved and the work goes on. `progress` is told after each batch how many more rows are done.
    """
    if not len(lengths):
        return torch.zeros(0, dtype=torch.float64)
    order: list[int] = []
    values: list[Tensor] = []

    def run(batch: list[int]) -> None:
        value = function(batch).detach()
        if value.dim() == 0 or value.shape[0] != len(batch):
            raise LexergyError(
                f"A function of {len(batch)} rows must return a value a row; received shape {tuple(value.shape)}."
            )
        # Left on its device until the end: fetching each batch would make a GPU wait for every one.
        values.append(value)
        order.extend(batch)
        if progress is not None:
            progress(len(batch))

    for_each_batch(_longest_first(lengths), lengths, budget, run)
    gathered = torch.cat(values).to("cpu", torch.float64)
    return torch.empty_like(gathered).index_copy_(0, torch.tensor(order), gathered)


def _longest_first(lengths: Sequence[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda row: -lengths[row])

"""Scoring: equal rows once, longest first under the budget, results in the order given, memory that runs out survived."""

import logging
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed
from lexergy.core.types import Tokens
from lexergy.engine.score import score, score_rows

Row = tuple[list[int], int, int]
FULL = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000 bytes."


class Function:
    """A number a row that depends on ids, order, and what is free; it keeps the batches it was called with."""

    def __init__(self, room: int | None = None) -> None:
        self.room, self.batches = room, []

    def __call__(self, tokens: Tokens) -> Tensor:
        self.batches.append(tokens)
        if self.room is not None and tokens.ids.numel() > self.room:
            raise RuntimeError(FULL)
        place = torch.arange(1, tokens.ids.shape[1] + 1)
        weights = tokens.mask * (1 + 10 * tokens.free)
        return ((tokens.ids + 1) * place * weights).sum(1).float()


def value(row: Row) -> float:
    """What `Function` says of one row."""
    ids, start, end = row
    return float(sum((token + 1) * (t + 1) * (11 if start <= t < end else 1) for t, token in enumerate(ids)))


def rows(count: int = 40) -> list[Row]:
    """Rows of many lengths, one empty, with duplicates in other places."""
    rng = Keyed.of(0, "rows")
    made: list[Row] = [([], 0, 0)]
    for i in range(count):
        ids = rng.at(i).integers(9, 1 + i % 13)[0].tolist()
        made.append((ids, i % (len(ids) + 1), len(ids)))
    return [*made, *made[::-3]]


def as_tokens(given: list[Row], left: bool = False) -> Tokens:
    """The same rows in a rectangle, with junk in the padding."""
    width = max(len(ids) for ids, _, _ in given)
    ids = torch.full((len(given), width), 8)
    mask, free = torch.zeros(2, len(given), width, dtype=torch.bool)
    for i, (row, start, end) in enumerate(given):
        at = width - len(row) if left else 0
        ids[i, at : at + len(row)] = torch.tensor(row, dtype=torch.long)
        mask[i, at : at + len(row)] = True
        free[i, at + start : at + end] = True
    return Tokens(ids, mask, free)


def by_rows(function: Function, given: list[Row], budget: int) -> Tensor:
    return score_rows(function, given, budget)


def by_right(function: Function, given: list[Row], budget: int) -> Tensor:
    return score(function, as_tokens(given), budget)


def by_left(function: Function, given: list[Row], budget: int) -> Tensor:
    return score(function, as_tokens(given, left=True), budget)


WAYS = pytest.mark.parametrize("way", [by_rows, by_right, by_left])
Way = Callable[[Function, list[Row], int], Tensor]


@WAYS
@pytest.mark.parametrize("budget", [1, 13, 40, 10_000])
def test_one_number_a_text_in_the_order_given(way: Way, budget: int) -> None:
    given, function = rows(), Function()
    found = way(function, given, budget)
    assert found.dtype == torch.float64
    assert found.tolist() == [value(row) for row in given]
    distinct = {(tuple(ids), start, end) for ids, start, end in given}
    assert sum(len(batch) for batch in function.batches) == len(distinct) < len(given)
    widths = [batch.ids.shape[1] for batch in function.batches]
    assert widths == sorted(widths, reverse=True)
    for batch in function.batches:
        assert len(batch) == 1 or batch.ids.numel() <= budget
        assert torch.equal(batch.mask, torch.arange(batch.ids.shape[1]) < batch.lengths[:, None])
        assert int(batch.lengths.max()) == batch.ids.shape[1]  # cut to the longest row


@WAYS
def test_the_same_ids_with_another_part_free_are_another_row(way: Way) -> None:
    given = [([1, 2, 3], 1, 3), ([1, 2, 3], 2, 3), ([1, 2, 3], 1, 2), ([1, 2, 3], 1, 3), ([1, 2, 3, 0], 1, 3)]
    function = Function()
    assert way(function, given, 100).tolist() == [value(row) for row in given]
    assert sum(len(batch) for batch in function.batches) == 4


@WAYS
def test_memory_that_runs_out_halves_the_budget_and_the_work_goes_on(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    given, function = rows(), Function(room=30)
    with caplog.at_level(logging.WARNING):
        assert way(function, given, 10_000).tolist() == [value(row) for row in given]
    assert "Out of memory" in caplog.text
    done = [batch for batch in function.batches if batch.ids.numel() <= 30]
    assert sum(len(batch) for batch in done) == len({(tuple(ids), start, end) for ids, start, end in given})
    with pytest.raises(LexergyError, match="does not fit into memory on its own"):
        way(Function(room=5), given, 10_000)


@WAYS
def test_other_errors_are_not_swallowed(way: Way) -> None:
    def broken(tokens: Tokens) -> Tensor:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        way(broken, rows(), 100)  # type: ignore[arg-type]


@WAYS
def test_progress_counts_what_is_computed(way: Way) -> None:
    given, told = rows(), []
    if way is by_rows:
        score_rows(Function(), given, 40, progress=told.append)
    else:
        score(Function(), as_tokens(given), 40, progress=told.append)
    assert sum(told) == len({(tuple(ids), start, end) for ids, start, end in given})
    assert len(told) > 1


def test_nothing_is_scored_as_nothing() -> None:
    function = Function()
    assert score_rows(function, [], 10).shape == (0,)
    assert score(function, as_tokens([([1], 0, 1)]).select([]), 10).shape == (0,)
    assert function.batches == []
    assert score_rows(function, [([], 0, 0)] * 3, 10).tolist() == [0.0] * 3


def test_no_graph_is_kept() -> None:
    weight = torch.ones(1, requires_grad=True)
    found = score_rows(lambda tokens: weight * tokens.ids.sum(1), [([1, 2], 0, 2)], 10)
    assert not found.requires_grad

"""Batches hold their budget and cover every row; when memory runs out, what is left goes on in halves."""

import logging

import pytest
import torch
from memory import ON_A_CPU, Memory

from lexergy.core.errors import LexergyError
from lexergy.engine.batches import by_length, map_rows
from lexergy.engine.budget import for_each_batch, is_out_of_memory


def test_batches_are_full():
    assert by_length([3, 5, 5, 2, 2, 2], 10) == [[1, 2], [0, 3, 4], [5]]


def test_the_budget_halves_at_the_batch_that_failed_and_stays_so():
    lengths = [8] * 8
    memory = Memory(lengths, room=16)

    def run(rows):
        memory(rows)

    held = for_each_batch(range(8), lengths, 64, run)
    assert held == 16
    assert [(len(rows), fitted) for rows, fitted in memory.asked] == [(8, False), (4, False)] + [(2, True)] * 4


def test_a_last_batch_smaller_than_the_budget_is_split_too():
    """Halving the budget alone would ask for the same three rows again and again."""
    memory = Memory([4, 4, 4], room=4)
    assert map_rows(memory, [4, 4, 4], 1_000_000).tolist() == [40.0, 41.0, 42.0]
    assert [len(rows) for rows, _ in memory.asked] == [3, 1, 1, 1]


def test_backing_off_is_said(caplog):
    with caplog.at_level(logging.WARNING, logger="lexergy"):
        map_rows(Memory([4, 4], room=4), [4, 4], 8)
    assert "Out of memory at 8 tokens a batch: going on with 4." in caplog.text


def test_one_row_that_does_not_fit_is_named():
    with pytest.raises(LexergyError, match=r"Row 1, of 500 tokens, does not fit.*windows"):
        map_rows(Memory([3, 500, 4], room=100), [3, 500, 4], 64)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError(ON_A_CPU),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        MemoryError(),
    ],
    ids=["gpu", "cuda", "cpu", "cublas", "python"],
)
def test_each_way_of_saying_that_memory_ran_out(error):
    assert is_out_of_memory(error)
    assert map_rows(Memory([2, 2], room=2, error=error), [2, 2], 4).tolist() == [20.0, 21.0]


def test_what_torch_really_raises_is_known():
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 55, dtype=torch.uint8)
    assert is_out_of_memory(raised.value)


def test_other_errors_pass_through_at_once():
    memory = Memory([2, 2], room=0, error=RuntimeError("shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="multiplied"):
        map_rows(memory, [2, 2], 4)
    assert len(memory.asked) == 1


def test_values_may_be_tensors_and_come_as_float64():
    table = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    found = map_rows(lambda rows: table[rows], [1, 4, 2, 4, 1], 4)
    assert found.dtype == torch.float64
    assert not found.requires_grad
    assert torch.equal(found, table.detach().double())


def test_no_rows_give_no_values():
    assert map_rows(lambda rows: torch.ones(len(rows)), [], 4).shape == (0,)


def test_progress_counts_rows_done_and_only_those():
    told = []
    map_rows(Memory([5, 5, 5], room=10), [5, 5, 5], 15, told.append)
    assert told == [1, 1, 1]


@pytest.mark.parametrize("value", [torch.ones(()), torch.ones(3)], ids=["a scalar", "too many"])
def test_a_function_of_the_wrong_shape_is_refused(value):
    with pytest.raises(LexergyError, match="2 rows must return a value a row"):
        map_rows(lambda _: value, [1, 1], 2)


def test_a_budget_below_one_is_refused():
    with pytest.raises(LexergyError, match="at least 1; received 0"):
        by_length([1], 0)

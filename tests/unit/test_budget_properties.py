"""Whatever the lengths, the budget and the memory: every row once, within the budget, in order."""

from hypothesis import given, settings
from hypothesis import strategies as st
from memory import Memory

from lexergy.engine.batches import by_length, map_rows


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 200))
def test_every_row_once_longest_first_within_the_budget(lengths, budget):
    batches = by_length(lengths, budget)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    in_order = [lengths[row] for batch in batches for row in batch]
    assert in_order == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= budget


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(9, 60), st.integers(9, 60))
def test_values_come_back_in_order_whatever_memory_there_is(lengths, budget, room):
    memory = Memory(lengths, room)
    expected = [length * 10.0 + row for row, length in enumerate(lengths)]
    assert map_rows(memory, lengths, budget).tolist() == expected
    done = [row for rows, fitted in memory.asked if fitted for row in rows]
    assert sorted(done) == list(range(len(lengths)))  # nothing is computed twice

"""Splits by group: stable, in proportion, disjoint; near-duplicates out before them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexergy.core.errors import LexergyError
from lexergy.text.document import Document
from lexergy.text.duplicates import NearDuplicates, _Seen
from lexergy.text.split import PARTS, in_part, part_of

GROUPS = [f"author {i}" for i in range(20_000)]


def document(text: str, group: str = "g") -> Document:
    return Document(text, group, "name")


def test_parts_have_their_share() -> None:
    counts = Counter(map(part_of, GROUPS))
    for part, fraction in PARTS.items():
        # Six standard deviations of a binomial; groups and hash are fixed, so it holds or it does not.
        assert abs(counts[part] - 20_000 * fraction) < 6 * (20_000 * fraction * (1 - fraction)) ** 0.5


def test_a_part_is_the_same_for_ever() -> None:
    """Golden: what these groups fell into when first split. A change here moves every user's test set."""
    golden = ["test", "energy", "lm", "lm", "energy", "lm", "energy", "valid"]
    assert [part_of(group) for group in GROUPS[2:10]] == golden
    assert part_of("é") == "energy"
    assert [part_of(group, salt="b") for group in GROUPS[2:10]] != golden


def test_refining_the_last_part_moves_nothing_else() -> None:
    finer = {"lm": 0.45, "energy": 0.45, "valid": 0.05, "test": 0.03, "spare": 0.02}
    for group in GROUPS[:2000]:
        before, after = part_of(group), part_of(group, finer)
        assert before == after or (before, after) == ("test", "spare")


def test_documents_of_a_group_stay_together() -> None:
    documents = [document(f"text {i}", f"author {i % 50}") for i in range(500)]
    parts = {part: list(in_part(documents, part)) for part in PARTS}
    assert sum(map(len, parts.values())) == 500
    groups = [{one.group for one in part} for part in parts.values()]
    assert sum(map(len, groups)) == 50


def test_wrong_parts_are_refused() -> None:
    for parts in ({"a": 0.5}, {"a": 1.5, "b": -0.5}, {}):
        with pytest.raises(LexergyError, match="sum to 1"):
            part_of("g", parts)
    with pytest.raises(LexergyError, match="Did you mean 'valid'"):
        in_part([], "valdi")


def test_a_document_mostly_seen_before_is_dropped() -> None:
    words = [f"w{i}" for i in range(60)]
    first = document(" ".join(words))
    copy = document("  ".join(words).upper())
    mostly = document(" ".join([*words[:45], *(f"x{i}" for i in range(15))]))  # 33 of 48 13-grams
    hardly = document(" ".join([*words[:30], *(f"y{i}" for i in range(30))]))  # 18 of 48
    near = NearDuplicates()
    assert list(near.without([first, copy, mostly, hardly])) == [first, hardly]
    assert (near.kept, near.dropped) == (2, 2)
    assert list(NearDuplicates(share=0.75).without([first, mostly])) == [first, mostly]


def test_short_documents_are_compared_whole() -> None:
    near = NearDuplicates()
    texts = ["a b", "A  b", "a b c", "b a", "", " "]
    assert [one.text for one in near.without(map(document, texts))] == ["a b", "a b c", "b a", ""]


def test_a_dropped_document_teaches_nothing() -> None:
    words = [f"w{i}" for i in range(40)]
    half = document(" ".join([*words[:30], *(f"x{i}" for i in range(10))]))
    tail = document(" ".join([*(f"x{i}" for i in range(10)), *(f"z{i}" for i in range(30))]))
    assert [one is tail for one in NearDuplicates().without([document(" ".join(words)), half, tail])] == [
        False,
        True,
    ]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.integers(0, 300), max_size=40), max_size=30))
def test_the_set_of_hashes_is_a_set(batches: list[list[int]]) -> None:
    seen, reference = _Seen(front=16), set()
    for batch in batches:
        words = np.array(batch, dtype=np.uint64)
        assert seen.count(words) == sum(word in reference for word in batch)
        seen.add(words)
        reference.update(batch)


def test_unreasonable_settings_are_refused() -> None:
    with pytest.raises(LexergyError, match="share between 0 and 1"):
        NearDuplicates(share=2.0)

"""Windows: each token once, in the space that was declared, EOS where the document ends."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexergy.core.errors import LexergyError
from lexergy.text.document import Document
from lexergy.text.tokenisers import character_tokenizer, train_tokenizer
from lexergy.text.windows import Window, windows

TOY = character_tokenizer("abcdefghij")
EOS = 10


def documents(*texts: str) -> list[Document]:
    return [Document(text, f"g{i}", f"n{i}") for i, text in enumerate(texts)]


def cut(texts: Iterable[str], *args: object, **more: object) -> list[Window]:
    return list(windows(documents(*texts), TOY, *args, **more))  # type: ignore[arg-type]


def test_fixed_windows_run_across_the_end_of_a_document() -> None:
    found = cut(["abc", "defg", "h"], 2, 2, "fixed")
    assert found == [
        Window([0, 1], [2, EOS], "g0"),
        Window([3, 4], [5, 6], "g1"),
    ]
    assert cut(["abc", "defg"], 4, 2, "fixed") == [Window([0, 1, 2, EOS], [3, 4], "g1")]
    assert cut(["abc", "d"], 3, 1, "fixed") == [Window([0, 1, 2], [EOS], "g0")]  # EOS is its document's


def test_until_eos_stays_within_a_document_and_ends_where_it_ends() -> None:
    assert cut(["abcde"], 2, 4, "until_eos") == [Window([0, 1], [2, 3, 4, EOS], "g0")]
    assert cut(["abcdef"], 2, 4, "until_eos") == [Window([0, 1], [2, 3, 4, 5], "g0")]  # EOS would be the fifth
    assert cut(["ab"], 2, 4, "until_eos") == [Window([0, 1], [EOS], "g0")]
    assert cut(["a", "abc"], 2, 1, "until_eos") == [Window([0, 1], [2], "g1")]
    assert cut(["abcdefgh"], 2, 2, "until_eos") == [
        Window([0, 1], [2, 3], "g0"),
        Window([4, 5], [6, 7], "g0"),
    ]


texts = st.lists(st.text(st.sampled_from("abcdefghij"), max_size=40), min_size=1, max_size=80)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(texts, st.integers(0, 5), st.integers(1, 6), st.integers(1, 14))
def test_windows_are_slices_of_what_was_given(texts: list[str], prefix: int, length: int, stride: int) -> None:
    rows = [[ord(letter) - ord("a") for letter in text] for text in texts if text]
    stream = [token for row in rows for token in [*row, EOS]]
    starts = range(0, len(stream) - prefix - length + 1, stride)
    if starts:
        found = cut(texts, prefix, length, "fixed", stride)
        assert [one.context + one.continuation for one in found] == [stream[s : s + prefix + length] for s in starts]
    if any(len(row) >= prefix for row in rows):
        found = cut(texts, prefix, length, "until_eos", stride)
        for one in found:
            assert len(one.context) == prefix
            assert EOS not in one.continuation[:-1]
            row = [ord(letter) - ord("a") for letter in texts[int(one.group[1:])]]
            whole = one.context + one.continuation
            if one.continuation[-1] == EOS:
                assert len(one.continuation) <= length
                assert row[len(row) - len(whole) + 1 :] == whole[:-1]
            else:
                assert len(one.continuation) == length
                assert any(row[i : i + len(whole)] == whole for i in range(len(row)))


def test_by_default_no_token_is_used_twice() -> None:
    found = cut(["abcdefghij" * 3], 2, 3, "fixed")
    assert [token for one in found for token in one.context + one.continuation] == list(range(10)) * 3


def test_text_that_spells_eos_is_text() -> None:
    tokenizer = train_tokenizer(["some text to train on"], 280)
    end = tokenizer.eos_token_id
    found = list(windows(documents("a<|endoftext|>b" * 3), tokenizer, 1, 4, "fixed"))
    ids = [token for one in found for token in one.context + one.continuation]
    assert ids.count(end) <= 1


def test_a_leading_bos_comes_on_top_of_the_prefix() -> None:
    tokenizer = character_tokenizer("abcdefghij")
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    bos = tokenizer.bos_token_id
    found = list(windows(documents("abcdef"), tokenizer, 2, 4, "until_eos", bos="always"))
    assert found == [Window([bos, 0, 1], [2, 3, 4, 5], "g0")]


def test_a_window_longer_than_the_text_is_refused() -> None:
    with pytest.raises(LexergyError, match=r"No window of 8 \+ 8 tokens fits: all documents together have 9 tokens"):
        cut(["abc", "abcd"], 8, 8, "fixed")
    with pytest.raises(LexergyError, match="prefix has 8 tokens and the longest document 4"):
        cut(["abc", "abcd"], 8, 8, "until_eos")
    with pytest.raises(LexergyError, match="longest document 0"):
        cut([""], 0, 8, "until_eos")


def test_wrong_settings_are_refused_at_once() -> None:
    with pytest.raises(LexergyError, match="Did you mean 'until_eos'"):
        windows([], TOY, 1, 1, "until_end")
    with pytest.raises(LexergyError, match="length=0"):
        windows([], TOY, 1, 0, "fixed")
    with pytest.raises(LexergyError, match="no EOS token"):
        windows([], character_tokenizer("ab", eos=None), 1, 1, "fixed")

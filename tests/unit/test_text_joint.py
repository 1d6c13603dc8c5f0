"""Joint tokenisation: the ids of the whole, the border by offsets, BOS once, specials never free."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast, PythonBackend

from lexergy.core.errors import LexergyError
from lexergy.text.joint import encode, encode_plain, leading, to_tokens
from lexergy.text.tokenisers import character_tokenizer, decode, train_tokenizer

CORPUS = ["the cat sat on the mat", "a:  b   c    d", "a café is where naïve people sit ☕ 日本語"] * 20
PLAIN = train_tokenizer(CORPUS, 330)


def with_processor(processor: object, truncated: bool = False, **special: str) -> PreTrainedTokenizerFast:
    """The trained tokeniser with something that adds or trims after it."""
    backend = Tokenizer.from_str(PLAIN.backend_tokenizer.to_str())
    backend.post_processor = processor  # type: ignore[assignment]
    if truncated:
        backend.enable_truncation(3)
        backend.enable_padding(length=16)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>", **special)


def framed(single: str, **special: str) -> PreTrainedTokenizerFast:
    """The toy tokeniser with a template of special tokens around each text."""
    toy = character_tokenizer("abc ")
    toy.add_special_tokens({"bos_token": "<s>", "cls_token": "[CLS]", "sep_token": "[SEP]"})
    names = [name for name in ("<s>", "[CLS]", "[SEP]", "<|endoftext|>") if name in single]
    backend = toy.backend_tokenizer
    backend.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[(name, toy.convert_tokens_to_ids(name)) for name in names]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>", **special)


LLAMA = framed("<s> $A", bos_token="<s>")
BERT = framed("[CLS] $A [SEP]", cls_token="[CLS]", sep_token="[SEP]")
ENDING = framed("<s> $A <|endoftext|>", bos_token="<s>")
TRIMMED = with_processor(processors.ByteLevel(trim_offsets=True))
letters = st.text(st.sampled_from("ab cd:  é☕日\n\r\tthe"), max_size=12)


@pytest.mark.parametrize("tokenizer", [PLAIN, TRIMMED], ids=["plain", "trimmed offsets"])
@settings(max_examples=200, deadline=None, derandomize=True)
@given(context=letters, text=letters)
def test_the_text_owns_every_token_that_reaches_into_it(
    tokenizer: PreTrainedTokenizerBase, context: str, text: str
) -> None:
    one = encode(tokenizer, [text], [context])[0]
    assert one.ids == tokenizer(context + text, add_special_tokens=False).input_ids
    assert one.free_to == len(one.ids)
    assert decode(tokenizer, one.free_ids).endswith(text)
    if text:
        assert not decode(tokenizer, one.free_ids[1:]).endswith(text)  # one token fewer would lose some of it
    else:
        assert not one.free_ids
    assert decode(tokenizer, one.ids) == context + text
    covered = [i for start, end in one.offsets for i in range(start, end)]
    assert set(covered) == set(range(len(context + text)))
    assert all(a <= b for a, b in pairwise(covered)) or not (context + text).isascii()


def test_the_border_is_where_the_joint_tokens_put_it() -> None:
    """Lesson 13: apart, "the" and " cat" are other tokens than "the cat" cut after "the "."""
    one = encode(PLAIN, ["cat"], ["the "])[0]
    assert one.ids == PLAIN("the cat").input_ids
    assert decode(PLAIN, one.free_ids) == " cat"
    apart = PLAIN("the ").input_ids + PLAIN("cat").input_ids
    assert apart != one.ids


def test_a_token_trimmed_at_its_spaces_still_crosses_the_border() -> None:
    ids = TRIMMED("a    d").input_ids
    assert [end for _, end in TRIMMED("a    d", return_offsets_mapping=True).offset_mapping][1] == 4
    one = encode(TRIMMED, ["    d"], ["a"])[0]
    assert one.free_from == 1
    two = encode(TRIMMED, ["d"], ["a    "])[0]
    assert decode(TRIMMED, two.free_ids) == " d"
    assert two.ids == ids


def test_a_context_of_several_bytes_a_character_is_context() -> None:
    one = encode(PLAIN, ["a"], ["🜁"])[0]  # four bytes, four tokens, one character
    assert (one.free_from, len(one.ids)) == (4, 5)
    assert one.offsets == [(0, 1)] * 4 + [(1, 2)]


@pytest.mark.parametrize(
    ("tokenizer", "bos", "expected"),
    [
        (LLAMA, "auto", ["<s>", "a", "b"]),
        (LLAMA, "always", ["<s>", "a", "b"]),
        (LLAMA, "never", ["a", "b"]),
        (ENDING, "auto", ["<s>", "a", "b"]),
        (BERT, "auto", ["[CLS]", "a", "b"]),
    ],
)
def test_bos_is_what_was_asked_for(tokenizer: PreTrainedTokenizerFast, bos: str, expected: list[str]) -> None:
    one = encode(tokenizer, ["b"], ["a"], bos=bos)[0]
    assert tokenizer.convert_ids_to_tokens(one.ids) == expected
    assert one.free_from == len(expected) - 1


@pytest.mark.parametrize("bos", ["auto", "always"])
def test_bos_is_never_doubled(bos: str) -> None:
    in_context, in_text, alone = encode(
        LLAMA,
        ["b", "<s>ab", "<s>"],
        ["<s>a", "", ""],
        bos=bos,
    )
    assert LLAMA.convert_ids_to_tokens(in_context.ids) == ["<s>", "a", "b"]
    assert LLAMA.convert_ids_to_tokens(in_text.ids) == ["<s>", "a", "b"]
    assert in_text.free_from == 1
    assert (len(alone.ids), alone.free_ids) == (1, [])


def test_always_adds_a_bos_that_the_tokeniser_leaves_out() -> None:
    tokenizer = framed("$A", bos_token="<s>")
    assert tokenizer.convert_ids_to_tokens(encode(tokenizer, ["a"], [""])[0].ids) == ["a"]
    one = encode(tokenizer, ["a"], [""], bos="always")[0]
    assert (tokenizer.convert_ids_to_tokens(one.ids), one.free_from) == (["<s>", "a"], 1)
    with pytest.raises(LexergyError, match="no BOS token"):
        encode(PLAIN, ["a"], [""], bos="always")


def test_eos_is_free_and_only_where_asked_for() -> None:
    with_eos, without = (encode(ENDING, ["b"], ["a"], eos=eos)[0] for eos in (True, False))
    assert with_eos.ids == [*without.ids, ENDING.eos_token_id]
    assert with_eos.free_ids == [1, ENDING.eos_token_id]
    assert encode(ENDING, ["b"], ["a"], eos=True, eos_id=2)[0].ids[-1] == 2


def test_an_encoder_keeps_its_frame_and_models_none_of_it() -> None:
    one, empty = encode(BERT, ["b c", ""], ["a", ""], special="all")
    assert BERT.convert_ids_to_tokens(one.ids) == ["[CLS]", "a", "b", " ", "c", "[SEP]"]
    assert (one.free_from, one.free_to) == (2, 5)
    assert BERT.convert_ids_to_tokens(empty.ids) == ["[CLS]", "[SEP]"]
    assert empty.free_ids == []
    tokens = to_tokens([one, empty], pad=9)
    assert tokens.free.tolist() == [[False, False, True, True, True, False], [False] * 6]
    assert tokens.mask.sum(1).tolist() == [6, 2]
    with pytest.raises(LexergyError, match="keeps what the tokeniser adds"):
        encode(BERT, ["b"], ["a"], special="all", eos=True)


def test_nothing_is_cut_or_filled_by_what_was_saved_with_a_tokeniser() -> None:
    tokenizer = with_processor(processors.ByteLevel(trim_offsets=True), truncated=True)
    long = "the cat sat on the mat " * 50
    assert decode(tokenizer, encode(tokenizer, [long, "a"], ["", ""])[0].ids) == long
    assert len(encode(tokenizer, [long, "a"], ["", ""])[1].ids) == 1


def test_the_leading_tokens_of_each_family() -> None:
    assert leading(PLAIN) == []
    assert leading(LLAMA) == [LLAMA.bos_token_id]
    assert leading(ENDING) == [ENDING.bos_token_id]
    assert leading(ENDING, "never") == []


def test_data_that_spells_a_special_token_is_data() -> None:
    assert encode(PLAIN, ["<|endoftext|>"], [""])[0].ids == [PLAIN.eos_token_id]
    (ids,) = encode_plain(PLAIN, ["a<|endoftext|>b"])
    assert PLAIN.eos_token_id not in ids
    assert decode(PLAIN, ids) == "a<|endoftext|>b"
    assert encode(PLAIN, ["<|endoftext|>"], [""])[0].ids == [PLAIN.eos_token_id]  # the tokeniser is as it was


def test_what_cannot_be_tokenised_together_is_refused() -> None:
    class Slow(PythonBackend):
        @property
        def vocab_size(self) -> int:
            return 1

        def get_vocab(self) -> dict[str, int]:
            return {}

    with pytest.raises(LexergyError, match="needs offsets, which Slow"):
        encode(Slow(), ["a"], [""])
    with pytest.raises(LexergyError, match="Did you mean 'always'"):
        encode(PLAIN, ["a"], [""], bos="alway")
    with pytest.raises(LexergyError, match="2 texts and 1 contexts"):
        encode(PLAIN, ["a", "b"], [""])
    with pytest.raises(LexergyError, match="half a surrogate pair at character 1"):
        encode(PLAIN, ["a\ud800"], [""])
    with pytest.raises(LexergyError, match="no EOS token"):
        encode(character_tokenizer("ab", eos=None), ["a"], [""], eos=True)
    assert encode(PLAIN, [], []) == []

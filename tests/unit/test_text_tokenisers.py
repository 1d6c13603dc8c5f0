"""Tokenisers: trained alike each time, lossless, and decoded without stripping."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lexergy.core.errors import LexergyError
from lexergy.text.tokenisers import (
    EOS,
    character_tokenizer,
    decode,
    load_tokenizer,
    same_vocabulary,
    train_tokenizer,
)

CORPUS = ["the cat sat on the mat", "the dog sat on the log", "a café is where naïve people sit ☕"] * 20
TRAINED = train_tokenizer(CORPUS, 300)


def metaspace() -> PreTrainedTokenizerFast:
    """A tokeniser whose decoder drops the space at the start, as Llama's does."""
    pieces = ["<s>", "</s>", "▁the", "▁cat", "▁", "t", "h", "e", "c", "a"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("c", "a"), ("ca", "t"), ("▁", "cat")]
    vocabulary = {piece: i for i, piece in enumerate([*pieces, "th", "the", "ca", "cat"])}
    backend = Tokenizer(models.BPE(vocabulary, merges))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")


def test_training_twice_gives_the_same_tokeniser() -> None:
    again = train_tokenizer(iter(CORPUS), 300)
    assert again.backend_tokenizer.to_str() == TRAINED.backend_tokenizer.to_str()
    assert len(TRAINED) == 300
    assert (TRAINED.eos_token_id, TRAINED.pad_token_id, TRAINED.mask_token_id, TRAINED.bos_token) == (
        0,
        1,
        2,
        None,
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_a_trained_tokeniser_gives_every_text_back(text: str) -> None:
    assert decode(TRAINED, TRAINED(text).input_ids, special=True) == text


def test_a_saved_tokeniser_loads_as_it_was(tmp_path: Path) -> None:
    trained = train_tokenizer(CORPUS, 290, tmp_path / "tok")
    loaded = load_tokenizer(tmp_path / "tok")
    assert same_vocabulary(trained, loaded)
    assert not same_vocabulary(TRAINED, loaded)
    assert loaded(" the cat ,").input_ids == trained(" the cat ,").input_ids
    assert decode(loaded, loaded(" the cat ,").input_ids) == " the cat ,"
    assert not [path for path in tmp_path.iterdir() if path.name != "tok"]


def test_vocabularies_of_one_size_may_differ() -> None:
    assert not same_vocabulary(character_tokenizer("ab"), character_tokenizer("ba"))
    assert same_vocabulary(character_tokenizer("ab"), character_tokenizer("ab"))


def test_a_vocabulary_that_cannot_hold_every_byte_is_refused() -> None:
    with pytest.raises(LexergyError, match=r"at least 259 tokens.*vocabulary=100"):
        train_tokenizer(CORPUS, 100)


def test_characters_are_tokens_in_the_order_given() -> None:
    toy = character_tokenizer("ab ", mask=None)
    assert toy("ba a").input_ids == [1, 0, 2, 0]
    assert (toy.eos_token_id, toy.pad_token_id, toy.mask_token, len(toy)) == (3, 4, None, 5)
    assert decode(toy, [2, 0, 2, 2, 3]) == " a  "
    assert decode(toy, [0, 3], special=True) == "a" + EOS
    with pytest.raises(LexergyError, match="different letters"):
        character_tokenizer("aa")


def test_a_continuation_keeps_the_space_it_begins_with() -> None:
    tokenizer = metaspace()
    ids = tokenizer("the cat").input_ids
    assert [tokenizer.convert_ids_to_tokens(one) for one in ids] == ["▁the", "▁cat"]
    assert decode(tokenizer, ids) == "the cat"
    assert decode(tokenizer, ids[1:], after=ids[:1]) == " cat"


def test_a_character_begun_before_belongs_to_the_continuation() -> None:
    ids = TRAINED("x☕y").input_ids
    assert len(ids) >= 3
    cut = 2  # inside the three bytes of the cup
    assert decode(TRAINED, ids[:cut]).endswith("\ufffd")
    assert decode(TRAINED, ids[cut:], after=ids[:cut]) == "☕y"
    broken = [ids[1]] * 12  # half characters that never become whole: nothing before is repeated
    assert decode(TRAINED, TRAINED("y").input_ids, after=broken) == "y"


def test_a_place_without_a_tokeniser_says_so(tmp_path: Path) -> None:
    with pytest.raises(LexergyError, match="No tokeniser could be loaded"):
        load_tokenizer(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LexergyError, match="No tokeniser could be loaded"):
        load_tokenizer(tmp_path / "empty")
    TRAINED.save_pretrained(tmp_path / "cut")
    whole = (tmp_path / "cut" / "tokenizer.json").read_bytes()
    (tmp_path / "cut" / "tokenizer.json").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LexergyError, match=r"tokenizer\.json is not valid JSON"):
        load_tokenizer(tmp_path / "cut")
    with pytest.raises(LexergyError, match="is a file"):
        load_tokenizer(tmp_path / "cut" / "tokenizer.json")

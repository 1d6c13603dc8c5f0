"""Energies over networks of every family: padding, side and batch change nothing, special tokens are read and not
pooled, long texts are put together as asked or refused, and other tokens than the energy's own are translated."""

import copy
import dataclasses

import pytest
import torch

import families
from families import ENCODERS, POSITIONS, TEXTS, byte_level, causal, encoder, plain, word_piece
from lexergy.core.errors import LexergyError
from lexergy.core.random import seeded
from lexergy.core.types import Tokens
from lexergy.energies.bag import Bag
from lexergy.energies.lm import LM
from lexergy.energies.retokenised import Retokenised
from lexergy.energies.transformer import Pooling, Transformer
from lexergy.engine.load import Loaded, load
from lexergy.text.joint import to_tokens

FAMILIES = pytest.mark.parametrize("family", ENCODERS)
LONG = "a river in winter, so it rained on letters and stones; the council voted on it in winter"


def energy(family: str, pooling: Pooling = "mean", loaded: Loaded | None = None) -> Transformer:
    """An energy with a head that says something; encoders keep the tokens that frame a text."""
    special = "bos" if family.startswith("ours") else "all"
    made = Transformer(loaded or encoder(family), pooling=pooling, special=special)
    with seeded(0, "head"):
        torch.nn.init.normal_(made.head.weight)
        torch.nn.init.normal_(made.head.bias)
    return made


@torch.no_grad()
def slow(one: Transformer, ids: list[int], free: list[bool]) -> float:
    """By transformers alone: one text, no padding, the states of the free tokens averaged by hand."""
    states = one.trunk(input_ids=torch.tensor([ids])).last_hidden_state[0].double()
    pooled = states[0] if one.pooling == "first" else states[torch.tensor(free)].mean(0)
    return float(pooled @ one.head.weight[0].double() + one.head.bias[0])


@FAMILIES
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_energies_are_those_of_one_unpadded_text(family: str, pooling: Pooling) -> None:
    one = energy(family, pooling)
    contexts = ["the council ", "", "a", "so it ", "", "it"]
    encoded = one.encode(TEXTS, contexts)
    wanted = []
    for text in encoded:
        free = [text.free_from <= t < text.free_to for t in range(len(text.ids))]
        wanted.append(slow(one, text.ids, free))
    assert one.score(TEXTS, contexts) == pytest.approx(wanted, abs=2e-5)
    for row, text in enumerate(TEXTS):
        assert one.score([text], contexts[row]) == pytest.approx([wanted[row]], abs=2e-5)
    for rows in ((0, 1), (2, 3), (4, 5)):
        found = one.score([TEXTS[i] for i in rows], [contexts[i] for i in rows])
        assert found == pytest.approx([wanted[i] for i in rows], abs=2e-5)
    right = to_tokens(encoded, pad=2)
    width = right.ids.shape[1]
    turn = (torch.arange(width) - (width - right.lengths)[:, None]) % width
    left = Tokens(right.ids.gather(1, turn), right.mask.gather(1, turn), right.free.gather(1, turn))
    assert bool(left.mask[:, -1].all())
    wide = [torch.nn.functional.pad(part, (3, 5), value=0) for part in (right.ids, right.mask, right.free)]
    for tokens in (right, left, Tokens(*wide)):
        assert one.of_tokens(tokens).tolist() == pytest.approx(wanted, abs=2e-5)
        with torch.no_grad():
            assert one(tokens).tolist() == pytest.approx(wanted, abs=2e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet"])
def test_what_frames_a_text_is_read_and_not_pooled(family: str) -> None:
    one = energy(family)
    tokenizer = one.tokenizer
    assert tokenizer is not None
    (text,) = one.encode(["a river in winter"], ["so "])
    assert (text.ids[0], text.ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert (text.free_from, text.free_to) == (2, len(text.ids) - 1)
    free = [2 <= t < len(text.ids) - 1 for t in range(len(text.ids))]
    assert one.score(["a river in winter"], "so ") == pytest.approx([slow(one, text.ids, free)], abs=2e-5)
    bare = slow(one, text.ids[1:-1], free[1:-1])
    assert abs(bare - slow(one, text.ids, free)) > 1e-3


@FAMILIES
def test_as_long_as_there_are_positions_and_no_longer(family: str) -> None:
    one = energy(family)
    longest = one.longest
    assert longest == POSITIONS - (2 if family in ("roberta", "mpnet") else 0)
    ids = [5 + i % 7 for i in range(longest)]
    assert one.of_tokens(Tokens.of([ids])).isfinite().all()
    with pytest.raises((IndexError, RuntimeError, LexergyError)):
        one.trunk(input_ids=torch.tensor([[*ids, 5]]))


@pytest.mark.parametrize("family", ["bert", "roberta", "ours"])
def test_a_long_text_is_refused_or_put_together_from_windows(family: str) -> None:
    one = energy(family)
    with pytest.raises(LexergyError, match="Nothing is cut in silence"):
        one.score(["so", LONG * 2])
    with pytest.raises(LexergyError, match="context alone fills"):
        one.score(["so"], LONG * 2, windows="sum")
    (text,) = one.encode([LONG * 2], ["so "])
    before, after = text.ids[: text.free_from], text.ids[text.free_to :]
    room, parts = one.longest - len(before) - len(after), []
    for start in range(text.free_from, text.free_to, room):
        part = text.ids[start : min(start + room, text.free_to)]
        free = [False] * len(before) + [True] * len(part) + [False] * len(after)
        parts.append(slow(one, [*before, *part, *after], free))
    assert len(parts) > 1
    short = one.score(["it rained"], "so ")[0]
    total, mean = sum(parts), sum(parts) / len(parts)
    assert one.score([LONG * 2, "it rained"], "so ", windows="sum") == pytest.approx([total, short], abs=1e-4)
    assert one.score(["it rained", LONG * 2], "so ", windows="mean") == pytest.approx([short, mean], abs=1e-4)


@FAMILIES
def test_a_text_of_nothing_gets_the_bias_alone(family: str) -> None:
    one = energy(family)
    bias = float(one.head.bias.detach())
    found = one.score(["", "so", ""])
    assert [found[0], found[2]] == pytest.approx([bias, bias])
    assert found[1] == pytest.approx(one.score(["so"])[0], abs=2e-5)
    assert one.score([""]) == pytest.approx([bias])
    assert one.score(["", ""], "so ") == pytest.approx([bias, bias])
    first = energy(family, "first")
    texts = Tokens.of([[], [7, 8], [9]])
    found = first.of_tokens(texts).tolist()
    assert found[0] == pytest.approx(float(first.head.bias.detach()))
    assert found == pytest.approx([float(first.of_tokens(texts.select([row]))[0]) for row in range(3)], abs=2e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "ours"])
def test_bf16_energies_are_as_near_as_transformers_own(family: str) -> None:
    exact = energy(family)
    loaded = encoder(family)
    half = energy(family, loaded=dataclasses.replace(loaded, model=copy.deepcopy(loaded.model).bfloat16()))
    half.head.load_state_dict(exact.head.state_dict())
    assert half.head.weight.dtype == torch.bfloat16
    wanted, theirs = [], []
    for text in exact.encode(TEXTS * 2, ["", "a ", "so it "] * 4):
        free = [text.free_from <= t < text.free_to for t in range(len(text.ids))]
        wanted.append(slow(exact, text.ids, free))
        theirs.append(slow(half, text.ids, free))
    found = half.score(TEXTS * 2, ["", "a ", "so it "] * 4)

    def away(values: list[float]) -> float:
        return sum(abs(a - b) for a, b in zip(values, wanted, strict=True)) / len(wanted)

    assert away(found) <= 1.1 * away(theirs) + 1e-3
    assert len({round(value * 64) / 64 for value in found} - set(found)) > 0  # not rounded to bf16's own steps


@FAMILIES
def test_a_saved_energy_comes_back(family: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    one, folder = energy(family, "first"), tmp_path_factory.mktemp("saved") / "energy"
    one.save_pretrained(folder)
    from lexergy.loading import load_energy

    again = load_energy(str(folder), device="cpu", dtype="float32")
    assert isinstance(again, Transformer)
    assert (again.pooling, again.special, again.longest) == (one.pooling, one.special, one.longest)
    assert again.score(TEXTS, "so ") == pytest.approx(one.score(TEXTS, "so "), abs=1e-5)


def byte_rows(cases: list[tuple[bytes, bytes]]) -> Tokens:
    """Contexts and continuations given byte by byte, each byte its own token."""
    tokenizer = byte_level()
    spelled = dict(zip(range(256), (tokenizer.convert_tokens_to_ids(c) for c in _byte_letters()), strict=True))
    rows = [[spelled[b] for b in before + after] for before, after in cases]
    return Tokens.of(rows, [len(before) for before, _ in cases])


def _byte_letters() -> list[str]:
    """The letter that stands for each byte in a byte-level vocabulary."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = iter(range(256, 512))
    return [chr(b) if b in kept else chr(next(moved)) for b in range(256)]


CUT = "東".encode()
CASES = [
    (b"the council ", b"voted on it"),
    (b"the council", b" voted  on it "),
    (b" so\n", b"it\train"),
    (b"a caf", "é, ".encode() + CUT[:2]),
    (b"a " + CUT[:1], CUT[1:] + b" so"),
    (b"so ", b"\x00it"),
    (b"", b"so"),
    (b"so", b""),
    (CUT[:2], b"a"),
]


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_other_tokens_are_read_as_the_text_they_spell(family: str) -> None:
    one = energy(family)
    reader = one.reading(byte_level())
    assert isinstance(reader, Retokenised)
    tokens = byte_rows([(before, after) for before, after in CASES])
    found = reader.of_tokens(tokens)
    for row, (before, after) in enumerate(CASES):
        whole = (before + after).decode(errors="replace").replace("\0", "\ufffd")
        complete = before.decode(errors="ignore")
        (text,) = one.encode([whole], [""])
        start = len(complete)
        free = [stop > max(begin, start) for begin, stop in text.offsets]
        wanted = slow(one, text.ids, free) if any(free) else float(one.head.bias.detach())
        assert float(found[row]) == pytest.approx(wanted, abs=2e-5), whole


def test_nothing_is_stripped_on_the_way_to_other_tokens() -> None:
    inner = byte_level(bos=True)  # other ids for the same pieces
    reader = Retokenised(Bag(inner), byte_level())
    rows = [(b" so  it", b" \n rained \t"), (b"", b"  a"), (b"caf", "é".encode()), (CUT[:2], CUT[2:] + b" a")]
    translated = reader.translate(byte_rows(rows))
    for row, (before, after) in enumerate(rows):
        assert inner.decode(translated.real(row), skip_special_tokens=True) == (before + after).decode()
        spelled = inner.decode(translated.free_ids(row))
        assert spelled == (before + after).decode()[len(before.decode(errors="ignore")) :]
        assert translated.real(row)[0] == inner.bos_token_id


def test_a_language_model_reads_other_tokens_from_where_its_texts_start() -> None:
    part = LM(causal("gpt2"))
    reader = Retokenised(part, word_piece())
    tokens = Tokens.of([word_piece()("a river", add_special_tokens=False)["input_ids"]])
    assert reader.of_tokens(tokens).tolist() == pytest.approx(part.score(["a river"]), abs=1e-4)


def test_a_text_too_long_in_its_own_tokens_is_refused() -> None:
    reader = energy("bert").reading(byte_level())
    with pytest.raises(LexergyError, match="does not fit the 40"):
        reader.of_tokens(byte_rows([(b"", b"x y " * 30)]))


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "ours", "ours backwards"])
def test_a_long_text_of_a_language_model_is_a_strided_sum(family: str) -> None:
    one, loaded = LM(causal(family)), causal(family)
    for context in ("", "so ", LONG + LONG):
        (text,) = one.encode([LONG * 2], [context])
        count, half = len(text.ids), POSITIONS // 2
        assert count > 2 * POSITIONS
        order = range(count) if family != "ours backwards" else range(count - 1, -1, -1)
        place = {t: i for i, t in enumerate(order)}  # how many tokens were read before each
        free = sorted((t for t in range(text.free_from, text.free_to)), key=lambda t: place[t])
        first = place[free[0]]
        ends = [min(place[free[-1]] + 1, POSITIONS if first < POSITIONS else first + half)]
        while ends[-1] <= place[free[-1]]:
            ends.append(min(ends[-1] + half, place[free[-1]] + 1))
        values = {}
        for start, end in zip([first, *ends], ends, strict=False):
            window = sorted(order[max(0, end - POSITIONS) : end])
            scored = [start <= place[t] < end for t in window]
            said = plain(loaded, [text.ids[t] for t in window], scored)
            values |= {t: value for t, value, kept in zip(window, said, scored, strict=True) if kept}
        assert sorted(values) == list(range(text.free_from, text.free_to))
        assert one.score([LONG * 2], context) == pytest.approx([-sum(values.values())], rel=1e-5)
        assert one.score([LONG * 2], context, windows="mean") == one.score([LONG * 2], context)
        pieces = one.score_tokens(LONG * 2, context)
        assert [value for _, value in pieces] == pytest.approx([-values[t] for t in sorted(values)], abs=1e-4)
        assert LONG * 2 in "".join(piece for piece, _ in pieces)


def test_energies_of_tokens_sum_to_the_energy_of_the_text() -> None:
    for family in ("llama", "ours backwards"):
        one = LM(causal(family))
        for text, context in [("naïve café, 東京", "so "), ("a river", ""), ("", "so")]:
            pieces = one.score_tokens(text, context)
            assert sum(value for _, value in pieces) == pytest.approx(one.score([text], context)[0], abs=1e-4)


def test_a_language_model_of_any_family_is_a_trunk() -> None:
    for family in families.CAUSAL:
        loaded = causal(family)
        trunk = dataclasses.replace(loaded, model=loaded.model.base_model)
        one = energy("ours", loaded=trunk)
        (text,) = one.encode(["a river in winter"], ["so "])
        free = [t >= text.free_from for t in range(len(text.ids))]
        wanted = slow(one, text.ids, free)
        assert one.score(["a river in winter", LONG[:20], "so"], "so ")[0] == pytest.approx(wanted, abs=2e-5)


def test_a_trunk_loads_from_a_language_model_and_looks_both_ways_when_told(tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("lm")
    causal("gpt2").model.save_pretrained(folder)
    byte_level().save_pretrained(folder)
    one = Transformer(load(folder, "trunk", device="cpu", dtype="float32"))
    assert one.longest == POSITIONS
    assert one.score(["so"]) == [0.0]


@FAMILIES
def test_tokens_that_do_not_fit_are_refused_before_the_network_meets_them(family: str) -> None:
    one = energy(family)
    assert one.longest is not None
    with pytest.raises(LexergyError, match=f"{one.longest + 1} tokens does not fit the {one.longest}"):
        one.of_tokens(Tokens.of([[5] * (one.longest + 1)]))

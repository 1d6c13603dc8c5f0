"""Mined sets: what is drawn, from what, how a stopped run goes on, and that reading gives back what was written."""

import copy
import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lexergy.core import files, toy
from lexergy.core.errors import LexergyError
from lexergy.core.types import Tokens
from lexergy.engine import decode as decoding
from lexergy.engine.load import load
from lexergy.nets.transformer import TransformerForCausalLM
from lexergy.proposals import causal
from lexergy.proposals.causal import Causal
from lexergy.text.mined import DRAWS, Mined, read_mined
from lexergy.text.ragged import Ragged, chain, pack, stack, take
from lexergy.text.shards import ShardWriter
from lexergy.text.split import part_of
from lexergy.training.mine import mine


@pytest.fixture(scope="module")
def lm() -> Causal:
    return causal.tiny()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Documents of the toy alphabet, all different, of 6 to 13 letters."""
    texts = [
        "".join(toy.LETTERS[(i * i + j * (i + 1)) % 3] for j in range(6 + i % 8)) + "abc"[i % 3] for i in range(60)
    ]
    file = tmp_path / "corpus.txt"
    file.write_text("\n\n".join(dict.fromkeys(texts)), encoding="utf-8")
    return file


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def rows(found: Ragged) -> list[object]:
    return [found.row(i) for i in range(len(found))]


def go(lm: Causal, corpus: Path, out: Path, **options: object) -> Mined:
    chosen = {"per_prefix": 2, "prefix": 3, "length": 4, "seed": 1, "limit": 30, "shard": 8, "quiet": True}
    return mine(lm, corpus, out, **{**chosen, **options})  # type: ignore[arg-type]


def test_a_stopped_run_goes_on_to_the_same_bytes(
    lm: Causal, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(lm, corpus, tmp_path / "straight")
    write = ShardWriter.write

    def failing(self: ShardWriter, index: int, *given: object, **named: object) -> None:
        if self.folder.name == DRAWS and index == 2:
            raise KeyboardInterrupt
        write(self, index, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(ShardWriter, "write", failing)
    with pytest.raises(KeyboardInterrupt):
        go(lm, corpus, tmp_path / "stopped")
    with pytest.raises(LexergyError, match="unfinished: 2 shards, 16 rows"):
        read_mined(tmp_path / "stopped")
    monkeypatch.setattr(ShardWriter, "write", write)
    drawn: list[int] = []
    draw = Causal.draw
    monkeypatch.setattr(Causal, "draw", lambda self, prompts, *a: drawn.append(len(prompts)) or draw(self, prompts, *a))
    go(lm, corpus, tmp_path / "stopped")
    assert drawn == [8, 6]  # what was there is not drawn again
    assert contents(tmp_path / "stopped") == contents(tmp_path / "straight")
    drawn.clear()
    go(lm, corpus, tmp_path / "stopped")
    assert drawn == []


def test_the_set_depends_on_neither_shards_nor_budget(lm: Causal, corpus: Path, tmp_path: Path) -> None:
    one = go(lm, corpus, tmp_path / "a")
    small = Causal(load((lm.lm.model, lm.tokenizer), "causal"))
    small.lm.plan = dataclasses.replace(small.lm.plan, tokens=20)
    other = go(small, corpus, tmp_path / "b", shard=7)
    assert rows(one.real) == rows(other.real)
    assert rows(one.negatives) == rows(other.negatives)
    assert torch.allclose(one.log_p, other.log_p, atol=1e-10)
    assert torch.allclose(one.real_log_p, other.real_log_p, atol=1e-10)
    assert rows(one.negatives) != rows(go(lm, corpus, tmp_path / "c", seed=2).negatives)


@pytest.mark.parametrize("space", ["until_eos", "fixed"])
@pytest.mark.parametrize("prefix", [0, 3])
def test_what_is_stored_is_what_the_model_says(
    lm: Causal, corpus: Path, tmp_path: Path, space: str, prefix: int
) -> None:
    mined = go(lm, corpus, tmp_path / "m", space=space, prefix=prefix)
    assert (len(mined), mined.per_prefix, len(mined.negatives)) == (30, 2, 60)
    assert mined.log_q.shape == (30, 2)
    every = torch.arange(60)
    assert torch.allclose(lm.log_prob(mined.negatives.batch(every)), mined.log_p.flatten(), atol=1e-10)
    assert torch.allclose(lm.log_prob(mined.real.batch(torch.arange(30))), mined.real_log_p, atol=1e-10)
    assert torch.equal(mined.log_p, mined.log_q)  # untruncated, temperature 1
    eos = lm.lm.eos[0]
    for row in range(60):
        ids, start, end = mined.negatives.row(row)
        real, real_start, _ = mined.real.row(row // 2)
        assert list(ids[:start]) == list(real[:real_start])  # after the same context
        assert start == max(prefix, 1)
        assert end == len(ids)
        ended = eos in ids[start:-1]
        assert not ended if space == "until_eos" else end - start == 4
    assert mined.law == dataclasses.replace(mined.law, space=space, max_new_tokens=4, seed=1, hash=lm.lm.hash)
    assert mined.tokenizer.get_vocab() == lm.tokenizer.get_vocab()
    assert mined.meta["prefix"] == prefix


def test_truncated_draws_keep_both_probabilities(lm: Causal, corpus: Path, tmp_path: Path) -> None:
    mined = go(lm, corpus, tmp_path / "m", top_k=2, temperature=0.5)
    assert mined.law.truncated
    assert torch.allclose(lm.log_prob(mined.negatives.batch(torch.arange(60))), mined.log_p.flatten(), atol=1e-10)
    assert bool((mined.log_q > mined.log_p).any())


def test_a_context_that_comes_again_has_draws_of_its_own(lm: Causal, corpus: Path, tmp_path: Path) -> None:
    mined = go(lm, corpus, tmp_path / "m", prefix=0, length=8)
    written = [tuple(mined.negatives.row(i)[0]) for i in range(60)]
    assert len(set(written)) > 20  # not the same two texts thirty times
    # And the draws of an evaluation with the same seed are others: else it would see what was trained on.
    again = lm.draw([lm.prompt_ids("")], 60, mined.law)[0]
    assert written != [tuple(again.tokens.real(i)) for i in range(60)]


def test_only_the_part_asked_for_is_mined(lm: Causal, corpus: Path, tmp_path: Path) -> None:
    parts = {"lm": 0.5, "energy": 0.5}
    sets = {part: go(lm, corpus, tmp_path / part, part=part, parts=parts, limit=None) for part in parts}
    assert all({part_of(group, parts) for group in found.groups} == {part} for part, found in sets.items())
    assert not set(sets["lm"].groups) & set(sets["energy"].groups)
    with pytest.raises(LexergyError, match=r"Unknown part 'enregy'. Did you mean 'energy'"):
        go(lm, corpus, tmp_path / "other", part="enregy", parts=parts)


def test_counts_say_what_was_dropped(lm: Causal, corpus: Path, tmp_path: Path) -> None:
    once = go(lm, corpus, tmp_path / "once", limit=None)
    text = corpus.read_text(encoding="utf-8")
    corpus.write_text(f"{text}\n\n{text}", encoding="utf-8")
    twice = go(lm, corpus, tmp_path / "twice", limit=None)
    assert rows(once.real) == rows(twice.real)
    counts = files.read_json(tmp_path / "twice" / "counts.json")
    number = len(text.split("\n\n"))
    assert counts == {"windows": len(once), "documents": number, "near_duplicates_dropped": number}
    (tmp_path / "twice" / "counts.json").unlink()  # stopped just before it was written
    go(lm, corpus, tmp_path / "twice", limit=None)
    assert files.read_json(tmp_path / "twice" / "counts.json") == counts


def test_limit_counts_windows(lm: Causal, corpus: Path, tmp_path: Path) -> None:
    every = go(lm, corpus, tmp_path / "all", limit=None)
    assert rows(go(lm, corpus, tmp_path / "few", limit=5).real) == rows(every.real)[:5]


def _other_weights(lm: Causal) -> Causal:
    model = TransformerForCausalLM(lm.lm.model.config).double()
    return Causal(load((model, lm.tokenizer), "causal"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 2}, "seed: 1 there, 2 here"),
        ({"temperature": 0.5}, "temperature: 1.0 there, 0.5 here"),
        ({"top_k": 2}, "top_k: 0 there, 2 here"),
        ({"per_prefix": 3}, "per_prefix: 2 there, 3 here"),
        ({"prefix": 4}, "prefix: 3 there, 4 here"),
        ({"limit": 29}, "limit: 30 there, 29 here"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_another_set_is_not_mixed_into_one_that_is_there(
    lm: Causal, corpus: Path, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    go(lm, corpus, tmp_path / "m")
    before = contents(tmp_path / "m")
    with pytest.raises(LexergyError, match=said):
        go(lm, corpus, tmp_path / "m", **change)
    assert contents(tmp_path / "m") == before


def test_another_model_or_corpus_is_refused_and_another_name_is_not(lm: Causal, corpus: Path, tmp_path: Path) -> None:
    mined = go(lm, corpus, tmp_path / "m")
    with pytest.raises(LexergyError, match="by another law or model"):
        go(_other_weights(lm), corpus, tmp_path / "m")
    single = Causal(load((copy.deepcopy(lm.lm.model).float(), lm.tokenizer), "causal"))
    with pytest.raises(LexergyError, match=r"dtype: float64 there, float32 here.* with dtype='float64' to go on"):
        go(single, corpus, tmp_path / "m")
    moved = Causal(dataclasses.replace(load((lm.lm.model, lm.tokenizer), "causal"), name="moved/elsewhere"))
    assert rows(go(moved, corpus, tmp_path / "m").negatives) == rows(mined.negatives)
    corpus.write_text(corpus.read_text(encoding="utf-8") + "\n\nabcabcab", encoding="utf-8")
    with pytest.raises(LexergyError, match="made from something else"):
        go(lm, corpus, tmp_path / "m")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"per_prefix": 0}, "per_prefix must be at least 1"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"prefix": 500}, "No window fits"),
        ({"length": 5000}, "do not fit the 1024 positions"),
    ],
    ids=["per_prefix", "limit", "prefix", "length"],
)
def test_mistakes_are_told_apart(
    lm: Causal, corpus: Path, tmp_path: Path, options: dict[str, object], said: str
) -> None:
    with pytest.raises(LexergyError, match=said):
        go(lm, corpus, tmp_path / "m", **options)


def test_a_model_that_writes_backwards_mines_nothing(lm: Causal, corpus: Path, tmp_path: Path) -> None:
    config = lm.lm.model.config.__class__(**{**lm.lm.model.config.to_dict(), "direction": "right_to_left"})
    backwards = Causal(load((TransformerForCausalLM(config).double(), lm.tokenizer), "causal"))
    with pytest.raises(LexergyError, match="reads left to right"):
        go(backwards, corpus, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_folder_that_is_none_is_said_to_be_none(lm: Causal, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(LexergyError, match="is no mined set"):
        read_mined(tmp_path)
    go(lm, corpus, tmp_path / "m")
    go(lm, corpus, tmp_path / "n", limit=7)
    shutil.rmtree(tmp_path / "m" / "windows")
    shutil.copytree(tmp_path / "n" / "windows", tmp_path / "m" / "windows")
    with pytest.raises(LexergyError, match="7 windows but draws for 30"):
        read_mined(tmp_path / "m")


def test_mining_draws_each_prompt_once(
    lm: Causal, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[int] = []
    write: Callable[..., object] = decoding._write
    monkeypatch.setattr(decoding, "_write", lambda m, prompts, *a: called.append(len(prompts)) or write(m, prompts, *a))
    go(lm, corpus, tmp_path / "m", shard=30)
    assert called == [60]  # one batch for a shard whose contexts have one length


def test_ragged_rows_equal_lists() -> None:
    lists = [([1, 2, 3], 1, 3), ([], 0, 0), ([4], 0, 1), ([5, 6, 7, 8], 2, 3)]
    ragged = Ragged.of(lists)
    assert rows(ragged) == lists
    assert ragged.lengths.tolist() == [3, 0, 1, 4]
    picked = ragged.batch(torch.tensor([3, 0, 1, 3]))
    assert picked.ids.tolist() == [[5, 6, 7, 8], [1, 2, 3, 0], [0, 0, 0, 0], [5, 6, 7, 8]]
    assert picked.mask.sum(1).tolist() == [4, 3, 0, 4]
    assert picked.free.tolist()[0] == [False, False, True, False]
    assert rows(Ragged.of_tokens(picked)) == [lists[3], lists[0], lists[1], lists[3]]
    assert rows(Ragged.concatenate([ragged, ragged])) == lists * 2
    assert len(Ragged.of([])) == 0
    assert Ragged.of([]).batch(torch.tensor([], dtype=torch.long)).ids.shape == (0, 0)


def test_padding_on_the_left_and_in_between_is_no_token() -> None:
    ids, mask = torch.tensor([[9, 1, 2, 9], [3, 9, 4, 5]]), torch.tensor([[0, 1, 1, 0], [1, 0, 1, 1]]).bool()
    tokens = Tokens(ids, mask, torch.tensor([[1, 0, 1, 1], [0, 1, 1, 1]]).bool())
    assert rows(Ragged.of_tokens(tokens)) == [([1, 2], 1, 2), ([3, 4, 5], 1, 3)]
    assert [value.tolist() for value in pack(tokens)] == [[2, 4, 5], [0, 1, 3]]


def test_packed_rows_are_taken_chained_and_stacked() -> None:
    a = torch.tensor([1, 2, 3]), torch.tensor([0, 1, 1, 3])
    b = torch.tensor([7, 8]), torch.tensor([0, 0, 2, 2])
    assert [value.tolist() for value in take(a, torch.tensor([2, 0, 2]))] == [[2, 3, 1, 2, 3], [0, 2, 3, 5]]
    assert [value.tolist() for value in chain([a, b])] == [[1, 7, 8, 2, 3], [0, 1, 3, 5]]
    assert [value.tolist() for value in stack([a, b])] == [[1, 2, 3, 7, 8], [0, 1, 1, 3, 3, 5, 5]]
    assert rows(Ragged.continuing(a, b)) == [([1], 1, 1), ([7, 8], 0, 2), ([2, 3], 2, 2)]


def test_reading_runs_no_python_for_each_token(lm: Causal, corpus: Path, tmp_path: Path, monkeypatch) -> None:
    go(lm, corpus, tmp_path / "m")

    def lists(*_: object) -> list[list[int]]:
        raise AssertionError("rows were taken apart")

    monkeypatch.setattr("lexergy.text.shards.unpack_rows", lists)
    monkeypatch.setattr("lexergy.text.store.unpack_rows", lists)
    assert len(read_mined(tmp_path / "m")) == 30

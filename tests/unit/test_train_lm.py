"""Training a language model: it learns a pattern, either way; batches are a pure function of the step; resumed is
straight through; what was trained comes back from its folder."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import Gemma2Config, Gemma2ForCausalLM, PreTrainedModel

from lexergy.core import files, toy
from lexergy.core.errors import LexergyError
from lexergy.core.types import Direction
from lexergy.loading import load_proposal
from lexergy.text.document import Document
from lexergy.text.tokenisers import character_tokenizer
from lexergy.training import lm as training
from lexergy.training.corpus_batches import Sequences, token_stream
from lexergy.training.lm import new_lm, train_lm
from lexergy.training.settings import Settings

TOKENIZER = character_tokenizer(toy.LETTERS)
SETTINGS = Settings(
    steps=120,
    learning_rate=0.01,
    warmup=3,
    dtype="float32",
    device="cpu",
    log_every=5,
    validate_every=10,
    checkpoint_seconds=1e9,
    quiet=True,
)


def documents(begin: int, end: int) -> list[Document]:
    """Texts in which c always follows b; which letter comes after a or c follows no rule."""
    texts = ["".join("a" if i >> bit & 1 else "bc" for bit in range(7)) for i in range(begin, end)]
    return [Document(text, text, text) for text in texts]


def fresh(direction: Direction = "left_to_right", **changes: object) -> PreTrainedModel:
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, **changes}
    return new_lm(TOKENIZER, "tiny", direction, 0, **sizes)


def same(a: PreTrainedModel, b: PreTrainedModel) -> bool:
    return all(torch.equal(value, b.state_dict()[name]) for name, value in a.state_dict().items())


def test_a_pattern_is_learnt(tmp_path: Path) -> None:
    model = fresh()
    history = train_lm(model, TOKENIZER, documents(0, 100), documents(100, 128), SETTINGS, 16, 8, tmp_path)
    losses = [found["loss"] for found in history.validations]
    assert losses[0] > losses[-1]
    # Seven fair coins and the end of a text in some twelve tokens: about 0.5 nats each. Knowing no rule: 1.2.
    assert losses[-1] < 0.8
    assert history.validations[-1]["perplexity"] == pytest.approx(torch.tensor(losses[-1]).exp())
    lm = load_proposal(tmp_path / "model", dtype="float32")
    after_b, after_c = lm.log_prob(["c", "a"], context=["ab", "ab"])
    assert after_b > -0.3
    assert after_c < -2
    assert same(lm.lm.model, model)
    assert TOKENIZER.get_vocab() == lm.tokenizer.get_vocab()


def test_right_to_left_is_training_on_reversed_text(tmp_path: Path) -> None:
    def reversed_(given: list[Document]) -> list[Document]:
        return [dataclasses.replace(one, text=one.text[::-1]) for one in given[::-1]]

    settings = dataclasses.replace(SETTINGS, steps=6, warmup=0)
    backwards, forwards = fresh("right_to_left"), fresh()
    one = train_lm(backwards, TOKENIZER, documents(0, 60), documents(60, 80), settings, 16, 4, tmp_path)
    other = train_lm(forwards, TOKENIZER, reversed_(documents(0, 60)), reversed_(documents(60, 80)), settings, 16, 4)
    assert same(backwards, forwards)
    assert one == other
    lm = load_proposal(tmp_path / "model", dtype="float32")
    assert lm.direction == "right_to_left"
    before = lm.log_prob(["ab"], context=["c"])  # stands before its context
    with torch.no_grad():
        table = forwards(input_ids=torch.tensor([[2, 1, 0]])).logits.log_softmax(-1)[0]
    assert before[0] == pytest.approx(float(table[0, 1] + table[1, 0]), abs=1e-5)


def test_stopped_and_resumed_equals_straight_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dataclasses.replace(SETTINGS, steps=12, checkpoint_steps=4, patience=3, validate_every=4)
    data = documents(0, 60), documents(60, 80), settings, 16, 4
    straight, stopped = fresh(dropout=0.2), fresh(dropout=0.2)
    whole = train_lm(straight, TOKENIZER, *data, tmp_path / "a")
    step = training._Likelihood.forward
    count = iter(range(1000))

    def failing(self: training._Likelihood, ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if self.training and next(count) == 6:
            raise KeyboardInterrupt
        return step(self, ids)

    monkeypatch.setattr(training._Likelihood, "forward", failing)
    with pytest.raises(KeyboardInterrupt):
        train_lm(stopped, TOKENIZER, *data, tmp_path / "b")
    assert not (tmp_path / "b" / "model").exists()
    resumed = fresh(dropout=0.2)
    history = train_lm(resumed, TOKENIZER, *data, tmp_path / "b")
    assert history == whole
    assert same(straight, resumed)
    weights = [(tmp_path / run / "model" / "model.safetensors").read_bytes() for run in "ab"]
    assert weights[0] == weights[1]


def test_another_text_is_not_gone_on_with(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, steps=2, warmup=0)
    train_lm(fresh(), TOKENIZER, documents(0, 60), documents(60, 80), settings, 16, 4, tmp_path)
    with pytest.raises(LexergyError, match="text"):
        train_lm(fresh(), TOKENIZER, documents(0, 60)[::-1], documents(60, 80), settings, 16, 4, tmp_path)
    with pytest.raises(LexergyError, match="model"):
        train_lm(fresh(hidden_size=8), TOKENIZER, documents(0, 60), documents(60, 80), settings, 16, 4, tmp_path)
    assert files.read_json(tmp_path / "history.json")["step"] == 2


def test_the_stream_is_every_document_between_ends() -> None:
    eos = TOKENIZER.eos_token_id
    stream = token_stream(documents(5, 7), TOKENIZER, eos)
    texts = [[toy.LETTERS.index(letter) for letter in one.text] for one in documents(5, 7)]
    assert stream.tolist() == [eos, *texts[0], eos, *texts[1], eos]
    assert token_stream(documents(5, 7), TOKENIZER, eos, "right_to_left").tolist() == stream.tolist()[::-1]
    with pytest.raises(LexergyError, match="no text to train on"):
        token_stream([], TOKENIZER, eos)


@pytest.mark.parametrize("tokens", [50, 51, 57, 64])
def test_batches_are_a_pure_function_of_the_step(tokens: int) -> None:
    length, batch = 6, 3
    sequences = Sequences(torch.arange(tokens, dtype=torch.int32), length, batch, seed=4)
    count = sequences.per_epoch
    steps = list(range(4 * count // batch))
    in_order = [sequences(step) for step in steps]
    backwards = [Sequences(sequences.stream, length, batch, seed=4)(step) for step in reversed(steps)][::-1]
    assert all(torch.equal(a, b) for a, b in zip(in_order, backwards, strict=True))
    assert all(torch.equal(sequences(step), in_order[step]) for step in (3, 0, 5, 1))
    begins = torch.cat(in_order)[:, 0]
    first, second = begins[:count].sort().values, begins[count : 2 * count].sort().values
    assert first.tolist() == [i * length for i in range(count)]  # each once
    assert second.tolist() == [i * length + length // 2 for i in range(count)]  # between other cuts
    assert begins[:count].tolist() != first.tolist()
    rows = torch.cat(in_order)
    assert torch.equal(rows, rows[:, :1] + torch.arange(length + 1))
    assert int(rows.max()) < tokens
    assert not torch.equal(Sequences(sequences.stream, length, batch, seed=5)(0), in_order[0])


def test_too_little_text_is_said() -> None:
    with pytest.raises(LexergyError, match="20 tokens make 3 sequences of 5: fewer than one batch of 4"):
        Sequences(torch.arange(20, dtype=torch.int32), 5, 4, 0)
    with pytest.raises(LexergyError, match="make 0 sequences"):
        Sequences(torch.arange(3, dtype=torch.int32), 5, 4, 0)


def test_a_tokenizer_without_an_end_is_refused() -> None:
    tokenizer = character_tokenizer(toy.LETTERS, eos=None)
    with pytest.raises(LexergyError, match="no EOS token"):
        train_lm(fresh(), tokenizer, documents(0, 60), documents(60, 80), SETTINGS, 16, 4)


def test_a_family_that_squashes_its_logits_is_refused() -> None:
    config = Gemma2Config(
        vocab_size=len(TOKENIZER),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=32,
        final_logit_softcapping=0.1,
    )
    with pytest.raises(LexergyError, match="Gemma2ForCausalLM changes its logits"):
        train_lm(Gemma2ForCausalLM(config), TOKENIZER, documents(0, 60), documents(60, 80), SETTINGS, 16, 4)

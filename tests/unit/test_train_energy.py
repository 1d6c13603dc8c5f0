"""Training an energy: it learns, with the right sign; where it may start; what it refuses; resumed is straight through."""

import copy
import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

import lexergy as lx
from lexergy.core import files, toy
from lexergy.core.errors import LexergyError
from lexergy.core.random import seeded
from lexergy.energies.bag import Bag
from lexergy.energies.base import Energy
from lexergy.energies.scaled import Scaled
from lexergy.energies.transformer import Transformer
from lexergy.engine.load import load
from lexergy.nets.transformer import TransformerForCausalLM, TransformerModel, preset
from lexergy.objectives.nce import nce
from lexergy.proposals.causal import Causal
from lexergy.text.mined import Mined
from lexergy.text.ragged import Ragged
from lexergy.text.tokenisers import character_tokenizer
from lexergy.training import contrast as contrast_module
from lexergy.training import energy as training
from lexergy.training.contrast import Contrast, choices, contrast, energies_of, shuffled
from lexergy.training.energy import train_energy
from lexergy.training.lm import save_model
from lexergy.training.mine import mine

QUICK = {"quiet": True, "device": "cpu", "dtype": "float32", "log_every": 5, "checkpoint_seconds": 1e9}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A nearly uniform language model in lm/, and in mined/ what it writes after windows of a patterned corpus."""
    root = tmp_path_factory.mktemp("energies")
    tokenizer = character_tokenizer(toy.LETTERS)
    config = preset(
        "tiny",
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_attention_heads=2,
        eos_token_id=tokenizer.eos_token_id,
        max_position_embeddings=64,
    )
    with seeded(0, "lm"):
        save_model(TransformerForCausalLM(config), tokenizer, root / "lm")
    # Every b is followed by a c, and a document has 24 letters.
    texts = ["".join("abc" if i >> bit & 1 else "bca" for bit in range(8)) for i in range(256)]
    (root / "corpus.txt").write_text("\n\n".join(texts), encoding="utf-8")
    lm = lx.load_proposal(root / "lm", device="cpu", dtype="float32")
    assert isinstance(lm, Causal)
    mine(lm, root / "corpus.txt", root / "mined", 2, 3, 6, space="fixed", quiet=True)
    return root


@pytest.fixture(scope="module")
def mined(place: Path) -> Mined:
    return lx.read_mined(place / "mined")


def judged(energy: Energy, mined: Mined) -> tuple[float, float, float]:
    """Loss, mean energy of the real texts and of the written ones, over the windows held out from training."""
    read = contrast(mined, energy)
    real, written = energies_of(energy, read, read.parts(0)[1])
    return float(nce(real, written)[0]), float(real.mean()), float(written.mean())


@pytest.mark.parametrize("start", [None, "bag", "lm"])
def test_an_energy_learns_to_tell_them_apart(place: Path, mined: Mined, start: str | None, tmp_path: Path) -> None:
    source = str(place / "lm") if start == "lm" else start
    options = {"causal": False, "dropout": 0.0} if start == "lm" else {}
    energy = train_energy(
        mined, source, "tiny", epochs=2, learning_rate=3e-3, fit_scale=False, out=tmp_path, **options, **QUICK
    )
    loss, real, written = judged(energy, mined)
    assert loss < 1.386 - (0.02 if start == "bag" else 0.2)  # 2·log 2: nothing learnt
    assert real < written  # lower is likelier
    history = files.read_json(tmp_path / "history.json")
    found = [record["loss"] for record in history["validations"]]
    assert found[-1] < found[0]
    assert history["validations"][-1]["accuracy"] > 0.5
    assert energy.mined == mined.law
    again = lx.load_energy(tmp_path / "energy", dtype="float32")
    assert again.score(["abcabc", "aaaccc"]) == pytest.approx(energy.score(["abcabc", "aaaccc"]), abs=1e-5)
    assert again.mined == mined.law


def test_the_fitted_factor_is_stored_and_never_makes_validation_worse(
    mined: Mined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "LEAST_TO_SCALE", 10)
    # So large steps that the energy is over-confident.
    plain = train_energy(mined, "bag", epochs=1, learning_rate=2.0, fit_scale=False, patience=None, **QUICK)
    energy = train_energy(mined, "bag", epochs=1, learning_rate=2.0, patience=None, out=tmp_path, **QUICK)
    assert isinstance(energy, Scaled)
    assert energy.factor < 0.9
    assert energy.score(["abc"])[0] == pytest.approx(energy.factor * plain.score(["abc"])[0])
    assert judged(energy, mined)[0] < judged(plain, mined)[0]
    assert files.read_json(tmp_path / "energy" / "energy.json")["config"] == {"factor": energy.factor}
    assert lx.load_energy(tmp_path / "energy").mined == mined.law


def test_too_few_validation_windows_fit_no_factor(mined: Mined) -> None:
    assert isinstance(train_energy(mined, "bag", epochs=0.2, **QUICK), Bag)


@pytest.mark.parametrize("start", ["lm", "bag"])
def test_stopped_and_resumed_equals_straight_through(
    place: Path, mined: Mined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    start = str(place / "lm") if start == "lm" else start  # with dropout
    options = {"epochs": 0.6, "negatives": 2, "checkpoint_steps": 4, "patience": 2, **QUICK}
    whole = train_energy(mined, start, "tiny", 3, out=tmp_path / "a", **options)
    count = iter(range(1000))
    pick = training.choices

    def failing(*given: int) -> torch.Tensor:
        if next(count) == 6:
            raise KeyboardInterrupt
        return pick(*given)

    monkeypatch.setattr(training, "choices", failing)
    with pytest.raises(KeyboardInterrupt):
        train_energy(mined, start, "tiny", 3, out=tmp_path / "b", **options)
    assert not (tmp_path / "b" / "energy").exists()
    resumed = train_energy(mined, start, "tiny", 3, out=tmp_path / "b", **options)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name])
    straight, stopped = ({**files.read_json(tmp_path / run / "history.json"), "seconds": 0} for run in "ab")
    assert straight == stopped
    assert next(count) > 8


def test_a_run_over_other_data_or_settings_is_not_gone_on_with(mined: Mined, place: Path, tmp_path: Path) -> None:
    options = {"epochs": 0.1, **QUICK}
    train_energy(mined, "bag", out=tmp_path, **options)
    lm = lx.load_proposal(place / "lm", dtype="float32")
    other = mine(lm, place / "corpus.txt", tmp_path / "other", 2, 3, 6, space="fixed", seed=1, quiet=True)
    assert len(other) == len(mined)
    for data, changed, said in [
        (other, {}, "data"),
        (mined, {"form": "sum"}, "form"),
        (mined, {"batch": 16, "steps": 5}, "batch"),
        (mined, {"seed": 5}, "seed"),
    ]:
        with pytest.raises(LexergyError, match=said):
            train_energy(data, "bag", out=tmp_path, **{**options, **changed})  # type: ignore[arg-type]
    with pytest.raises(LexergyError, match="energy"):
        train_energy(mined, None, "tiny", out=tmp_path, **options)
    with pytest.raises(LexergyError, match="holds a run"):
        train_energy(mined, "bag", out=tmp_path, resume=False, **options)


def _encoder() -> tuple[BertModel, PreTrainedTokenizerFast]:
    """A BERT over pairs of letters: other tokens than the language model's, and special ones around each text."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    pieces = [*special, *"abc", *(f"##{x}" for x in "abc"), "ab", "##ab", "##bc"]
    backend = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    with seeded(0, "encoder"):
        return BertModel(config), tokenizer


def test_an_encoder_of_other_tokens_reads_the_decoded_texts(mined: Mined, tmp_path: Path) -> None:
    model, tokenizer = _encoder()
    model.save_pretrained(tmp_path / "encoder")
    tokenizer.save_pretrained(tmp_path / "encoder")
    energy = train_energy(
        mined, tmp_path / "encoder", epochs=1, learning_rate=3e-3, fit_scale=False, patience=None, **QUICK
    )
    assert isinstance(energy, Transformer)
    assert energy.special == "all"
    read = contrast(mined, energy)
    ids, start, end = read.rows.row(0)
    text = mined.tokenizer.decode(mined.real.row(0)[0])
    assert list(ids) == tokenizer(text)["input_ids"]
    assert (ids[0], ids[-1]) == (2, 3)
    assert 0 < start < end == len(ids) - 1  # what is added is not free
    loss, real, written = judged(energy, mined)
    assert loss < 1.3
    assert real < written


def test_a_model_object_starts_an_energy_and_is_not_changed(mined: Mined) -> None:
    model, tokenizer = _encoder()
    before = copy.deepcopy(model.state_dict())
    train_energy(mined, (model, tokenizer), epochs=0.2, **QUICK)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_saved_energy_is_gone_on_with(mined: Mined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "LEAST_TO_SCALE", 10)
    first = train_energy(mined, "bag", epochs=1, learning_rate=0.3, patience=None, out=tmp_path / "a", **QUICK)
    assert isinstance(first, Scaled)
    second = train_energy(
        mined, tmp_path / "a" / "energy", epochs=0.05, learning_rate=1e-9, fit_scale=False, patience=None, **QUICK
    )
    assert isinstance(second, Bag)
    assert torch.allclose(second.weight, first.part.weight, atol=1e-6)


def test_a_folder_comes_before_a_name(
    place: Path, mined: Mined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(place / "lm", tmp_path / "bag")
    monkeypatch.chdir(tmp_path)
    assert isinstance(train_energy(mined, "bag", epochs=0.01, **QUICK), Transformer)


@pytest.mark.filterwarnings("ignore:There is no group of texts to validate on")
def test_own_pairs(place: Path) -> None:
    pairs = [(f"{'abc'[i % 3]}{'abc'[i // 3 % 3]}", "abcabc", ["aaaa", "cbcb"]) for i in range(60)]
    energy = lx.train_energy(
        pairs, start=place / "lm", causal=False, epochs=4, negatives=2, learning_rate=3e-3, **QUICK
    )
    good, bad = energy.score(["abcabc", "aaaa"], context="ab")
    assert good < bad
    pair = iter([("ab", "abc", ["aa", "ca"])])
    with pytest.warns(UserWarning, match="no group of texts to validate on"):
        one = lx.train_energy(pair, start=place / "lm", **QUICK)  # one pair is enough to run
    assert len(one.score(["abc"])) == 1
    assert one.mined is None


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([("a", "b", ["c", "a"]), ("a", "b", ["c"])], r"same number of written texts.*\[1, 2\]"),
        ([("a", "b", [])], r"at least one; received \[0\]"),
        ([], "no pairs"),
        ([("a", "b", "ca")], "in a list"),
    ],
    ids=["unequal", "none", "no pairs", "a string"],
)
def test_pairs_that_are_none(place: Path, pairs: list[tuple[str, str, list[str]]], said: str) -> None:
    with pytest.raises(LexergyError, match=said):
        train_energy(pairs, start=place / "lm", **QUICK)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"start": "bag", "batch": 100_000}, "do not fill a batch of 100000"),
        ({"start": "bag", "negatives": 3}, "between 1 and the 2 that each window has"),
        ({"start": "bag", "epochs": 0}, "epochs is above 0"),
        ({"start": "bag", "causal": True}, "knows no order"),
        ({"start": "bag", "form": "max"}, "form of nce 'max'"),
        ({"start": "bag", "warm_up": 9}, "Did you mean 'warmup'"),
        ({"start": "transformer"}, "not started from its name"),
        ({"size": "tinny"}, "Did you mean 'tiny'"),
        ({"start": "bag", "size": "tinny"}, "Did you mean 'tiny'"),
        ({"size": "tiny", "pooling": "last"}, "Unknown pooling 'last'"),
        ({"size": "tiny", "dropout": 1.5}, "dropout lies between"),
        ({"start": "no/such-model"}, "There is no model at 'no/such-model'"),
    ],
    ids=lambda value: "-".join(map(str, value.values())).replace("/", " ") if isinstance(value, dict) else "",
)
def test_mistakes(mined: Mined, options: dict[str, object], said: str) -> None:
    with pytest.raises(LexergyError, match=said):
        train_energy(mined, **{**QUICK, **options})  # type: ignore[arg-type]


def test_other_families_keep_their_direction_and_dropout(mined: Mined) -> None:
    for options in ({"causal": False}, {"dropout": 0.2}):
        with pytest.raises(LexergyError, match="transformers of ours only"):
            train_energy(mined, _encoder(), **QUICK, **options)  # type: ignore[arg-type]


def test_texts_too_long_for_the_energy_are_refused(mined: Mined) -> None:
    config = preset(
        "tiny", vocab_size=len(mined.tokenizer), hidden_size=16, num_attention_heads=2, max_position_embeddings=8
    )
    with pytest.raises(LexergyError, match="9 tokens does not fit the 8"):
        train_energy(mined, (TransformerModel(config), mined.tokenizer), **QUICK)


def test_pairs_need_a_network_and_a_sum_is_not_trained(mined: Mined, tmp_path: Path) -> None:
    with pytest.raises(LexergyError, match="come without a tokenizer"):
        train_energy([("a", "b", ["c"])], **QUICK)
    (Bag(mined.tokenizer) + Bag(mined.tokenizer)).save_pretrained(tmp_path / "sum")
    with pytest.raises(LexergyError, match="A Sum is not trained"):
        train_energy(mined, tmp_path / "sum", **QUICK)


def test_a_group_is_on_one_side_only(mined: Mined) -> None:
    read = contrast(mined, Bag(mined.tokenizer))
    train, valid = read.parts(0)
    sides = [{read.groups[i] for i in side.tolist()} for side in (train, valid)]
    assert not sides[0] & sides[1]
    assert len(train) + len(valid) == len(mined)
    assert 0.01 < len(valid) / len(mined) < 0.12
    assert [x.tolist() for x in read.parts(0)] == [x.tolist() for x in read.parts(0)]


def test_one_group_alone_is_trained_on(place: Path) -> None:
    energy = Transformer(load(place / "lm", "trunk", dtype="float32"))
    for context in ("a", "b", "ab", "ca"):
        read = contrast([(context, "abc", ["ca"])] * 3, energy)
        train, valid = read.parts(0)
        assert (len(train), len(valid)) == (3, 0)


def test_a_batch_holds_windows_and_their_own_negatives(mined: Mined) -> None:
    read = contrast(mined, Bag(mined.tokenizer))
    windows = torch.tensor([5, 0, 17])
    numbers = torch.tensor([[1], [0], [1]])
    tokens = read.tokens(windows, numbers)
    expected = [mined.real.row(i)[0] for i in (5, 0, 17)] + [mined.negatives.row(i)[0] for i in (11, 0, 35)]
    assert [tokens.real(row) for row in range(6)] == expected
    assert tokens.free.sum(1).tolist() == [6] * 6


def test_every_epoch_is_a_permutation_and_a_pure_function() -> None:
    places = torch.cat([shuffled(3, index, 4, 10) for index in range(5)])
    assert sorted(places[:10].tolist()) == sorted(places[10:].tolist()) == list(range(10))
    assert places[:10].tolist() != places[10:].tolist()
    assert torch.equal(shuffled(3, 4, 4, 10), places[16:20])
    picked = torch.stack([choices(3, index, 6, 5, 3) for index in range(200)])
    assert all(len(set(row)) == 3 for row in picked.flatten(0, 1).tolist())
    shares = picked.flatten().bincount() / picked.numel()
    # 3600 choices, each a fifth with standard error 0.005 (less, without repeats): four of them either way.
    assert bool((shares - 0.2).abs().max() < 0.02)


def test_the_hash_tells_data_apart(mined: Mined, place: Path) -> None:
    bag = Bag(mined.tokenizer)
    assert contrast(mined, bag).hash == contrast(lx.read_mined(place / "mined"), bag).hash
    energy = Transformer(load(place / "lm", "trunk", dtype="float32"))
    pairs = [("a", "abc", ["ca"]), ("b", "abc", ["cb"])]
    other = [("a", "abc", ["ca"]), ("b", "abc", ["cc"])]
    assert contrast(pairs, energy).hash != contrast(other, energy).hash


@pytest.mark.parametrize("count", [4, 5, 30])
def test_a_set_whose_hashes_choose_no_group_still_validates_on_some(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contrast_module, "part_of", lambda *_, **__: "train")
    row = ([1, 2], 1, 2)
    groups = [f"group {i // 2}" for i in range(2 * count)]
    made = Contrast(Ragged.of([row] * 4 * count), 1, groups)
    train, valid = made.parts(0)
    sides = {groups[i] for i in train.tolist()}, {groups[i] for i in valid.tolist()}
    assert not sides[0] & sides[1]
    assert len(sides[1]) == {4: 0, 5: 1, 30: 2}[count]
    assert len(train) + len(valid) == 2 * count

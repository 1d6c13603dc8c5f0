"""Places: a folder, a name, a Hub id, objects; and what is said of those that are none. Importing the package loads nothing."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaModel,
)

import lexergy as lx
from hub import COMMIT, HUB
from lexergy.core.errors import LexergyError
from lexergy.energies import bag, transformer
from lexergy.energies.lm import LM
from lexergy.engine.load import fingerprint
from lexergy.proposals import causal
from lexergy.training.start import started


@pytest.mark.parametrize("name", ["HuggingFaceTB/SmolLM2-135M", "gpt2"])
def test_a_language_model_by_its_hub_id(hub: Path, name: str) -> None:
    lm = lx.load_proposal(name)
    assert (lm.lm.name, lm.lm.revision) == (name, "main")
    draws = lm.sample("The council voted", n=3, max_new_tokens=5, seed=0)
    assert lm.log_prob(draws).tolist() == pytest.approx(draws.log_p.tolist(), abs=1e-4)
    energy = lx.load_energy(name, kind="lm")
    assert isinstance(energy, LM)
    assert energy.score([" voted"], context="The council") == pytest.approx(
        [-p for p in lm.log_prob([" voted"], context="The council")], abs=1e-4
    )


@pytest.mark.parametrize("name", sorted(set(HUB) - {"gpt2"}))
def test_an_energy_starts_from_any_of_them(hub: Path, name: str) -> None:
    energy = started(name, None, "tiny", 0)
    assert energy.score(["The council voted", "a river"]) == [0.0, 0.0]  # a fresh head says nothing yet
    assert energy.longest == (510 if "roberta" in name else 512)


def test_a_saved_energy_by_its_hub_id(
    hub: Path, hub_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "cache" / "models--someone--energy"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    energy = 0.5 * bag.tiny()
    energy.save_pretrained(place / "snapshots" / COMMIT)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    assert lx.load_energy("someone/energy").score(["abc"]) == pytest.approx(energy.score(["abc"]))


def test_folders_objects_and_energies_themselves(hub: Path, tmp_path: Path) -> None:
    energy = bag.tiny()
    energy.save_pretrained(tmp_path / "energy")
    own = pytest.approx(energy.score(["ab"]))
    assert lx.load_energy(tmp_path / "energy").score(["ab"]) == own
    assert lx.load_energy(str(tmp_path / "energy"), kind="bag").score(["ab"]) == own
    with pytest.raises(LexergyError, match=r"kind 'bag'; received kind='lm'. Leave it out"):
        lx.load_energy(str(tmp_path / "energy"), kind="lm")  # it knows its kind
    with pytest.raises(LexergyError, match="which has no revisions; received revision='v2'"):
        lx.load_energy(tmp_path / "energy", revision="v2")
    assert lx.load_energy(energy) is energy
    model, tokenizer = (auto.from_pretrained("gpt2") for auto in (AutoModelForCausalLM, AutoTokenizer))
    lm = lx.load_proposal((model, tokenizer))
    assert lm.lm.model is model
    assert isinstance(lx.load_energy((model, tokenizer), kind="lm"), LM)
    with pytest.raises(LexergyError, match="does not say what it is meant as: give kind=, one of lm"):
        lx.load_energy((model, tokenizer))


@pytest.mark.parametrize(
    ("source", "kind", "said"),
    [
        ("bag", None, "is a kind of energy .*, not one that exists yet"),
        ("gpt2", None, "'gpt2' is no saved energy .* kind=, one of lm"),
        ("no/such-energy", None, "is no saved energy"),
        ("gpt2", "lmm", "Unknown kind of energy 'lmm'. Did you mean 'lm'"),
        ("bert-base-uncased", "lm", "looks ahead, so it is no language model"),
        ("no/such-model", "lm", "There is no model at 'no/such-model'"),
        ("texts", None, "'texts' is no saved energy"),
    ],
    ids=range(7),
)
def test_what_is_no_energy_is_said(hub: Path, source: str, kind: str | None, said: str) -> None:
    with pytest.raises(LexergyError, match=said):
        lx.load_energy(source, kind)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (EntryNotFoundError("404"), "'a/b' is no saved energy .there is no energy.json.. If it is a checkpoint"),
        (LocalEntryNotFoundError("offline"), "is no saved energy that this machine has .*the Hub was not reached"),
        (OSError("401: this one is gated.\nMore"), "'a/b' was not read from the Hub: 401: this one is gated. If"),
    ],
    ids=["no such file", "offline", "gated"],
)
def test_what_the_hub_says_is_told_apart(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    def fails(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fails)
    with pytest.raises(LexergyError, match=said):
        lx.load_energy("a/b")


def test_a_saved_energy_writes_no_text(tmp_path: Path) -> None:
    transformer.tiny().save_pretrained(tmp_path / "energy")
    lm = causal.tiny()
    lm.lm.model.save_pretrained(tmp_path / "energy")  # what a folder of both kinds would be loaded as
    lm.tokenizer.save_pretrained(tmp_path / "energy")
    with pytest.raises(LexergyError, match="holds a saved energy, which judges texts and writes none"):
        lx.load_proposal(tmp_path / "energy")


def test_any_function_is_an_energy() -> None:
    energy = lx.as_energy(lambda texts: [float(len(text)) for text in texts])
    assert energy.score(["ab", "a"], context="c") == [3, 2]


def test_importing_the_package_loads_no_torch() -> None:
    code = "import sys, lexergy; print({'torch', 'transformers', 'numpy', 'typer'} & set(sys.modules), dir(lexergy))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"set() {sorted(dir(lx))}\n"


def test_every_public_name_is_there() -> None:
    assert set(lx.__all__) == {*lx._HOMES, "__version__"}
    assert set(lx.__all__) < set(dir(lx))
    assert all(getattr(lx, name) is not None for name in dir(lx))
    assert lx.contracts.check is not None
    with pytest.raises(AttributeError, match="has no attribute 'Joints'"):
        _ = lx.Joints


def test_weights_that_are_pickled_are_refused(tmp_path: Path) -> None:
    lm = causal.tiny()
    lm.lm.model.save_pretrained(tmp_path)
    lm.tokenizer.save_pretrained(tmp_path)
    assert lx.load_proposal(tmp_path).lm.vocabulary == lm.lm.vocabulary
    (tmp_path / "model.safetensors").unlink()
    torch.save(lm.lm.model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(LexergyError, match="safetensors"):
        lx.load_proposal(tmp_path)


@pytest.mark.parametrize("option", [{"device": "cuda"}, {"revision": "v2"}, {"attn_implementation": "eager"}])
def test_a_model_object_is_taken_as_it_is(option: dict[str, str]) -> None:
    lm = causal.tiny().lm
    with pytest.raises(LexergyError, match=next(iter(option))):
        lx.load_proposal((lm.model, lm.tokenizer), **option)
    assert lx.load_proposal((lm.model, lm.tokenizer), device="cpu").lm.model is lm.model


def test_weights_that_are_missing_are_never_made_up_in_silence(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    tokenizer = causal.tiny().tokenizer
    LlamaModel(LlamaConfig(vocab_size=len(tokenizer), tie_word_embeddings=False, **sizes)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(LexergyError, match=r"lack 'lm_head.weight'"):
        lx.load_proposal(tmp_path)
    BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(tmp_path / "encoder")
    tokenizer.save_pretrained(tmp_path / "encoder")
    # What only a pooler lacks, which nothing reads, is the same at each reading: a resumed run knows its energy again.
    first, again = (started(tmp_path / "encoder", None, "tiny", 0) for _ in range(2))
    assert fingerprint(first) == fingerprint(again)

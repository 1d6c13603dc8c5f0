"""A language model whose output is padded beyond its tokenizer (Pythia, Qwen): what is padded can be drawn, and energies
that are made for it know it."""

import dataclasses
from pathlib import Path

import pytest
import torch

from lexergy.core.errors import LexergyError
from lexergy.core.types import Tokens
from lexergy.energies.base import Energy
from lexergy.energies.lm import LM
from lexergy.energies.transformer import Transformer
from lexergy.engine.load import load
from lexergy.joint import Joint
from lexergy.loading import load_energy
from lexergy.nets.transformer import TransformerForCausalLM
from lexergy.proposals.causal import Causal
from lexergy.training.energy import train_energy
from lexergy.training.mine import mine
from lexergy.training.start import started

PADDING = 500


@pytest.fixture
def lm(tiny) -> Causal:
    """The small language model, most of whose ids its tokenizer has not."""
    loaded = load(tiny.lm, "causal", device="cpu", dtype="float32")
    config = type(loaded.model.config)(
        **{**loaded.model.config.to_dict(), "vocab_size": len(loaded.tokenizer) + PADDING}
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TransformerForCausalLM(config).eval()
    return Causal(dataclasses.replace(loaded, model=model))


@pytest.mark.parametrize("start", ["bag", None])
def test_an_energy_is_mined_for_trained_saved_and_used(start: str | None, lm: Causal, tiny, tmp_path: Path) -> None:
    known = len(lm.tokenizer)
    found = mine(lm, tiny.corpus, tmp_path / "set", 2, 8, 6, space="fixed", seed=0, limit=16, quiet=True)
    assert found.vocabulary == lm.lm.vocabulary == known + PADDING
    assert int(found.negatives.flat.max()) >= known
    energy = train_energy(
        found, start=start, size="tiny", steps=1, batch=4, negatives=1, seed=0, quiet=True, fit_scale=False
    )
    assert energy.vocabulary == known + PADDING
    out = Joint(lm, energy, space="fixed", length=6).sample("river", n=8, seed=0)
    assert int(out.tokens.ids.max()) >= known
    energy.save_pretrained(tmp_path / "energy")
    again = load_energy(str(tmp_path / "energy"), device="cpu", dtype="float32")
    torch.testing.assert_close(again.of_tokens(out.tokens), out.energy, atol=1e-5, rtol=0)


def test_ids_that_an_energy_does_not_know_are_refused(lm: Causal) -> None:
    bag, network = (started(start, lm.tokenizer, "tiny", 0) for start in ("bag", None))
    assert isinstance(network, Transformer)
    known = len(lm.tokenizer)
    energies: list[Energy] = [bag, network, 0.5 * bag, bag + network]
    for energy in energies:
        assert energy.vocabulary == known
        energy.of_tokens(Tokens.of([[known - 1]]))
        for ids in ([5, known], [-1]):
            with pytest.raises(LexergyError, match=f"this energy knows {known}"):
                energy.of_tokens(Tokens.of([ids]))
    assert LM(load((lm.lm.model, lm.tokenizer), "causal")).vocabulary == known + PADDING
    # What is padding is not looked at.
    padded = Tokens.of([[5], [5, 6]], pad=known + PADDING)
    assert bag.of_tokens(padded).shape == (2,)

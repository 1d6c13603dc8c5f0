"""An empty prompt and an empty context stand for the same token, so that a text scores as it was weighed when drawn."""

import pytest
import torch

from families import byte_level, causal, word_piece
from lexergy.core.random import seeded
from lexergy.core.types import Tokens
from lexergy.energies.base import Energy
from lexergy.energies.lm import LM
from lexergy.energies.retokenised import Retokenised
from lexergy.energies.transformer import Transformer
from lexergy.engine.load import Loaded
from lexergy.engine.probe import plan
from lexergy.joint import Joint
from lexergy.nets.transformer import TransformerModel, preset
from lexergy.proposals.causal import Causal


def reader(bos: bool = False) -> Transformer:
    """An energy over the language models' own tokens, whose every number depends on what stands first."""
    tokenizer = byte_level(bos=bos)
    config = preset("tiny", vocab_size=len(tokenizer), hidden_size=16, num_attention_heads=2, causal=False)
    with seeded(0, "reader"):
        trunk = TransformerModel(config).double().eval()
        energy = Transformer(Loaded(trunk, tokenizer, plan(device="cpu"), "reader", "object"))
        torch.nn.init.normal_(energy.head.weight)
    trunk.get_input_embeddings().get_parameter("weight").data.mul_(30)
    return energy


@pytest.mark.parametrize("prompt", ["", "so "])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_text_scores_as_it_was_weighed(family: str, prompt: str) -> None:
    lm = Causal(causal(family))
    energy = reader(bos=lm.tokenizer.bos_token_id is not None)
    out = Joint(lm, energy, space="fixed", length=3).sample(prompt, n=400, seed=0)
    texts = [text.replace("\0", "") for text in out.texts]  # which no text may hold
    again = [ids for ids, _, _ in lm.encode(texts, prompt)]
    same = [row for row in range(len(out)) if again[row] == out.tokens.real(row)]
    assert len(same) >= 4
    found = energy.score([out.texts[row] for row in same], prompt)
    assert found == pytest.approx(out.energy[same].tolist(), abs=1e-6)


def test_what_stands_for_nothing_is_read_and_not_modelled() -> None:
    energy, tokenizer = reader(), byte_level()
    (empty,) = energy.encode(["it"], [""])
    assert (empty.ids[0], empty.free_from, empty.free_to) == (tokenizer.eos_token_id, 1, len(empty.ids))
    (given,) = energy.encode(["it"], ["so "])
    assert tokenizer.eos_token_id not in given.ids


@pytest.mark.parametrize("family", ["gpt2", "ours backwards"])
def test_other_tokens_start_as_the_text_does(family: str) -> None:
    part: Energy = LM(causal(family))
    read = Retokenised(part, word_piece())
    ids = word_piece()("a river in winter", add_special_tokens=False)["input_ids"]
    whole = Tokens.of([ids])
    assert read.of_tokens(whole).tolist() == pytest.approx(part.score(["a river in winter"]), abs=1e-4)
    cut = len(word_piece()("a river", add_special_tokens=False)["input_ids"])
    if part.direction == "left_to_right":
        tokens, text, context = Tokens.of([ids], [cut]), " in winter", "a river"
    else:
        tokens, text, context = Tokens.of([ids]), "a river", " in winter"
        tokens.free[:, cut:] = False
    assert read.of_tokens(tokens).tolist() == pytest.approx(part.score([text], context), abs=1e-4)

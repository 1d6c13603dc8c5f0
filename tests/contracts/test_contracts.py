"""Every component of every room keeps the law that it declares. A new file in a room appears here by
itself."""

from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from lexergy import catalog, contracts
from lexergy.core import random
from lexergy.core.errors import LexergyError
from lexergy.core.laws import LAWS
from lexergy.core.toy import LETTERS, Universe, energies
from lexergy.energies.function import Function
from lexergy.engine.load import Loaded
from lexergy.engine.probe import plan
from lexergy.nets.transformer import TransformerForCausalLM, preset
from lexergy.proposals import causal
from lexergy.proposals.causal import Causal
from lexergy.text.tokenisers import character_tokenizer, train_tokenizer

COMPONENTS = [(room, name) for room in LAWS for name in catalog.available(room)]


@pytest.mark.parametrize(("room", "name"), COMPONENTS, ids=[f"{room}/{name}" for room, name in COMPONENTS])
def test_component_keeps_its_law(room: str, name: str) -> None:
    contracts.check_component(room, name)


def _random(tokenizer: PreTrainedTokenizerBase, **options: Any) -> Causal:
    config = preset(
        "tiny",
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_attention_heads=2,
        eos_token_id=tokenizer.eos_token_id,
        **options,
    )
    with random.seeded(0, "contract"):
        model = TransformerForCausalLM(config).double().eval()
    for weight in model.parameters():
        weight.data *= 8 if weight.dim() == 2 else 1
    return Causal(Loaded(model, tokenizer, plan(), "random", "object"))


def test_right_to_left_proposal_keeps_its_law() -> None:
    contracts.check(_random(character_tokenizer(LETTERS), direction="right_to_left"))


def test_proposal_over_a_vocabulary_too_large_to_sum_keeps_its_law() -> None:
    contracts.check(_random(train_tokenizer(["ab ca", "bca"], 262)))


def test_proposal_in_which_every_token_ties_keeps_its_law() -> None:
    tied = causal.tiny()
    with torch.no_grad():
        tied.lm.model.get_output_embeddings().weight.zero_()  # type: ignore[union-attr]
    contracts.check(tied)


def test_float32_proposal_keeps_its_law() -> None:
    lm = causal.tiny().lm
    contracts.check(Causal(Loaded(lm.model.float(), lm.tokenizer, lm.plan, "tiny", "object")))


def test_function_of_texts_without_a_tokenizer_is_checked() -> None:
    contracts.check(Function(lambda texts: [float(len(t)) for t in texts]))
    contracts.check(Function(lambda texts: [float("inf") if "aa" in t else 1.0 * len(t) for t in texts]))


def test_what_has_no_contract_is_refused() -> None:
    with pytest.raises(LexergyError, match="no contract for a Tensor"):
        contracts.check(energies(Universe(2, 2), 0))


def test_room_and_law_are_checked_against_what_was_given() -> None:
    with pytest.raises(LexergyError, match="belongs to proposals"):
        contracts.check(causal.tiny(), room="energies")
    with pytest.raises(LexergyError, match="Unknown law of proposals"):
        contracts.check(causal.tiny(), law="exact drawing")

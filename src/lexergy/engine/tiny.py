"""A random language model over the toy alphabet, in float64: what the `tiny()` of each component that holds one is made of."""

from lexergy.core import toy
from lexergy.core.random import seeded
from lexergy.engine.load import Loaded
from lexergy.engine.probe import plan
from lexergy.nets.transformer import TransformerForCausalLM, preset
from lexergy.text.tokenisers import character_tokenizer


def tiny_language_model(name: str) -> Loaded:
    """One of width 16. Another name gives other weights."""
    tokenizer = character_tokenizer(toy.LETTERS)
    config = preset(
        "tiny",
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_attention_heads=2,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
    )
    with seeded(0, name):
        model = TransformerForCausalLM(config).double().eval()
    # Fresh weights give nearly uniform laws that read the last token only: a wrong law or position would go unnoticed.
    for weight in model.parameters():
        weight.data *= 8 if weight.dim() == 2 else 1
    return Loaded(model, tokenizer, plan(device="cpu"), "tiny", "object")

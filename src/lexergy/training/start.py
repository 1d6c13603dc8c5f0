"""Where the training of an energy starts: a fresh network, a pretrained one, the language model's own trunk, a bag of
tokens, or an energy that was trained before.
"""

import copy
from pathlib import Path
from typing import get_args

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy import catalog
from lexergy.core.errors import LexergyError, unknown
from lexergy.core.random import seeded
from lexergy.energies import saved
from lexergy.energies.bag import Bag
from lexergy.energies.base import Energy
from lexergy.energies.scaled import Scaled
from lexergy.energies.transformer import Pooling, Transformer
from lexergy.engine.load import Loaded, load
from lexergy.engine.probe import Shape, plan
from lexergy.nets.transformer import Block, TransformerModel, preset

Start = str | Path | tuple[PreTrainedModel, PreTrainedTokenizerBase] | None

DROPOUT = 0.1
"""In transformers of ours, where nothing else is asked for: mined texts would else be learnt by heart."""


def started(
    start: Start,
    tokenizer: PreTrainedTokenizerBase | None,
    size: str,
    seed: int,
    *,
    causal: bool | None = None,
    pooling: str = "mean",
    dropout: float | None = None,
    device: str | None = None,
    vocabulary: int = 0,
) -> Energy:
    """The energy before training. `tokenizer`: that of the texts, if they come as tokens; `vocabulary`: how many ids may
    be among them, where the language model's output is padded beyond its tokenizer.

    causal and dropout (None: as it was made; a fresh one looks both ways) change transformers of ours only.
    """
    if pooling not in get_args(Pooling):
        raise unknown("pooling", pooling, get_args(Pooling))
    if dropout is not None and not 0 <= dropout < 1:
        raise LexergyError(f"dropout lies between 0 and 1; received {dropout}.")
    if start is None or is_bag(start):
        if tokenizer is None:
            raise LexergyError(
                "Your own pairs come without a tokenizer, so the energy must start from a network: start= a folder or "
                "a Hub id."
            )
        if start is None:
            return _fresh(tokenizer, max(len(tokenizer), vocabulary), size, seed, bool(causal), pooling, dropout)
        if causal is not None or dropout is not None:
            raise LexergyError("A bag of tokens knows no order and no dropout: leave causal and dropout out.")
        return Bag(tokenizer, vocabulary)
    if isinstance(start, tuple):
        # A model object is never changed in place: what is trained is a copy, with float32 masters.
        model, own = start
        trunk: PreTrainedModel = copy.deepcopy(model.base_model)  # type: ignore[assignment]
        loaded = load((trunk.float(), own), "trunk")
    elif saved.is_saved(Path(start)):
        return _again(saved.read(Path(start), device=device, dtype="float32"), causal, dropout)
    elif not Path(start).exists() and str(start) in catalog.available("energies"):
        raise LexergyError(
            f"A {start} energy is not started from its name. Give a network's folder or Hub id, start='bag', or leave "
            "start out for a fresh transformer."
        )
    else:
        loaded = load(start, "trunk", device=device, dtype="float32")
    _change(loaded.model, loaded.name, causal, dropout)
    special = "all" if loaded.tokenizer.cls_token_id is not None else "bos"
    with seeded(seed, "energy head"):
        return Transformer(loaded, pooling=pooling, special=special)  # type: ignore[arg-type]


def is_bag(start: Start) -> bool:
    """Whether a bag of tokens is meant: a folder of that name comes first."""
    return start == "bag" and not Path("bag").exists()


def _fresh(
    tokenizer: PreTrainedTokenizerBase,
    vocabulary: int,
    size: str,
    seed: int,
    causal: bool,
    pooling: str,
    dropout: float | None,
) -> Transformer:
    chosen = DROPOUT if dropout is None else dropout
    config = preset(size, vocab_size=vocabulary, causal=causal, dropout=chosen)
    with seeded(seed, "fresh energy"):
        trunk = TransformerModel(config)
        loaded = Loaded(trunk, tokenizer, plan(Shape.of(config), dtype="float32"), "fresh", "object")
        return Transformer(loaded, pooling=pooling)  # type: ignore[arg-type]


def _again(energy: Energy, causal: bool | None, dropout: float | None) -> Energy:
    """An energy that was trained before, head and all; its factor is fitted anew."""
    while isinstance(energy, Scaled):
        energy = energy.part
    if isinstance(energy, Transformer):
        _change(energy.trunk, "The energy's network", causal, dropout)
    elif not isinstance(energy, Bag):
        raise LexergyError(
            f"A {type(energy).__name__} is not trained by this. Start from a network, a bag, or an energy made of one."
        )
    return energy


def _change(model: PreTrainedModel, name: str, causal: bool | None, dropout: float | None) -> None:
    """A transformer of ours looking the other way, or with dropout; other families keep what they were made with."""
    if not isinstance(model, TransformerModel):
        if dropout is not None or causal is not None:
            raise LexergyError(
                f"{name} keeps the direction and the dropout that it was made with; causal and dropout are chosen for "
                "transformers of ours only. Leave them out."
            )
        return
    chosen = DROPOUT if dropout is None else dropout
    model.config.dropout = chosen
    if causal is not None:
        model.config.causal = causal
    for block in model.blocks:
        assert isinstance(block, Block)
        block.dropout, block.causal = chosen, model.config.causal

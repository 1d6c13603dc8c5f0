"""Training a language model by maximum likelihood: −(1/N) Σ log P(x_t | x_<t) over documents joined by EOS, either way.

Only the trunk runs over a batch; where its states meet the vocabulary the objective takes over, in chunks.
*Requirements*: a family whose logits are its states times its output matrix, which most are.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy.core import files
from lexergy.core.errors import LexergyError
from lexergy.core.random import seeded
from lexergy.core.types import Direction
from lexergy.engine.language_model import plain_head
from lexergy.engine.load import fingerprint, quiet
from lexergy.engine.probe import Shape
from lexergy.nets.transformer import TransformerForCausalLM, preset
from lexergy.objectives.lm import lm as lm_loss
from lexergy.text.document import Document
from lexergy.training.corpus_batches import Sequences, token_stream
from lexergy.training.history import History
from lexergy.training.loop import fit
from lexergy.training.settings import Settings

VALIDATION_TOKENS = 65_536
"""Held-out tokens that a validation reads: its error is far below what a step changes."""


def new_lm(
    tokenizer: PreTrainedTokenizerBase, size: str, direction: Direction, seed: int, **changes: Any
) -> PreTrainedModel:
    """A fresh language model of a size, over a tokenizer's vocabulary."""
    ids = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = preset(size, vocab_size=len(tokenizer), direction=direction, **ids, **changes)
    with seeded(seed, "new lm"):
        return TransformerForCausalLM(config)


def train_lm(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    documents: Iterable[Document],
    held_out: Iterable[Document],
    settings: Settings,
    length: int = 256,
    batch: int = 16,
    out: Path | None = None,
    resume: bool = True,
) -> History:
    """Train a causal language model in place; with `out`, checkpoint there and leave the finished model in out/model."""
    eos = tokenizer.eos_token_id
    if not isinstance(eos, int):
        raise LexergyError(
            "This tokenizer has no EOS token, which separates documents. Train one here, or set eos_token."
        )
    if plain_head(model) is None:
        raise LexergyError(
            f"A {type(model).__name__} changes its logits after the output matrix, or has none, which is not trained here. "
            "Train it elsewhere and load the checkpoint."
        )
    direction: Direction = getattr(model.config, "direction", "left_to_right")
    sequences = Sequences(token_stream(documents, tokenizer, eos, direction), length, batch, settings.seed)
    held = Sequences(token_stream(held_out, tokenizer, eos, direction), length, 1, settings.seed)
    check = held.in_order(max(1, VALIDATION_TOKENS // length))

    def validate(network: nn.Module) -> dict[str, float]:
        losses = [float(network(part.to(model.device))[0]) * len(part) for part in check.split(batch)]
        loss = torch.tensor(sum(losses) / len(check), dtype=torch.float64)
        return {"loss": float(loss), "perplexity": float(loss.exp())}

    identity = {"model": fingerprint(model), "length": length, "batch": batch, "text": sequences.hash}
    network = likelihood_step(model)
    shape = Shape.of(model.config)
    history = fit(network, _loss_of, sequences, settings, out, validate, resume, identity=identity, shape=shape)
    if out is not None and history.ended != "stopped":
        save_model(model, tokenizer, out / "model")
    return history


class _Likelihood(nn.Module):
    """Mean −log P a token of a batch of sequences; the last id of each is a target only. A module, so that the loop's
    wrappers (several processes, compiled regions) see one forward pass."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        states = self.model.base_model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        head = self.model.get_output_embeddings()
        weight, bias = head.weight, getattr(head, "bias", None)  # type: ignore[union-attr]
        targets = ids[:, 1:]
        return lm_loss(states, weight, targets, torch.ones_like(targets, dtype=torch.bool), bias)


def likelihood_step(model: PreTrainedModel) -> nn.Module:
    """A model as what the loop trains: ids in, (loss, metrics) out."""
    return _Likelihood(model)


def _loss_of(network: nn.Module, ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    return network(ids)


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Model and tokenizer in one folder, whole or not at all."""
    with files.atomic(folder) as draft, quiet():
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)

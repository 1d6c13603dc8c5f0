"""A network's states, pooled, to a number: E(x) = w · pool_t h_t(c, x) + b. UNIT (causal) and BIT (bidirectional) of the
generation paper, section 4.1; UniTransf and BiTransf of the discrimination paper.

Any Hugging Face trunk, or one of ours, from scratch or started from a pretrained one. `mean` pools the states of the free
tokens, `first` takes the first position's.

Requirements: rows of at most `longest` tokens. A bidirectional trunk needs one that looks both ways: an encoder, or a
transformer of ours loaded with causal=False.

Relations: equals a bag of tokens when the trunk is its embedding and pooling is a sum. The head starts at zero, so that a
fresh energy changes nothing: Z = 1, and the joint model is the language model.

Example:

    energy = Transformer(load("runs/lm", "trunk"))

Not to be confused with: a sequence classifier's logit, which is minus this energy.
"""

from pathlib import Path
from typing import Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy.core import files, random, toy
from lexergy.core.errors import LexergyError
from lexergy.core.types import Tokens
from lexergy.energies.base import Energy
from lexergy.engine.load import Loaded, load, quiet
from lexergy.engine.probe import Plan, plan
from lexergy.nets.transformer import TransformerModel, preset
from lexergy.text.joint import Special
from lexergy.text.tokenisers import character_tokenizer

Pooling = Literal["mean", "first"]


@final
class Transformer(Energy):
    """A trunk and a linear head."""

    def __init__(self, loaded: Loaded, pooling: Pooling = "mean", special: Special = "bos") -> None:
        super().__init__()
        if pooling not in ("mean", "first"):
            raise LexergyError(f'pooling is "mean" or "first"; received {pooling!r}.')
        self.trunk: PreTrainedModel = loaded.model
        self.tokenizer: PreTrainedTokenizerBase = loaded.tokenizer
        self.pooling: Pooling = pooling
        self.special: Special = special  # type: ignore[misc]
        self._plan = loaded.plan
        self.head = nn.Linear(self.trunk.config.hidden_size, 1, device=self.trunk.device, dtype=self.trunk.dtype)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @property
    def plan(self) -> Plan:
        return self._plan

    @property
    def longest(self) -> int | None:
        limit = getattr(self.trunk.config, "max_position_embeddings", None)
        # RoBERTa's family counts its positions from behind the padding id.
        first = getattr(self.trunk.embeddings, "padding_idx", None) if "embeddings" in self.trunk._modules else None
        shifted = self.trunk.config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet")
        return limit - (first or 1) - 1 if limit and shifted else limit

    def states(self, tokens: Tokens) -> Float[Tensor, "batch time width"]:
        """The trunk's last states; rows are left-aligned, so that default positions are right for every family."""
        device = self.trunk.device
        ids, mask = tokens.ids.to(device), tokens.mask.to(device)
        attention = None if bool(tokens.mask.all()) else mask.long()
        return self.trunk(input_ids=ids, attention_mask=attention).last_hidden_state

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        tokens = tokens.left_aligned()
        states = self.states(tokens)
        if self.pooling == "first":
            pooled = states[:, 0]
        else:
            free = (tokens.free & tokens.mask).to(states.device)[..., None]
            # Sums over positions in float32 or better; an empty text has no states to pool and gets the bias alone.
            wide = torch.promote_types(states.dtype, torch.float32)
            pooled = (states.to(wide) * free).sum(1) / free.sum(1).clamp(min=1)
        return self.head(pooled.to(self.head.weight.dtype)).squeeze(-1).to(torch.promote_types(states.dtype, torch.float32))

    def config(self) -> dict[str, Any]:
        return {"pooling": self.pooling, "special": self.special}

    def save_parts(self, folder: Path) -> None:
        with quiet():
            self.trunk.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        files.write_tensors(folder / "head.safetensors", {"weight": self.head.weight, "bias": self.head.bias})

    @classmethod
    def load(cls, folder: Path, config: dict[str, Any], **options: Any) -> "Transformer":
        energy = cls(load(folder, "trunk", **options), **config)
        files.load_state(energy.head, files.read_tensors(folder / "head.safetensors"), folder / "head.safetensors")
        return energy


def tiny() -> Transformer:
    """A random bidirectional trunk over the toy alphabet."""
    tokenizer = character_tokenizer(toy.LETTERS)
    config = preset("tiny", vocab_size=len(tokenizer), hidden_size=16, num_attention_heads=2, causal=False)
    with random.seeded(0, "tiny transformer energy"):
        trunk = TransformerModel(config).double().eval()
        energy = Transformer(Loaded(trunk, tokenizer, plan(), "tiny", "object"))
        nn.init.normal_(energy.head.weight)
    # Fresh embeddings are so small that every text would score alike.
    trunk.get_input_embeddings().get_parameter("weight").data.mul_(20)
    return energy

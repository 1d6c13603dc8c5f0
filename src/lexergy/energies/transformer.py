"""A network's states, pooled, to a number: E(x) = w · pool_t h_t(c, x) + b. UNIT (causal) and BIT (bidirectional) of
the generation paper, section 4.1; UniTransf and BiTransf of the discrimination paper.

Any Hugging Face trunk, or one of ours, from scratch or started from a pretrained one. `mean` pools the states of the
free tokens, `first` takes the first position's.

Requirements: rows of at most `longest` tokens. A bidirectional trunk needs one that looks both ways: an encoder, or a
transformer of ours loaded with causal=False.

Relations: equals a bag of tokens when the trunk is its embedding and pooling is a sum. The head starts at zero, so that
a fresh energy changes nothing: Z = 1, and the joint model is the language model.

Example:

    energy = Transformer(load("runs/lm", "trunk"))

Not to be confused with: a sequence classifier's logit, which is minus this energy.
"""

from pathlib import Path
from typing import Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from lexergy.core import files, random, toy
from lexergy.core.errors import LexergyError
from lexergy.core.types import Tokens
from lexergy.energies.base import Energy
from lexergy.engine.load import Loaded, load, positions, quiet
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
        self.tokenizer = loaded.tokenizer
        self.pooling: Pooling = pooling
        self.special: Special = special  # type: ignore[misc]
        self._plan = loaded.plan
        width = self.trunk.config.get_text_config().hidden_size
        self.head = nn.Linear(width, 1, device=self.trunk.device, dtype=self.trunk.dtype)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @property
    def plan(self) -> Plan:
        return self._plan

    @property
    def longest(self) -> int | None:
        return positions(self.trunk)

    @property
    def vocabulary(self) -> int | None:
        return self.trunk.get_input_embeddings().get_parameter("weight").shape[0]

    def states(self, tokens: Tokens) -> Float[Tensor, "batch time width"]:
        """The trunk's last states; rows are left-aligned, so that default positions are right for every family."""
        device = self.trunk.device
        ids, mask = tokens.ids.to(device), tokens.mask.to(device)
        attention = None if bool(tokens.mask.all()) else mask.long()
        return self.trunk(input_ids=ids, attention_mask=attention).last_hidden_state

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        tokens = tokens.left_aligned()
        wide = torch.promote_types(self.head.weight.dtype, torch.float32)
        if tokens.ids.shape[1] == 0:
            return self.head.bias.to(wide).expand(len(tokens))
        states = self.states(tokens)
        # A text with nothing to pool gets the bias alone.
        if self.pooling == "first":
            pooled = states[:, 0].to(wide).masked_fill(~tokens.mask[:, :1].to(states.device), 0)
        else:
            free = (tokens.free & tokens.mask).to(states.device)[..., None]
            # Summed in float32 or better, but never held so: the states are the largest thing here.
            pooled = states.masked_fill(~free, 0).sum(1, dtype=wide) / free.sum(1).clamp(min=1)
        # Not the head's own product: this one stays in float32 under autocast and over bf16 weights, where an energy
        # of ten would else be rounded to the nearest 0.06.
        return (pooled * self.head.weight[0]).sum(-1) + self.head.bias[0]

    def config(self) -> dict[str, Any]:
        return {"pooling": self.pooling, "special": self.special}

    def save_parts(self, folder: Path) -> None:
        with quiet():
            self.trunk.save_pretrained(folder)
        assert self.tokenizer is not None
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

"""A bag of tokens: E(x) = Σ_{t free} w[x_t] + b. The Linear energy of the discrimination paper (section 4.2).

It knows no order, so it is the floor that any other energy must beat; training takes seconds.

Relations: a residual model with this energy re-weighs the words of a language model, one factor a token.

Example:

    energy = Bag(tokenizer)
    lx.train_energy(mined, start="bag")
"""

from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexergy.core import files, random, toy
from lexergy.core.types import Tokens
from lexergy.energies.base import Energy
from lexergy.text.tokenisers import character_tokenizer, load_tokenizer


@final
class Bag(Energy):
    """One number a vocabulary item, summed over the free tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, vocabulary: int | None = None) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        # A language model's output may be padded beyond its tokenizer, and what is padded can be drawn.
        self.weight = nn.Parameter(torch.zeros(max(len(tokenizer), vocabulary or 0)))
        self.bias = nn.Parameter(torch.zeros(()))

    @property
    def vocabulary(self) -> int:
        return len(self.weight)

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        device = self.weight.device
        values = self.weight[tokens.ids.to(device)]
        return (values * (tokens.free & tokens.mask).to(device)).sum(1) + self.bias

    def score_tokens(self, text: str, context: str = "") -> list[tuple[str, float]]:
        one = self.encode([text], [context])[0]
        values = self.weight.detach()[one.free_ids].tolist()
        return [((context + text)[a:b], v) for (a, b), v in zip(one.offsets[one.free_from :], values, strict=False)]

    def config(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary}

    def save_parts(self, folder: Path) -> None:
        files.write_tensors(folder / "bag.safetensors", dict(self.named_parameters()))
        assert self.tokenizer is not None
        self.tokenizer.save_pretrained(folder)

    @classmethod
    def load(cls, folder: Path, config: dict[str, Any], **options: Any) -> "Bag":  # noqa: ARG003  nothing to place
        energy = cls(load_tokenizer(folder), **config)
        files.load_state(energy, files.read_tensors(folder / "bag.safetensors"), folder / "bag.safetensors")
        return energy


def tiny() -> Bag:
    """Random weights over the toy alphabet."""
    energy = Bag(character_tokenizer(toy.LETTERS)).double()
    with random.seeded(0, "tiny bag"):
        nn.init.normal_(energy.weight)
        nn.init.normal_(energy.bias)
    return energy

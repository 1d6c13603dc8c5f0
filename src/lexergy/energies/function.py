"""Any function of texts as an energy: E(x) = f(context + x). A rule, a verifier, a remote scorer, a lambda.

The function sees each whole text, context included, as a list of strings, and returns a number for each; +inf forbids a text.

Relations: with f = −r/β for a reward r, a joint model over it is the optimum of KL-regularised reinforcement learning.

Example:

    energy = lx.as_energy(lambda texts: [0.1 * len(t) for t in texts])
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core import toy
from lexergy.core.errors import LexergyError
from lexergy.core.finite import check_energies
from lexergy.core.types import Tokens
from lexergy.energies.base import BLOCK, Energy, Windows, named, paired
from lexergy.text.tokenisers import character_tokenizer, decode


@final
class Function(Energy):
    """f, and the tokenizer by which tokens become its texts."""

    law = "constraint"  # nothing is known of f: it may forbid

    def __init__(
        self, function: Callable[[list[str]], Sequence[float]], tokenizer: PreTrainedTokenizerBase | None = None
    ) -> None:
        super().__init__()
        self.function, self.tokenizer = function, tokenizer

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        if self.tokenizer is None:
            raise LexergyError("A function of texts needs a tokenizer to read tokens: use energy.reading(tokenizer).")
        texts = [decode(self.tokenizer, tokens.real(row)) for row in range(len(tokens))]
        return self._call(texts).to(tokens.ids.device)

    def reading(self, tokenizer: PreTrainedTokenizerBase) -> Energy:
        return Function(self.function, tokenizer)

    def score(
        self, texts: Sequence[str], context: str | Sequence[str] = "", windows: Windows | None = None
    ) -> list[float]:
        texts, contexts = paired(texts, context)
        if windows is not None:
            raise LexergyError("A function of whole texts takes no windows. Leave windows out.")
        found: list[float] = []
        for start in range(0, len(texts), BLOCK):
            block = [c + t for c, t in zip(contexts[start : start + BLOCK], texts[start : start + BLOCK], strict=True)]
            values = self._call(block)
            check_energies(values, named(block, start), forbid=True)
            found += values.tolist()
        return found

    def _call(self, texts: list[str]) -> Float[Tensor, "batch"]:
        given: Any = self.function(texts)
        values = torch.as_tensor(given, dtype=torch.float64).detach().cpu()
        if values.shape != (len(texts),):
            raise LexergyError(
                f"An energy function returns one number a text: for {len(texts)} texts it returned shape {tuple(values.shape)}."
            )
        return values


def tiny() -> Function:
    """The length of a text plus how often it says the first letter."""
    return Function(
        lambda texts: [0.3 * len(t) + t.count(toy.LETTERS[0]) for t in texts], character_tokenizer(toy.LETTERS)
    )

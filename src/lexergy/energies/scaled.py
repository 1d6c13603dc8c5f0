"""A multiple of an energy: E(x) = a · E₁(x). With a = 1/τ, the same energy at temperature τ.

Relations: equals its part when a = 1. A negative factor turns likely into unlikely: meant for a reward given as an energy.

Example:

    softer = 0.5 * energy
"""

import math
from pathlib import Path
from typing import Any, final

from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.errors import LexergyError
from lexergy.core.types import Tokens
from lexergy.energies import bag
from lexergy.energies.base import Energy, Windows
from lexergy.energies.saved import read
from lexergy.engine.probe import Plan


@final
class Scaled(Energy):
    """a · E."""

    def __init__(self, part: Energy, factor: float) -> None:
        super().__init__()
        if not math.isfinite(factor):
            raise LexergyError(f"An energy is multiplied by a finite number; received {factor}.")
        self.part, self.factor = part, float(factor)
        self.tokenizer = part.tokenizer
        self.law = part.law
        if part.law == "constraint" and factor <= 0:
            raise LexergyError(f"A hard constraint (0 or +inf) times {factor} is no energy. Use a factor above 0.")

    @property
    def plan(self) -> Plan:
        return self.part.plan

    @property
    def longest(self) -> int | None:
        return self.part.longest

    @property
    def vocabulary(self) -> int | None:
        return self.part.vocabulary

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        return self.factor * self.part(tokens)

    def reading(self, tokenizer: PreTrainedTokenizerBase) -> Energy:
        return Scaled(self.part.reading(tokenizer), self.factor)

    def score(self, texts: Any, context: Any = "", windows: Windows | None = None) -> list[float]:
        return [self.factor * value for value in self.part.score(texts, context, windows)]

    def score_tokens(self, text: str, context: str = "") -> list[tuple[str, float]]:
        return [(token, self.factor * value) for token, value in self.part.score_tokens(text, context)]

    def config(self) -> dict[str, Any]:
        return {"factor": self.factor}

    def save_parts(self, folder: Path) -> None:
        (folder / "part").mkdir()
        self.part.write(folder / "part")

    @classmethod
    def load(cls, folder: Path, config: dict[str, Any], **options: Any) -> "Scaled":
        return cls(read(folder / "part", **options), config["factor"])


def tiny() -> Scaled:
    """Minus half of a bag of tokens."""
    return Scaled(bag.tiny(), -0.5)

"""A sum of energies: E(x) = Σ_i E_i(x); of the laws they stand for, the product.

The parts may read different tokens: each scores a text in its own. Over Tokens, all must read the same (`reading` sees to it).

Relations: order does not matter; a hard constraint among the parts makes the sum one.

Example:

    both = 0.4 * energy + other
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexergy.core.errors import LexergyError
from lexergy.core.types import Tokens
from lexergy.energies import bag
from lexergy.energies.base import Energy, Windows
from lexergy.energies.saved import read
from lexergy.engine.probe import Plan
from lexergy.text.tokenisers import same_vocabulary


@final
class Sum(Energy):
    """E₁ + E₂ + …; sums inside are taken apart."""

    def __init__(self, parts: Sequence[Energy]) -> None:
        super().__init__()
        flat = [inner for part in parts for inner in (part.parts if isinstance(part, Sum) else [part])]
        if not flat:
            raise LexergyError("A sum of no energies is none: give at least one part.")
        self.parts = nn.ModuleList(flat)
        self.law = "constraint" if any(part.law == "constraint" for part in self.energies) else "finite"
        readers = [part.tokenizer for part in self.energies if part.tokenizer is not None]
        one = bool(readers) and all(same_vocabulary(readers[0], other) for other in readers[1:])
        self.tokenizer = readers[0] if one else None

    @property
    def energies(self) -> list[Energy]:
        """The parts."""
        return [part for part in self.parts if isinstance(part, Energy)]

    @property
    def plan(self) -> Plan:
        # The most careful part decides how much goes through at once.
        return min((part.plan for part in self.energies), key=lambda plan: plan.tokens)

    @property
    def longest(self) -> int | None:
        return min((part.longest for part in self.energies if part.longest is not None), default=None)

    @property
    def vocabulary(self) -> int | None:
        return min((part.vocabulary for part in self.energies if part.vocabulary is not None), default=None)

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        # A part without a network of its own (a bag, say) may answer from another device than the tokens'.
        return torch.stack([part(tokens).double().to(tokens.ids.device) for part in self.energies]).sum(0)

    def reading(self, tokenizer: PreTrainedTokenizerBase) -> Energy:
        return Sum([part.reading(tokenizer) for part in self.energies])

    def score(self, texts: Any, context: Any = "", windows: Windows | None = None) -> list[float]:
        columns = [part.score(texts, context, windows) for part in self.energies]
        return [float(sum(row)) for row in zip(*columns, strict=True)]

    def config(self) -> dict[str, Any]:
        for part in self.energies:
            part.config()  # refuses here, before anything is written
        return {"parts": len(self.energies)}

    def save_parts(self, folder: Path) -> None:
        for number, part in enumerate(self.energies):
            (folder / f"part-{number}").mkdir()
            part.write(folder / f"part-{number}")

    @classmethod
    def load(cls, folder: Path, config: dict[str, Any], **options: Any) -> "Sum":
        return cls([read(folder / f"part-{number}", **options) for number in range(config["parts"])])


def tiny() -> Sum:
    """Two bags of tokens, one scaled."""
    return Sum([bag.tiny(), 0.5 * bag.tiny()])

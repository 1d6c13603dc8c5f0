"""A language model's own judgement: E(x) = −log P_LM(x | c), summed over the text's tokens.

Relations: with this energy at weight λ, a joint model over the same language model is P_LM^(1+λ), up to Z. It is a
normalised law by itself: Z = 1 over texts of that space.

Inputs: text is read as the model's own proposal reads it; for one that reads right to left, a context stands behind.

Example:

    energy = lx.load_energy("HuggingFaceTB/SmolLM2-135M", kind="lm")

Not to be confused with: the mean log-probability a token, which prefers short texts less and is no energy of a text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from jaxtyping import Float
from torch import Tensor

from lexergy.core.types import Tokens
from lexergy.energies.base import Energy, Windows
from lexergy.engine.language_model import LanguageModel
from lexergy.engine.load import Loaded, load, quiet
from lexergy.engine.probe import Plan
from lexergy.engine.tiny import tiny_language_model
from lexergy.text.joint import Encoded


@final
class LM(Energy):
    """Minus the log-likelihood."""

    def __init__(self, loaded: Loaded) -> None:
        super().__init__()
        self.lm = LanguageModel(loaded)
        self.network = loaded.model  # registered, so that evaluation mode and devices reach it
        self.tokenizer = loaded.tokenizer
        self.direction = self.lm.direction

    @property
    def plan(self) -> Plan:
        return self.lm.plan

    @property
    def longest(self) -> int | None:
        return self.lm.longest

    @property
    def vocabulary(self) -> int | None:
        return self.lm.vocabulary

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        return -self.lm.token_log_prob(tokens).double().sum(1)

    def encode(self, texts: Sequence[str], contexts: Sequence[str]) -> list[Encoded]:
        return self.lm.encode(texts, contexts)

    def _rows(self, one: Encoded, windows: Windows | None) -> list[tuple[list[int], int, int]]:
        longest, count = self.longest, len(one.ids)
        if longest is None or count <= longest:
            return super()._rows(one, windows)
        if self.lm.direction == "left_to_right":
            spans = _strided(one.free_from, one.free_to, longest)
            return [(one.ids[begin:end], at - begin, end - begin) for begin, at, end in spans]
        spans = _strided(count - one.free_to, count - one.free_from, longest)
        return [(one.ids[count - end : count - begin], 0, end - at) for begin, at, end in reversed(spans)]

    def _score_block(
        self,
        texts: list[str],
        contexts: list[str],
        windows: Windows | None,  # noqa: ARG002  whatever other energies do with them
    ) -> Float[Tensor, "batch"]:
        # Windows of a law are a sum over tokens: each is scored once.
        return super()._score_block(texts, contexts, "sum")

    def score_tokens(self, text: str, context: str = "") -> list[tuple[str, float]]:
        one = self.encode([text], [context])[0]
        whole = context + text if self.lm.direction == "left_to_right" else text + context
        found: list[float] = []
        for ids, start, end in self._rows(one, "sum"):
            tokens = Tokens.of([ids], [start])
            tokens.free[:, end:] = False
            found += (-self.lm.token_log_prob(tokens)[0, start:end]).tolist()
        offsets = one.offsets[one.free_from : one.free_to]
        return [(whole[a:b], value) for (a, b), value in zip(offsets, found, strict=True)]

    def config(self) -> dict[str, Any]:
        return {}

    def save_parts(self, folder: Path) -> None:
        assert self.tokenizer is not None
        with quiet():
            self.network.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @classmethod
    def load(cls, folder: Path, config: dict[str, Any], **options: Any) -> "LM":  # noqa: ARG003  nothing else to read
        return cls(load(folder, "causal", **options))


def _strided(free_from: int, free_to: int, longest: int) -> list[tuple[int, int, int]]:
    """Windows (begin, scored from, end) of at most `longest` tokens: each free token is scored once, after as much as
    fits of what stands before it, half a window at least."""
    spans: list[tuple[int, int, int]] = []
    at, stride = free_from, max(1, longest // 2)
    while at < free_to:
        end = min(free_to, longest if not spans and at < longest else at + stride)
        spans.append((max(0, end - longest), at, end))
        at = end
    return spans


def tiny() -> LM:
    """A random transformer over the toy alphabet."""
    return LM(tiny_language_model("tiny lm energy"))

"""An energy that reads other tokens than the language model: E(ids) = E'(tokenise(decode(ids))).

A pretrained encoder seldom shares the language model's vocabulary. Then the energy is a function of the decoded text of
the whole sequence, tokenised again: still one number for each token sequence, so every formula of a joint model holds.

Bytes that are no whole character are decoded with a replacement (a continuation can end inside a character), nothing is
stripped or normalised, and what is free is every token that overlaps the free characters.

Relations: equals its part wherever decoding and tokenising again gives the same ids.

Example:

    energy.reading(lm.tokenizer)          # wraps only where the vocabularies differ
"""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core import toy
from lexergy.core.errors import LexergyError
from lexergy.core.types import Tokens
from lexergy.energies import bag
from lexergy.energies.base import Energy, Windows
from lexergy.engine.probe import Plan
from lexergy.text.tokenisers import character_tokenizer, decode


@final
class Retokenised(Energy):
    """An energy over its own tokens, read through another tokenizer's."""

    def __init__(self, part: Energy, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__()
        if part.tokenizer is None:
            raise LexergyError(f"{type(part).__name__} reads no tokens of its own, so there is nothing to translate.")
        self.part, self.tokenizer, self.law = part, tokenizer, part.law

    @property
    def plan(self) -> Plan:
        return self.part.plan

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        translated = self.translate(tokens)
        if self.part.longest is not None and translated.ids.shape[1] > self.part.longest:
            raise LexergyError(
                f"A text of {translated.ids.shape[1]} tokens does not fit the {self.part.longest} of the energy. "
                "Shorten prefix or continuation."
            )
        return self.part(translated.to(tokens.ids.device))

    def translate(self, tokens: Tokens) -> Tokens:
        """The same texts in the inner energy's tokens."""
        texts: list[str] = []
        contexts: list[str] = []
        spans: list[tuple[int, int]] = []
        for row in range(len(tokens)):
            ids, free = tokens.real(row), tokens.free[row][tokens.mask[row]].tolist()
            start = free.index(True) if True in free else len(ids)
            end = len(free) - free[::-1].index(True) if True in free else len(ids)
            text = self._text(ids)
            first, last = self._characters(text, ids[:start]), self._characters(text, ids[:end])
            spans.append((first, last))
            # Tokenised as one string either way; but only an empty context is given something to stand for it.
            forward = self.part.direction == "left_to_right"
            border = first if forward else last
            texts.append(text[border:] if forward else text[:border])
            contexts.append(text[:border] if forward else text[border:])
        rows = self.part.encode(texts, contexts)
        out = Tokens.of([one.ids for one in rows])
        for row, (one, (start, end)) in enumerate(zip(rows, spans, strict=True)):
            # A token that covers nothing (an added one) is context; any other is free if it overlaps what is free.
            inside = [begin < end and stop > start and stop > begin for begin, stop in one.offsets]
            out.free[row, : len(inside)] = torch.tensor(inside)
        return out

    def _text(self, ids: list[int]) -> str:
        """What ids spell. A NUL is a byte that a model can write, and that no text may hold: it is replaced too."""
        assert self.tokenizer is not None
        return decode(self.tokenizer, ids).replace("\0", "\ufffd")

    def _characters(self, text: str, ids: list[int]) -> int:
        """How many characters of `text` the first ids spell, a character they only begin not counted."""
        before = self._text(ids)
        if text.startswith(before):
            return len(before)
        differ = (i for i, (a, b) in enumerate(zip(text, before, strict=False)) if a != b)
        return next(differ, min(len(text), len(before)))

    def score(self, texts: Any, context: Any = "", windows: Windows | None = None) -> list[float]:
        # Text needs no translation: the part reads it itself.
        return self.part.score(texts, context, windows)

    def score_tokens(self, text: str, context: str = "") -> list[tuple[str, float]]:
        return self.part.score_tokens(text, context)


def tiny() -> Retokenised:
    """A bag over the toy alphabet, read through a tokenizer with the letters in another order."""
    return Retokenised(bag.tiny(), character_tokenizer(toy.LETTERS[::-1]))

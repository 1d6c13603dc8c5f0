"""An energy: Tokens → one number a text, lower = likelier, no normalisation.

A new energy is one file in this folder: a docstring, one final class, and `tiny()`, which builds one over the toy alphabet.
It owes `forward(tokens) -> [batch]`, and `config()` and `load()` if it can be saved. Everything else is here once.

Relations: log of an unnormalised probability is −E. Hugging Face's "reward" or "score" is −E; the sign is written into every
saved energy.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexergy.core import files
from lexergy.core.errors import LexergyError
from lexergy.core.finite import check_energies
from lexergy.core.types import Direction, Law, Tokens
from lexergy.engine import score
from lexergy.engine.load import evaluating
from lexergy.engine.probe import Plan, plan
from lexergy.text.joint import Encoded, Special, begun, encode, start_of

Windows = Literal["sum", "mean"]
BLOCK = 8192
"""Texts tokenised at once: memory does not grow with how many there are."""

SIGN = "lower is likelier; a reward or score in Hugging Face's sense is minus this"


class Energy(nn.Module, ABC):
    """What every energy owes. `law` is what its contract checks; a constraint may be +inf, never NaN or −inf."""

    law: str = "finite"
    special: ClassVar[Special] = "bos"
    """Which special tokens a text gets when this energy tokenises it."""

    direction: Direction = "left_to_right"
    """On which side of a text its context stands: before it, or (right to left) behind it."""

    tokenizer: PreTrainedTokenizerBase | None = None
    """The tokens it reads; None: any, or texts."""

    mined: Law | None = None
    """The law of the texts it was trained against, where there was one: a joint model over another language model, space or
    truncation refuses or warns."""

    @abstractmethod
    def forward(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        """The energy of each row. Rows reach it left-aligned and on its device."""

    # What may differ from one energy to another, with the usual answer.

    @property
    def plan(self) -> Plan:
        """Where it runs, and how many tokens at once."""
        return plan()

    @property
    def longest(self) -> int | None:
        """The longest text it was made for, in tokens."""
        return None

    @property
    def vocabulary(self) -> int | None:
        """How many ids it knows; None: any. May be more than its tokenizer has: outputs are padded."""
        return None

    def reading(self, tokenizer: PreTrainedTokenizerBase) -> "Energy":
        """The same energy as a function of that tokenizer's tokens: itself, if it reads them."""
        from lexergy.energies.retokenised import Retokenised
        from lexergy.text.tokenisers import same_vocabulary

        if self.tokenizer is None or same_vocabulary(self.tokenizer, tokenizer):
            return self
        return Retokenised(self, tokenizer)

    def config(self) -> dict[str, Any]:
        """What `load` needs besides weights."""
        raise LexergyError(f"{type(self).__name__} cannot be saved: it is not made of weights and settings alone.")

    def save_parts(self, folder: Path) -> None:
        """Write weights and tokenizer into a folder."""

    @classmethod
    def load(cls, folder: Path, config: dict[str, Any], **options: Any) -> "Energy":  # noqa: ARG003
        """Read what `save_parts` and `config` wrote."""
        raise LexergyError(f"{cls.__name__} cannot be loaded from a folder.")

    # What is the same for all.

    def of_tokens(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        """Energies by ids: float64 on the CPU, batched by token budget, duplicates once, in evaluation mode."""
        longest = self.longest
        if longest is not None and len(tokens) and int(tokens.lengths.max()) > longest:
            raise LexergyError(
                f"A text of {int(tokens.lengths.max())} tokens does not fit the {longest} of this energy. Shorten prefix or "
                "continuation."
            )
        known = self.vocabulary
        if known is not None and bool((tokens.mask & ((tokens.ids >= known) | (tokens.ids < 0))).any()):
            raise LexergyError(
                f"Token ids reach {int(tokens.ids[tokens.mask].max())}, but this energy knows {known}: it was made for a smaller "
                "vocabulary. Use one that was trained on texts of this language model."
            )
        with evaluating(self):
            values = score.score(self, tokens, self.plan.tokens, self.plan.device)
        check_energies(
            values, lambda at: f"row {at[0]} (token ids {tokens.real(at[0])[:12]} …)", self.law == "constraint"
        )
        return values

    def score(
        self, texts: Sequence[str], context: str | Sequence[str] = "", windows: Windows | None = None
    ) -> list[float]:
        """One number a text; lower = likelier. `windows`: how a text that is too long is put together from parts."""
        texts, contexts = paired(texts, context)
        if windows not in (None, *get_args(Windows)):
            raise LexergyError(f'windows is "sum" or "mean", or None to refuse what is too long; received {windows!r}.')
        found: list[float] = []
        for start in range(0, len(texts), BLOCK):
            block = slice(start, start + BLOCK)
            values = self._score_block(texts[block], contexts[block], windows)
            check_energies(values, named(texts[block], start), self.law == "constraint")
            found += values.tolist()
        return found

    def _score_block(self, texts: list[str], contexts: list[str], windows: Windows | None) -> Float[Tensor, "batch"]:
        rows = [self._rows(one, windows) for one in self.encode(texts, contexts)]
        with evaluating(self):
            values = score.score_rows(
                self, [row for parts in rows for row in parts], self.plan.tokens, self.plan.device
            )
        if len(values) == len(rows):
            return values
        ends = torch.tensor([0, *(len(parts) for parts in rows)]).cumsum(0).tolist()
        joined = [values[a:b].sum() if windows == "sum" else values[a:b].mean() for a, b in pairwise(ends)]
        return torch.stack(joined)

    def encode(self, texts: Sequence[str], contexts: Sequence[str]) -> list[Encoded]:
        """Context and text tokenised together, as this energy reads them.

        An empty context stands for what a language model's empty prompt stands for: BOS, else EOS, where there is one.
        """
        if self.tokenizer is None:
            raise LexergyError(
                f"{type(self).__name__} has no tokenizer, so it cannot read text. Give it one, or score Tokens."
            )
        found = encode(self.tokenizer, texts, contexts, special=self.special)
        start = start_of(self.tokenizer) if self.special == "bos" else None
        return found if start is None else [begun(one, start) for one in found]

    def _rows(self, one: Encoded, windows: Windows | None) -> list[tuple[list[int], int, int]]:
        """A text as one row, or as windows where it is too long and that was asked for."""
        longest = self.longest
        if longest is None or len(one.ids) <= longest:
            return [(one.ids, one.free_from, one.free_to)]
        if windows is None:
            raise LexergyError(
                f"A text of {len(one.ids)} tokens does not fit the {longest} of this energy. Nothing is cut in silence: pass "
                'windows="sum" or "mean", or a shorter text.'
            )
        before, after = one.ids[: one.free_from], one.ids[one.free_to :]
        room = longest - len(before) - len(after)
        if room < 1:
            raise LexergyError(f"The context alone fills the {longest} tokens of this energy. Give a shorter context.")
        free = one.ids[one.free_from : one.free_to]
        parts = [free[i : i + room] for i in range(0, len(free), room)]
        return [([*before, *part, *after], len(before), len(before) + len(part)) for part in parts]

    def score_tokens(self, text: str, context: str = "") -> list[tuple[str, float]]:  # noqa: ARG002  what others take
        """(token, energy) for each token of the text, where the energy has them."""
        raise LexergyError(f"{type(self).__name__} has one number a text, none a token. Use score.")

    def __add__(self, other: object) -> "Energy":
        from lexergy.energies.sum import Sum

        if isinstance(other, Energy):
            return Sum([self, other])
        if isinstance(other, int | float) and other == 0:
            return self  # where Python's own sum() starts
        raise LexergyError(
            f"An energy is added to an energy; received {other!r}. A number changes no law: leave it out, or multiply by it."
        )

    __radd__ = __add__

    def __sub__(self, other: object) -> "Energy":
        return self + (-other if isinstance(other, Energy) else other)

    def __neg__(self) -> "Energy":
        return self * -1

    def __mul__(self, factor: object) -> "Energy":
        from lexergy.energies.scaled import Scaled

        return Scaled(self, _number(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: object) -> "Energy":
        number = _number(divisor)
        if number == 0:
            raise LexergyError("An energy is not divided by 0. Use a temperature above it.")
        return self * (1 / number)

    def save_pretrained(self, folder: str | Path) -> None:
        """A folder that knows its kind: energy.json beside safetensors and tokenizer. Written whole or not at all."""
        place, config = Path(folder), self.config()
        with files.atomic(place) as draft:
            draft.mkdir(parents=True)
            self.write(draft, config)

    def write(self, folder: Path, config: dict[str, Any] | None = None) -> None:
        """Write into an existing folder (the body of `save_pretrained`, for energies inside energies)."""
        kind = type(self).__module__.rsplit(".", 1)[-1]
        self.save_parts(folder)
        content = {"kind": kind, "sign": SIGN, "config": self.config() if config is None else config}
        if self.mined is not None:
            content["mined"] = self.mined.to_json()
        (folder / "energy.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def _number(factor: object) -> float:
    if isinstance(factor, Real) or (isinstance(factor, Tensor) and factor.numel() == 1):
        return float(factor)
    raise LexergyError(f"An energy is multiplied or divided by a number; received {factor!r}.")


def named(texts: Sequence[str], first: int) -> Callable[[tuple[int, ...]], str]:
    """How an error names one of some texts; `first`: how many came before them."""
    return lambda at: f"row {first + at[0]} (the text begins {texts[at[0]][:60]!r})"


def paired(texts: Sequence[str], context: str | Sequence[str]) -> tuple[list[str], list[str]]:
    """Texts and one context each."""
    if isinstance(texts, str):
        raise LexergyError("score takes a list of texts; received one string. Put it in a list.")
    contexts = [context] * len(texts) if isinstance(context, str) else list(context)
    if len(contexts) != len(texts):
        raise LexergyError(f"{len(texts)} texts need one context or as many; received {len(contexts)}.")
    return list(texts), contexts

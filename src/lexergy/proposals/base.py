"""A proposal: prompt → Draws(tokens, log_q, log_p). It can write text and say how probable what it wrote was.

A new proposal is one file in this folder: a docstring, one final class, and `tiny()`, which builds one small enough to sum.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, overload

from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.errors import unknown
from lexergy.core.random import Rng
from lexergy.core.types import Direction, Draws, Law, Space, Tokens


class Proposal(ABC):
    """What every proposal owes. `law` is what its contract checks."""

    law: ClassVar[str]
    tokenizer: PreTrainedTokenizerBase
    direction: Direction

    @abstractmethod
    def prompt_ids(self, prompt: str) -> list[int]:
        """The ids a prompt stands for, in reading order; an empty prompt is whatever texts start from."""

    @abstractmethod
    def draw(self, prompts: Sequence[Sequence[int]], n: int, law: Law, rng: Rng | None = None) -> list[Draws]:
        """n draws for each prompt given by ids, by a stated law. `rng`: one stream a row (prompt by prompt); by default
        keyed by the law's seed, the prompt and the number of the sample."""

    @abstractmethod
    def law_of(
        self,
        max_new_tokens: int,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        space: Space = "until_eos",
        eos: Sequence[int] | int | None = None,
        seed: int | None = None,
    ) -> Law:
        """The law that these options name for this model."""

    @abstractmethod
    def token_log_prob(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        """log P of each row's free tokens given the rest, float64."""

    @overload
    def log_prob(self, texts: Draws | Tokens) -> Float[Tensor, "batch"]: ...
    @overload
    def log_prob(self, texts: Sequence[str], context: str | Sequence[str] = "", eos: bool = False) -> list[float]: ...
    @abstractmethod
    def log_prob(
        self, texts: Draws | Tokens | Sequence[str], context: str | Sequence[str] = "", eos: bool = False
    ) -> Float[Tensor, "batch"] | list[float]:
        """The probability that each text goes on so (eos=True: and ends there). Draws and Tokens are read by their ids."""

    @overload
    def sample(
        self, prompt: str, n: int = 1, max_new_tokens: int = 40, rng: Rng | None = None, **options: Any
    ) -> Draws: ...
    @overload
    def sample(
        self, prompt: list[str], n: int = 1, max_new_tokens: int = 40, rng: Rng | None = None, **options: Any
    ) -> list[Draws]: ...
    def sample(
        self,
        prompt: str | list[str],
        n: int = 1,
        max_new_tokens: int = 40,
        rng: Rng | None = None,
        **options: Any,
    ) -> Draws | list[Draws]:
        """n draws after a prompt, or after each of a list. Options: temperature, top_k, top_p, space, eos, seed; what is
        not asked for is not applied."""
        known = [
            name for name, one in inspect.signature(self.law_of).parameters.items() if one.kind is one.KEYWORD_ONLY
        ]
        for name in options:
            if name not in known:
                raise unknown("option of sample", name, known)
        law = self.law_of(max_new_tokens, **options)
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        draws = self.draw([self.prompt_ids(one) for one in prompts], n, law, rng)
        return draws[0] if isinstance(prompt, str) else draws

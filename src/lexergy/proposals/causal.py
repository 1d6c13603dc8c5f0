"""A causal language model as a proposal: P(x | c) = Π_t P(x_t | c, x_<t), left to right or right to left.

log_q is the law actually drawn from (temperature, then top-k, then top-p, EOS included), log_p the untruncated model;
both are kept, since weighing truncated draws with untruncated probabilities is the commonest error of its kind.

Requirements: any Hugging Face causal language model, or a transformer of ours, with a fast tokenizer.

Relations: at temperature 1 and untruncated, log_q = log_p. A right-to-left model writes a prefix before its prompt; its
Draws are in reading order all the same.

Example:

    lm = Causal(load("runs/lm", "causal"))
    draws = lm.sample("The council voted", n=64, max_new_tokens=40, top_k=10, seed=0)

Not to be confused with: `generate` of transformers, which also applies the model's generation_config.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from lexergy.core import random
from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed, Rng
from lexergy.core.types import Draws, Law, Space, Tokens
from lexergy.engine import truncation
from lexergy.engine.decode import Written, continuations
from lexergy.engine.language_model import LanguageModel
from lexergy.engine.load import Loaded
from lexergy.engine.tiny import tiny_language_model
from lexergy.proposals.base import Proposal
from lexergy.text.joint import Bos, encode
from lexergy.text.tokenisers import decode


@final
class Causal(Proposal):
    """A loaded causal language model that writes and scores."""

    law: ClassVar[str] = "exact draws"

    def __init__(self, loaded: Loaded, bos: Bos = "auto", eos: Sequence[int] | int | None = None) -> None:
        self.lm = LanguageModel(loaded, eos)
        self.tokenizer = loaded.tokenizer
        self.direction = self.lm.direction
        self.bos: Bos = bos

    def __repr__(self) -> str:
        return f"Causal({self.lm.name!r}, {self.lm.dtype} on {self.lm.device})"

    def prompt_ids(self, prompt: str) -> list[int]:
        # Written right to left, a BOS in front of the prompt would stand inside the text.
        bos = self.bos if self.direction == "left_to_right" else "never"
        return encode(self.tokenizer, [prompt], [""], bos=bos)[0].ids or [self.lm.start(self.bos)]

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
        truncation.check(temperature, top_k, top_p)
        if max_new_tokens < 1:
            raise LexergyError(f"max_new_tokens must be at least 1; received {max_new_tokens}.")
        if space not in ("fixed", "until_eos"):
            raise LexergyError(f'space is "fixed" or "until_eos"; received {space!r}.')
        ends = self.lm.eos if eos is None else (eos,) if isinstance(eos, int) else tuple(eos)
        if eos is not None and any(not isinstance(one, int) or not 0 <= one < self.lm.vocabulary for one in ends):
            raise LexergyError(
                f"eos is a token id, or a list of them, each from 0 to {self.lm.vocabulary - 1}; received {eos!r}."
            )
        return Law(
            model=self.lm.name,
            revision=self.lm.revision,
            hash=self.lm.hash,
            space=space,
            max_new_tokens=max_new_tokens,
            eos=ends,
            seed=random.resolve(seed),
            temperature=float(temperature),
            # A k as large as the vocabulary cuts nothing.
            top_k=top_k if top_k < self.lm.vocabulary else 0,
            top_p=float(top_p),
            direction=self.direction,
            dtype=self.lm.dtype,
        )

    def draw(self, prompts: Sequence[Sequence[int]], n: int, law: Law, rng: Rng | None = None) -> list[Draws]:
        if n < 1:
            raise LexergyError(f"n must be at least 1; received {n}.")
        if not prompts:
            return []
        if not all(prompts):
            raise LexergyError('A prompt of no ids has nothing to go on from: start it as prompt_ids("") does.')
        self.lm.check_length(max(len(prompt) for prompt in prompts) + law.max_new_tokens)
        read = [list(p) if self.direction == "left_to_right" else list(p)[::-1] for p in prompts]
        if rng is None:
            rng = Keyed.draws(law.seed, read, n)
        written = continuations(self.lm, read, n, law, rng)
        return [self._draws(prompt, written, slice(i * n, (i + 1) * n), law) for i, prompt in enumerate(read)]

    def _draws(self, read: list[int], written: Written, rows: slice, law: Law) -> Draws:
        ids, real = written.ids[rows], written.real[rows]
        prompt = torch.tensor([read]).expand(len(ids), -1)
        given = torch.ones_like(prompt, dtype=torch.bool)
        whole = torch.cat([prompt, ids], 1)
        mask, free = torch.cat([given, real], 1), torch.cat([~given, real], 1)
        if self.direction == "right_to_left":
            whole, mask, free = whole.flip(1), mask.flip(1), free.flip(1)
        tokens = Tokens(whole, mask, free).left_aligned(pad=self._pad())
        ends = set(law.eos) if law.space == "until_eos" else set()
        # A right-to-left text has nothing before it; a continuation's first space must survive decoding.
        before = read if self.direction == "left_to_right" else []
        texts = [
            decode(self.tokenizer, [i for i in tokens.free_ids(row) if i not in ends], before)
            for row in range(len(ids))
        ]
        return Draws(texts, tokens, written.log_q[rows], written.log_p[rows], law)

    def _pad(self) -> int:
        pad = self.tokenizer.pad_token_id
        return pad if isinstance(pad, int) else 0

    def token_log_prob(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        return self.lm.log_prob(tokens)

    def encode(self, texts: Sequence[str], context: str | Sequence[str] = "") -> list[tuple[list[int], int, int]]:
        """Rows (ids, free from, free to): context and text tokenised together, and what an empty context stands for."""
        contexts = [context] * len(texts) if isinstance(context, str) else list(context)
        if len(contexts) != len(texts):
            raise LexergyError(f"{len(texts)} texts need one context or as many; received {len(contexts)}.")
        return [(one.ids, one.free_from, one.free_to) for one in self.lm.encode(list(texts), contexts, self.bos)]

    def log_prob(  # type: ignore[override]
        self, texts: Draws | Tokens | Sequence[str], context: str | Sequence[str] = "", eos: bool = False
    ) -> Any:
        if isinstance(texts, Draws):
            return self.lm.log_prob(texts.tokens)
        if isinstance(texts, Tokens):
            return self.lm.log_prob(texts)
        rows = self.encode([texts] if isinstance(texts, str) else list(texts), context)
        found = self.lm.log_prob_rows(rows)
        if eos:
            found = found + self.lm.end_log_prob(Tokens.of([ids for ids, _, _ in rows]))
        return found.tolist()


def tiny() -> Causal:
    """A random transformer over the toy alphabet, in float64."""
    return Causal(tiny_language_model("tiny causal"))

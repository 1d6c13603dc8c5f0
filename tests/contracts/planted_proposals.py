"""Proposals with one defect each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from lexergy.core import random
from lexergy.core.random import Keyed, Rng
from lexergy.core.toy import LETTERS
from lexergy.core.types import Draws, Law, Tokens
from lexergy.engine.load import Loaded
from lexergy.engine.probe import plan
from lexergy.nets.transformer import TransformerForCausalLM, preset
from lexergy.proposals import causal
from lexergy.proposals.base import Proposal
from lexergy.proposals.causal import Causal
from lexergy.text.tokenisers import character_tokenizer


class Planted(Proposal):
    """A sound proposal, seen through functions that may spoil what it says."""

    law = "exact draws"

    def __init__(
        self,
        inner: Causal | None = None,
        drawing: Callable[[Causal, Sequence[Sequence[int]], int, Law, Rng | None], list[Draws]] | None = None,
        scoring: Callable[[Causal, Tokens], Tensor] | None = None,
        reading: Callable[[Causal, list[str], list[str]], list[float]] | None = None,
    ) -> None:
        self.inner = inner or causal.tiny()
        self.drawing, self.scoring, self.reading = drawing, scoring, reading
        self.tokenizer, self.direction = self.inner.tokenizer, self.inner.direction

    def prompt_ids(self, prompt: str) -> list[int]:
        return self.inner.prompt_ids(prompt)

    def law_of(self, max_new_tokens: int, **options: Any) -> Law:
        return self.inner.law_of(max_new_tokens, **options)

    def draw(self, prompts: Sequence[Sequence[int]], n: int, law: Law, rng: Rng | None = None) -> list[Draws]:
        if self.drawing is None:
            return self.inner.draw(prompts, n, law, rng)
        return self.drawing(self.inner, prompts, n, law, rng)

    def token_log_prob(self, tokens: Tokens) -> Tensor:
        return self.inner.token_log_prob(tokens) if self.scoring is None else self.scoring(self.inner, tokens)

    def log_prob(self, texts: Any, context: Any = "", eos: bool = False) -> Any:
        if isinstance(texts, (Draws, Tokens)):
            return self.token_log_prob(texts.tokens if isinstance(texts, Draws) else texts)
        if self.reading is None or eos:
            return self.inner.log_prob(texts, context, eos)
        contexts = [context] * len(texts) if isinstance(context, str) else list(context)
        return self.reading(self.inner, list(texts), contexts)


def changed(change: Callable[[Draws], Draws]) -> Planted:
    """A proposal whose draws come out changed."""
    return Planted(drawing=lambda lm, p, n, law, rng: [change(draws) for draws in lm.draw(p, n, law, rng)])


def regrouped() -> Planted:
    def drawing(lm: Causal, prompts: Any, n: int, law: Law, rng: Rng | None) -> list[Draws]:
        found = lm.draw(prompts, n, law, rng)
        if len(found) == 1:
            return found
        rows = [(draws, row) for row in range(n) for draws in found]
        groups = [rows[i : i + n] for i in range(0, len(rows), n)]
        return [_gathered(group, law) for group in groups]

    return Planted(drawing=drawing)


def _gathered(group: list[tuple[Draws, int]], law: Law) -> Draws:
    ids = [draws.tokens.real(row) for draws, row in group]
    starts = [len(i) - len(draws.tokens.free_ids(row)) for i, (draws, row) in zip(ids, group, strict=True)]
    log_q = torch.stack([draws.log_q[row] for draws, row in group])
    return Draws([draws.texts[row] for draws, row in group], Tokens.of(ids, starts), log_q, log_q, law)


def averaged() -> Planted:
    return Planted(scoring=lambda lm, t: lm.token_log_prob(t) / (t.free & t.mask).sum(1).clamp(min=1))


def eos_hidden_as_padding() -> Planted:
    def scoring(lm: Causal, tokens: Tokens) -> Tensor:
        pad = lm.tokenizer.pad_token_id
        return lm.token_log_prob(Tokens(tokens.ids, tokens.mask, tokens.free & (tokens.ids != pad)))

    return Planted(scoring=scoring)


def learned_positions() -> Causal:
    """A small GPT-2: position 7 is not position 5, whatever stands before."""
    tokenizer = character_tokenizer(LETTERS)
    ends = tokenizer.eos_token_id
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=ends, eos_token_id=ends
    )
    with random.seeded(0, "learned positions"):
        model = GPT2LMHeadModel(config).double().eval()
    for weight in model.parameters():
        weight.data *= 8 if weight.dim() == 2 else 1
    return Causal(Loaded(model, tokenizer, plan(), "learned", "object"))


def left_padding_without_positions() -> Planted:
    """The network called on the batch as it stands, with an attention mask alone."""

    def scoring(lm: Causal, tokens: Tokens) -> Tensor:
        with torch.no_grad():
            logits = lm.lm.model(input_ids=tokens.ids, attention_mask=tokens.mask.long()).logits
        log_p = torch.log_softmax(logits[:, :-1], dim=-1).gather(2, tokens.ids[:, 1:, None]).squeeze(2)
        return (log_p * (tokens.free & tokens.mask)[:, 1:]).sum(1)

    return Planted(learned_positions(), scoring=scoring)


def start_twice() -> Planted:
    def reading(lm: Causal, texts: list[str], contexts: list[str]) -> list[float]:
        return _ids_scored(lm, texts, contexts, twice=True)

    return Planted(reading=reading)


def start_missing() -> Planted:
    def reading(lm: Causal, texts: list[str], contexts: list[str]) -> list[float]:
        return _ids_scored(lm, texts, contexts, twice=False)

    return Planted(reading=reading)


def _ids_scored(lm: Causal, texts: list[str], contexts: list[str], twice: bool) -> list[float]:
    found = []
    for text, context in zip(texts, contexts, strict=True):
        if context:
            found += lm.log_prob([text], context)
            continue
        start, ids = lm.prompt_ids(""), lm.prompt_ids(text)
        row = [*start, *start, *ids] if twice else ids
        tokens = Tokens.of([row], [len(row) - len(ids) + (0 if twice else 1)])
        found.append(float(lm.token_log_prob(tokens)))
    return found


def temperature_not_normalised() -> Planted:
    def change(draws: Draws) -> Draws:
        assert draws.log_p is not None
        tempered = draws.log_p / draws.law.temperature
        return replace(draws, log_q=tempered if draws.law.temperature != 1 else draws.log_q)

    return changed(change)


def untruncated_log_q() -> Planted:
    def change(draws: Draws) -> Draws:
        assert draws.log_p is not None
        return replace(draws, log_q=draws.log_p)

    return changed(change)


def truncated_log_p() -> Planted:
    return changed(lambda draws: replace(draws, log_p=draws.log_q))


def mass_below_one() -> Planted:
    return changed(lambda draws: replace(draws, log_q=draws.log_q - 1e-3 * draws.tokens.free.sum(1)))


def eos_not_counted() -> Planted:
    def change(draws: Draws) -> Draws:
        ends = torch.tensor([bool(set(draws.tokens.free_ids(r)) & set(draws.law.eos)) for r in range(len(draws))])
        return replace(draws, log_q=torch.where(ends, draws.log_q + 0.5, draws.log_q))

    return changed(change)


def runs_on_after_eos() -> Planted:
    def drawing(lm: Causal, prompts: Any, n: int, law: Law, rng: Rng | None) -> list[Draws]:
        return [replace(d, law=law) for d in lm.draw(prompts, n, replace(law, space="fixed"), rng)]

    return Planted(drawing=drawing)


def one_number_for_all_samples() -> Planted:
    def drawing(lm: Causal, prompts: Any, n: int, law: Law, rng: Rng | None) -> list[Draws]:
        shared = Keyed.grid(
            law.seed, [random.word(tuple(p)) for p in prompts for _ in range(n)], [0] * len(prompts) * n
        )
        return lm.draw(prompts, n, law, shared if rng is None else rng)

    return Planted(drawing=drawing)


class _Stuck(Keyed):
    """Streams that give every step the same number."""

    def at(self, *names: int | str) -> "_Stuck":  # noqa: ARG002  that is the bug
        return self

    def to(self, device: torch.device | str) -> "_Stuck":
        return _Stuck(self.keys.to(device))

    def select(self, index: Tensor) -> "_Stuck":
        return _Stuck(self.keys[index])


def one_number_for_all_steps() -> Planted:
    def drawing(lm: Causal, prompts: Any, n: int, law: Law, rng: Rng | None) -> list[Draws]:
        keys = [random.word(tuple(p)) for p in prompts for _ in range(n)]
        stuck = _Stuck(Keyed.grid(law.seed, keys, list(range(n)) * len(prompts)).keys)
        return lm.draw(prompts, n, law, stuck if rng is None else rng)

    return Planted(drawing=drawing)


def numbers_by_row_of_the_batch() -> Planted:
    def drawing(lm: Causal, prompts: Any, n: int, law: Law, rng: Rng | None) -> list[Draws]:
        rows = len(prompts) * n
        return lm.draw(prompts, n, law, Keyed.grid(law.seed, [0] * rows, range(rows)) if rng is None else rng)

    return Planted(drawing=drawing)


def merging() -> Causal:
    """A model over a tokenizer in which a and b side by side are one token."""
    vocabulary = {"a": 0, "b": 1, "c": 2, "ab": 3, "<|endoftext|>": 4}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[("a", "b")]))
    backend.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>")
    config = preset("tiny", vocab_size=5, hidden_size=16, num_attention_heads=2, eos_token_id=4)
    with random.seeded(0, "merging"):
        model = TransformerForCausalLM(config).double().eval()
    for weight in model.parameters():
        weight.data *= 8 if weight.dim() == 2 else 1
    return Causal(Loaded(model, tokenizer, plan(), "merging", "object"))


def tokenised_apart() -> Planted:
    def reading(lm: Causal, texts: list[str], contexts: list[str]) -> list[float]:
        found = []
        for text, context in zip(texts, contexts, strict=True):
            before, after = lm.prompt_ids(context), lm.prompt_ids(text)
            found.append(float(lm.token_log_prob(Tokens.of([[*before, *after]], [len(before)]))))
        return found

    return Planted(merging(), reading=reading)


def tied() -> Causal:
    """A model for which every token is as likely as any other."""
    lm = causal.tiny()
    with torch.no_grad():
        lm.lm.model.get_output_embeddings().get_parameter("weight").zero_()
    return lm

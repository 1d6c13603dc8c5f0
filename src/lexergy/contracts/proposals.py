"""Proposals: the probability that a text is drawn with, summed over every path of the sampler's own
randomness, is the `log_q` it reports; and `log_p` is what the proposal scores, however the text reaches it.

The law of a token (temperature, then top-k, then top-p) is worked out here a second time, slowly and in the
open, from the scored probabilities alone. Over a vocabulary too large to sum, truncated laws are summed and
the rest is compared on draws.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import Tensor

from lexergy.contracts.broken import refused, require, require_close
from lexergy.contracts.energies import paddings
from lexergy.core.errors import LexergyError
from lexergy.core.random import outcomes
from lexergy.core.types import Draws, Law, Tokens, concatenate
from lexergy.proposals.base import Proposal
from lexergy.text.tokenisers import decode

SMALL: Final = 64
"""The largest vocabulary whose texts of two tokens are all listed."""

MANY: Final = 2048
FALSE_ALARM: Final = 1e-9
"""Of the one statistical law, by Hoeffding's inequality; its seed is fixed, so that it cannot come and go."""

LAWS: Final[dict[str, dict[str, Any]]] = {
    "untruncated": {},
    "across EOS": {"space": "fixed"},
    "temperature 0.5": {"temperature": 0.5},
    "temperature 2": {"temperature": 2.0, "space": "fixed"},
    "top-p": {"top_p": 0.7},
    "temperature, top-k and top-p": {"temperature": 1.5, "top_k": 3, "top_p": 0.8},
}
PAIRS: Final = (("a", "b"), ("c", "ab"), ("ab", "bca"), ("ca", "b"))
"""Contexts and texts read as strings."""


@dataclass(frozen=True)
class _Case:
    """What is checked: the proposal, its prompts as ids, how exact it can be, its vocabulary if that is
    small."""

    proposal: Proposal
    prompts: list[list[int]]
    tolerance: float
    vocabulary: list[int]
    known: dict[tuple[int, ...], dict[int, float]] = field(default_factory=dict)

    @property
    def forwards(self) -> bool:
        """Whether texts are written after their prompt."""
        return self.proposal.direction == "left_to_right"

    def joined(self, prompt: Sequence[int], written: Sequence[int]) -> list[int]:
        """Prompt and text in reading order; `written` is in writing order."""
        return [*prompt, *written] if self.forwards else [*reversed(written), *prompt]

    def rows(self, prompt: Sequence[int], texts: Sequence[Sequence[int]]) -> Tokens:
        """One row a text after (before) a prompt, the text free."""
        tokens = Tokens.of([self.joined(prompt, text) for text in texts], [len(prompt)] * len(texts))
        if self.forwards:
            return tokens
        place = torch.arange(tokens.ids.shape[1])
        return Tokens(tokens.ids, tokens.mask, place < torch.tensor([[len(text)] for text in texts]))

    def scored(self, tokens: Tokens) -> Tensor:
        """What the proposal says of free tokens."""
        with refused("every text has a probability", "token_log_prob"):
            return self.proposal.token_log_prob(tokens)

    def next_law(self, prompt: Sequence[int]) -> dict[int, float]:
        """log p of each token after a prompt, asked for once."""
        if tuple(prompt) not in self.known:
            found = self.scored(self.rows(prompt, [[token] for token in self.vocabulary]))
            self.known[tuple(prompt)] = dict(zip(self.vocabulary, found.tolist(), strict=True))
        return self.known[tuple(prompt)]

    def paths(self, prompts: Sequence[Sequence[int]], n: int, law: Law) -> Iterator[tuple[list[Draws], float]]:
        """What is drawn on every path through the proposal's randomness, and the path's log-probability."""
        return outcomes(lambda rng: self.proposal.draw(prompts, n, law, rng), rows=len(prompts) * n)


def check(proposal: Proposal) -> None:
    """One proposal: every law it can be asked for, alone and in batches, by ids and by text."""
    with refused("a prompt of letters can be read", "prompt_ids"):
        prompts = [proposal.prompt_ids(text) for text in ("ab", "c", "ba")]
        law = proposal.law_of(1, space="fixed", seed=0)
    exact = {"float64": 1e-9, "float32": 1e-4}.get(law.dtype, 0.05)
    small = len(proposal.tokenizer) <= SMALL
    case = _Case(proposal, prompts, exact, [])
    if small:
        drawn = [draws[0].tokens.free_ids(0)[0] for draws, _ in case.paths(prompts[:1], 1, law)]
        case = replace(case, vocabulary=sorted(set(drawn)))
    _scored(case)
    _as_text(case)
    _drawn(case, "top-k", proposal.law_of(2, seed=0, top_k=2))
    _together(case, proposal.law_of(1, seed=0, top_k=2))
    _keyed(case)
    if small:
        _frequencies(case, proposal.law_of(2, seed=0, space="fixed"))
    for name, options in LAWS.items():
        if small or "top_k" in options:
            _drawn(case, name, proposal.law_of(2, seed=0, **options))
    _drawn(case, "longer texts", proposal.law_of(4, seed=0, top_k=2))
    pad = proposal.tokenizer.pad_token_id
    if small and isinstance(pad, int):
        _drawn(case, "padding is EOS", proposal.law_of(2, seed=0, eos=pad))


def _scored(case: _Case) -> None:
    """Draws from the model itself: one number, by every way to it."""
    look = "position ids or attention at padding, free tokens skipped (EOS where pad = eos), a mean for a sum"
    every = []
    for space in ("fixed", "until_eos"):
        law = case.proposal.law_of(4, seed=0, space=space)
        for draws in case.proposal.draw(case.prompts, 6, law):
            scores = case.scored(draws.tokens)
            law_name = "log_q = log_prob for draws from the model itself"
            require_close(scores, draws.log_q, case.tolerance, law_name, "token_log_prob(tokens)", look)
            require_close(case.proposal.log_prob(draws), scores, case.tolerance, law_name, "log_prob(draws)", look)
            law_name = "padding does not count"
            for name, padded in paddings(draws.tokens).items():
                require_close(case.scored(padded), scores, case.tolerance, law_name, name, look)
            every.append((draws.tokens, scores))
    tokens, scores = concatenate([tokens for tokens, _ in every]), torch.cat([scores for _, scores in every])
    law_name = "a score does not depend on the other texts of its batch"
    require_close(case.scored(tokens), scores, case.tolerance, law_name, "texts of all prompts together", look)
    single = torch.cat([case.scored(tokens.select([row])) for row in range(0, len(tokens), 5)])
    require_close(single, scores[::5], case.tolerance, law_name, "one by one", look)


def _as_text(case: _Case) -> None:
    """Strings: context and text tokenised together, and parted so that a token across the border is the
    text's."""
    law, look = (
        "log_prob of a text is that of its tokens after its context",
        "encode: BOS, the border, the end",
    )
    proposal = case.proposal
    expected, ended = [], []
    ends = proposal.law_of(1).eos
    for context, text in PAIRS:
        ids = proposal.prompt_ids(context + text if case.forwards else text + context)
        prompt, written = _parted(case, ids, context)
        expected.append(case.scored(case.rows(prompt, [written])))
        if ends:
            stop = case.scored(case.rows(case.joined(prompt, written), [[end] for end in ends]))
            ended.append(expected[-1] + torch.logsumexp(stop, dim=0))
    contexts, texts = [context for context, _ in PAIRS], [text for _, text in PAIRS]
    with refused(law, look):
        found = torch.tensor(proposal.log_prob(texts, context=contexts), dtype=torch.float64)
        require_close(found, torch.cat(expected), case.tolerance, law, "log_prob(texts, context)", look)
        if ends:
            found = torch.tensor(proposal.log_prob(texts, context=contexts, eos=True), dtype=torch.float64)
            require_close(found, torch.cat(ended), case.tolerance, law, "log_prob(…, eos=True)", look)
    _without_context(case, law, look)


def _parted(case: _Case, ids: list[int], context: str) -> tuple[list[int], list[int]]:
    """The ids that spell context alone, as many as do, and the text's, in writing order."""
    order = ids if case.forwards else ids[::-1]
    kept = 0
    for count in range(1, len(order) + 1):
        begun = order[:count] if case.forwards else order[:count][::-1]
        spelled = decode(case.proposal.tokenizer, begun)
        inside = context.startswith(spelled) if case.forwards else context.endswith(spelled)
        kept = count if inside else kept
    if kept == 0:  # all of the context went into the text's first token
        return case.proposal.prompt_ids(""), order
    prompt = order[:kept] if case.forwards else order[:kept][::-1]
    return prompt, order[kept:]


def _without_context(case: _Case, law: str, look: str) -> None:
    """A text with no context comes after what texts start from, once."""
    try:
        start = case.proposal.prompt_ids("")
    except LexergyError:  # nothing to start from: the proposal says so, and owes nothing
        return
    ids = case.proposal.prompt_ids("ab")
    text = [token for token in ids if token not in start]
    expected = case.scored(case.rows(start, [text if case.forwards else text[::-1]]))
    found = torch.tensor(case.proposal.log_prob(["ab"]), dtype=torch.float64)
    require_close(found, expected, case.tolerance, law, "log_prob without a context", look)


def _drawn(case: _Case, name: str, law: Law) -> None:
    """Every path: its text, its probability, and that of the law worked out by hand."""
    prompt = case.prompts[0]
    drawn = [(draws[0], log_prob) for draws, log_prob in case.paths([prompt], 1, law)]
    for draws, _ in drawn:
        _shaped(case, prompt, draws, law)
    texts = [_written(case, draws, 0) for draws, _ in drawn]
    log_path = torch.tensor([log_prob for _, log_prob in drawn], dtype=torch.float64)
    log_q = torch.cat([draws.log_q for draws, _ in drawn])
    about, look = (
        f"exact draws ({name})",
        "decode: temperature, truncation and normalisation of the law drawn from",
    )
    different = len(set(texts)) == len(texts)
    require(different, about, "one text on two paths", "randomness that is drawn and not used")
    require_close(log_q, log_path, case.tolerance, f"{about}: log_q is the probability drawn with", "log_q", look)
    require_close(log_q.logsumexp(0), torch.zeros(()), case.tolerance, f"{about}: mass 1", "log of the total", look)
    if case.vocabulary:
        by_hand = torch.tensor([_by_hand(case, prompt, text, law) for text in texts], dtype=torch.float64)
        require_close(log_q, by_hand, 10 * case.tolerance, f"{about}: the law asked for", "log_q", look)
    if law.top_k and law.top_p == 1:
        first = {text[0] for text in texts}
        require(len(first) == law.top_k, f"{about}: exactly k tokens", f"{len(first)} for k = {law.top_k}", "ties")
    if drawn[0][0].log_p is not None:
        log_p = torch.cat([draws.log_p for draws, _ in drawn if draws.log_p is not None])
        scores = case.scored(concatenate([draws.tokens for draws, _ in drawn]))
        which = f"{about}: log_p is the untruncated model's"
        require_close(log_p, scores, case.tolerance, which, "log_p", "log_q and log_p exchanged, EOS left out")


def _written(case: _Case, draws: Draws, row: int) -> tuple[int, ...]:
    ids = draws.tokens.free_ids(row)
    return tuple(ids if case.forwards else ids[::-1])


def _shaped(case: _Case, prompt: Sequence[int], draws: Draws, law: Law) -> None:
    """Tokens are the prompt and the text; a text ends where its space says; strings leave prompt and EOS
    out."""
    look = "regrouping of prompts and samples, what is real after EOS, decoding"
    require(draws.law == law, "draws carry the law they were drawn by", str(draws.law), "Draws(…, law)")
    for row in range(len(draws)):
        ids, text = draws.tokens.real(row), _written(case, draws, row)
        whole = case.joined(prompt, text)
        require(ids == whole, "draws stand after their own prompt", f"{ids} for prompt {list(prompt)}", look)
        ended = [place for place, token in enumerate(text) if token in law.eos]
        stops = law.space == "until_eos" and bool(ended)
        right = len(text) == (ended[0] + 1 if stops else law.max_new_tokens)
        require(right, f"a text ends as its space says ({law.space})", f"{list(text)}, EOS {law.eos}", look)
        plain = [token for token in ids if token not in law.eos] if law.space == "until_eos" else ids
        spelled, given = decode(case.proposal.tokenizer, plain), decode(case.proposal.tokenizer, list(prompt))
        said = given + draws.texts[row] if case.forwards else draws.texts[row] + given
        require(said == spelled, "texts are without the prompt and EOS", f"{said!r} for {spelled!r}", look)


def _by_hand(case: _Case, prompt: Sequence[int], text: Sequence[int], law: Law) -> float:
    """log q of a text: temperature, then top-k, then top-p, over the scored law of each next token."""
    total, begun = 0.0, list(prompt)
    for token in text:
        scaled = {v: math.exp(value / law.temperature) for v, value in case.next_law(begun).items()}
        ordered = sorted(scaled, key=lambda v, scaled=scaled: (-scaled[v], v))
        kept = ordered[: law.top_k] if law.top_k else ordered
        mass = sum(scaled[v] for v in kept)
        before, nucleus = 0.0, []
        for v in kept:
            if before < law.top_p:
                nucleus.append(v)
            before += scaled[v] / mass
        kept_mass = sum(scaled[v] for v in nucleus)
        total += math.log(scaled[token] / kept_mass) if token in nucleus else -math.inf
        begun = case.joined(begun, [token])
    return total


def _together(case: _Case, law: Law) -> None:
    """Several prompts of different lengths, several samples each: every path of all of them at once."""
    prompts = [case.prompts[0], case.prompts[1], case.prompts[0]]
    about, look = (
        "prompts and samples are never mixed",
        "the order of rows: prompt by prompt, sample by sample",
    )
    for found, log_prob in case.paths(prompts, 2, law):
        require(len(found) == len(prompts), about, f"{len(found)} results for {len(prompts)} prompts", look)
        for prompt, draws in zip(prompts, found, strict=True):
            require(len(draws) == 2, about, f"{len(draws)} draws for n = 2", look)
            _shaped(case, prompt, draws, law)
            alone = [_log_q_of(case, prompt, draws, row, law) for row in range(2)]
            by_hand = torch.tensor(alone, dtype=torch.float64)
            require_close(draws.log_q, by_hand, case.tolerance * 10, about, "log_q in a batch", look)
        total = torch.cat([draws.log_q for draws in found]).sum()
        path = torch.tensor(log_prob, dtype=torch.float64)
        require_close(total, path, case.tolerance * 10, about, "log_q of all samples", look)


def _log_q_of(case: _Case, prompt: Sequence[int], draws: Draws, row: int, law: Law) -> float:
    if case.vocabulary:
        return _by_hand(case, prompt, _written(case, draws, row), law)
    return float(draws.log_q[row])


def _keyed(case: _Case) -> None:
    """Numbers belong to (seed, prompt, sample, step): the same texts alone and in any batch."""
    about, look = "the same texts under any batching", "random numbers keyed by the row of the batch"
    law = case.proposal.law_of(6, seed=0)
    every = case.proposal.draw(case.prompts, 5, law)
    for prompt, draws in zip(case.prompts, every, strict=True):
        for n in (5, 2):
            alone = case.proposal.draw([prompt], n, law)[0]
            texts = [_written(case, alone, row) for row in range(n)]
            batched = [_written(case, draws, row) for row in range(n)]
            require(texts == batched, about, f"{texts} alone, {batched} in a batch (n = {n})", look)
            require_close(alone.log_q, draws.log_q[:n], case.tolerance, about, "log_q alone", look)
    other = case.proposal.draw(case.prompts, 5, case.proposal.law_of(6, seed=1))
    moved = any(a.texts != b.texts for a, b in zip(every, other, strict=True))
    require(moved, "another seed draws other texts", str([draws.texts for draws in every]), "the seed is not read")


def _frequencies(case: _Case, law: Law) -> None:
    """Samples and steps have numbers of their own: among many draws each text is as frequent as it is
    probable."""
    draws = case.proposal.draw(case.prompts[:1], MANY, law)[0]
    counts = Counter(_written(case, draws, row) for row in range(MANY))
    texts = list(itertools.product(case.vocabulary, repeat=2))
    log_p = case.scored(case.rows(case.prompts[0], texts))
    away = torch.tensor([counts[text] / MANY for text in texts]) - log_p.exp()
    bound = math.sqrt(math.log(2 * len(texts) / FALSE_ALARM) / (2 * MANY))
    worst = int(away.abs().argmax())
    require(
        float(away.abs().max()) <= bound,
        "samples and steps are independent",
        f"{counts[texts[worst]]} of {MANY} draws are {texts[worst]} of probability {log_p[worst].exp():.3f}",
        "one random number shared by samples or by steps",
    )

"""Drawing texts from a language model: each prompt is read once, and at every step one token a text is drawn by inversion
with a number keyed by (seed, prompt, sample, step).

Families whose layers are plain take a fast step that attends to each prompt once for all its samples; any other goes
through its own code, its cache copied out among the samples.

The probability drawn with (log q) and the model's own (log p) are kept for the drawn token; logits are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import Cache

from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed, Rng
from lexergy.core.types import Law
from lexergy.engine import truncation
from lexergy.engine.budget import for_each_batch
from lexergy.engine.fast import fast_step
from lexergy.engine.language_model import LanguageModel
from lexergy.engine.load import evaluating
from lexergy.engine.machine import free_memory
from lexergy.engine.prefix import SharedPrefix
from lexergy.engine.probe import Shape

_ASSUMED_FREE: Final = 4 << 30
"""Where the system does not say."""

_MOST_ROWS: Final = {"cpu": 512, "cuda": 8192}
"""Rows beyond which a step's cost grows with them."""


@dataclass(frozen=True)
class Written:
    """What was drawn after each prompt, in the order the network writes. `real`: False after the end of a text."""

    ids: Int[Tensor, "rows steps"]
    real: Bool[Tensor, "rows steps"]
    log_q: Float[Tensor, "rows"]
    log_p: Float[Tensor, "rows"]


def continuations(lm: LanguageModel, prompts: Sequence[Sequence[int]], n: int, law: Law, rng: Rng) -> Written:
    """n continuations of each prompt; row i·n + j is sample j of prompt i, and `rng` has one stream a row.

    Prompts of one length go through the network together, so that nothing is ever padded; how many rows are in flight
    at once comes from the memory that is free, and is halved where it runs out all the same.
    """
    if rng.rows != len(prompts) * n:
        raise LexergyError(f"{len(prompts)} prompts × {n} samples need as many random streams; received {rng.rows}.")
    steps = law.max_new_tokens
    ids = torch.zeros(len(prompts) * n, steps, dtype=torch.long)
    real = torch.zeros(len(prompts) * n, steps, dtype=torch.bool)
    log_q = torch.zeros(len(prompts) * n, dtype=torch.float64)
    log_p = torch.zeros(len(prompts) * n, dtype=torch.float64)
    lengths = [len(prompt) + steps for prompt in prompts for _ in range(n)]
    by_length: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        by_length.setdefault(length, []).append(row)

    def run(rows: list[int]) -> None:
        index = torch.tensor(rows)
        written = _write(lm, [tuple(prompts[row // n]) for row in rows], law, rng.select(index))
        ids[index], real[index] = written.ids, written.real
        log_q[index], log_p[index] = written.log_q, written.log_p

    # On the network's device, so that the logits never leave it.
    rng = rng.to(lm.device) if isinstance(rng, Keyed) else rng
    for length in sorted(by_length, reverse=True):
        for_each_batch(by_length[length], lengths, length * _rows_at_once(lm, length), run)
    return Written(ids, real, log_q, log_p)


def _rows_at_once(lm: LanguageModel, length: int) -> int:
    """How many texts may be in flight: a step costs little more for many rows than for few, so as many as a quarter of the
    free memory holds with their keys, values and logits (pinned machines keep to the token budget)."""
    if lm.plan.pinned:
        return max(1, lm.plan.tokens // length)
    shape, size = Shape.of(lm.model.config), lm.model.dtype.itemsize
    each = 2 * shape.layers * shape.width * length * size + 16 * lm.vocabulary
    free = free_memory(str(lm.device)) or _ASSUMED_FREE
    return min(max(1, free // 4 // each), _MOST_ROWS["cpu" if lm.device.type == "cpu" else "cuda"])


class _Reader:
    """A network that has read each prompt once and goes on reading a token a row; rows stand prompt by prompt."""

    def __init__(self, lm: LanguageModel, prompts: Sequence[tuple[int, ...]], steps: int) -> None:
        groups = [(prompt, len(list(rows))) for prompt, rows in groupby(prompts)]
        counts = [count for _, count in groups]
        self.lm = lm
        self.of_row = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)).to(lm.device)
        self.fast = fast_step(lm.model) if lm.head is not None else None
        logits, caches = self._read_prompts([prompt for prompt, _ in groups])
        self.first = logits.index_select(0, self.of_row)
        if self.fast is not None:
            layers = range(len(caches[0].layers))
            keys = [torch.cat([one.layers[i].keys for one in caches]) for i in layers]  # type: ignore[list-item]
            values = [torch.cat([one.layers[i].values for one in caches]) for i in layers]  # type: ignore[list-item]
            self.prefix = SharedPrefix(keys, values, counts, steps)
        else:
            (self.cache,) = caches
            self.cache.batch_select_indices(self.of_row)

    def _read_prompts(self, prompts: list[tuple[int, ...]]) -> tuple[Tensor, list[Cache]]:
        """Logits after each prompt, and the caches: a few prompts at a time for a fast step, which joins keys and values
        itself; all at once for a network's own cache, which only it knows how to join."""
        ids = torch.tensor(prompts, device=self.lm.device)
        at_once = max(1, self.lm.plan.tokens // ids.shape[1]) if self.fast is not None else len(ids)
        logits, caches = [], []
        for part in ids.split(at_once):
            out = self.lm.model(input_ids=part, use_cache=True, logits_to_keep=1)
            cache = out.get("past_key_values")
            if not isinstance(cache, Cache):
                raise LexergyError(
                    f"{self.lm.name} keeps no keys and values of what it has read, which drawing builds on. Its texts can be "
                    "scored; draw from another model."
                )
            logits.append(out.logits[:, -1])
            caches.append(cache)
        return torch.cat(logits), caches

    def read(self, tokens: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Logits after one more token a row."""
        if self.fast is None or self.lm.head is None:
            return self.lm.model(input_ids=tokens[:, None], past_key_values=self.cache, use_cache=True).logits[:, -1]
        states = self.fast.states(tokens, self.prefix)
        self.prefix.written += 1
        return self.lm.head(states)


def _write(lm: LanguageModel, prompts: list[tuple[int, ...]], law: Law, rng: Rng) -> Written:
    """One batch of rows whose prompts have one length."""
    rows, device = len(prompts), lm.device
    eos = torch.tensor(law.eos, dtype=torch.long, device=device)
    alive = torch.ones(rows, dtype=torch.bool, device=device)
    log_q = torch.zeros(rows, dtype=torch.float64, device=device)
    log_p = torch.zeros(rows, dtype=torch.float64, device=device)
    ids: list[Tensor] = []
    real: list[Tensor] = []
    with torch.no_grad(), evaluating(lm.model):
        reader = _Reader(lm, prompts, law.max_new_tokens)
        logits = reader.first
        for step in range(law.max_new_tokens):
            full = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
            drawn_from = full if law.exact else truncation.restricted(logits, law.temperature, law.top_k, law.top_p)
            token = rng.at(step).categorical(drawn_from).to(device)
            # An ended text stays where it is: whatever is drawn for its row is thrown away.
            log_q += torch.where(alive, drawn_from.gather(1, token[:, None]).squeeze(1), 0.0).double()
            log_p += torch.where(alive, full.gather(1, token[:, None]).squeeze(1), 0.0).double()
            ids.append(token)
            real.append(alive)
            if law.space == "until_eos":
                alive = alive & ~torch.isin(token, eos)
            if step + 1 == law.max_new_tokens or not bool(alive.any()):
                break
            logits = reader.read(token)
    missing = law.max_new_tokens - len(ids)
    drawn = torch.nn.functional.pad(torch.stack(ids, 1), (0, missing)).cpu()
    kept = torch.nn.functional.pad(torch.stack(real, 1), (0, missing)).cpu()
    return Written(drawn.masked_fill(~kept, 0), kept, log_q.cpu(), log_p.cpu())

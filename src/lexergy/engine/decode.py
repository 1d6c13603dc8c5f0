"""Drawing texts from a language model: each prompt is read once, its cache shared out among its samples, and at every
step one token a text is drawn by inversion with a number keyed by (seed, prompt, sample, step).

The probability drawn with (log q) and the model's own (log p) are kept for the drawn token; logits are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import Cache

from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed, Rng
from lexergy.core.types import Law
from lexergy.engine import truncation
from lexergy.engine.budget import for_each_batch
from lexergy.engine.language_model import LanguageModel
from lexergy.engine.load import evaluating


@dataclass(frozen=True)
class Written:
    """What was drawn after each prompt, in the order the network writes. `real`: False after the end of a text."""

    ids: Int[Tensor, "rows steps"]
    real: Bool[Tensor, "rows steps"]
    log_q: Float[Tensor, "rows"]
    log_p: Float[Tensor, "rows"]


def continuations(lm: LanguageModel, prompts: Sequence[Sequence[int]], n: int, law: Law, rng: Rng) -> Written:
    """n continuations of each prompt; row i·n + j is sample j of prompt i, and `rng` has one stream a row.

    Prompts of one length go through the network together, so that nothing is ever padded; the rows in flight at once
    are bounded by the token budget, which is halved where memory runs out.
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
        written = _write(lm, [list(prompts[row // n]) for row in rows], law, rng.select(index))
        ids[index], real[index] = written.ids, written.real
        log_q[index], log_p[index] = written.log_q, written.log_p

    # On the network's device, so that the logits never leave it.
    rng = rng.to(lm.device) if isinstance(rng, Keyed) else rng
    budget = lm.plan.tokens
    for length in sorted(by_length, reverse=True):
        budget = for_each_batch(by_length[length], lengths, budget, run)
    return Written(ids, real, log_q, log_p)


def _write(lm: LanguageModel, prompts: list[list[int]], law: Law, rng: Rng) -> Written:
    """One batch of rows whose prompts have one length."""
    distinct: dict[tuple[int, ...], int] = {}
    of_row = torch.tensor([distinct.setdefault(tuple(prompt), len(distinct)) for prompt in prompts])
    rows, device = len(prompts), lm.device
    eos = torch.tensor(law.eos, dtype=torch.long, device=device)
    alive = torch.ones(rows, dtype=torch.bool, device=device)
    log_q = torch.zeros(rows, dtype=torch.float64, device=device)
    log_p = torch.zeros(rows, dtype=torch.float64, device=device)
    ids: list[Tensor] = []
    real: list[Tensor] = []
    with torch.no_grad(), evaluating(lm.model):
        out = lm.model(input_ids=torch.tensor(list(distinct), device=device), use_cache=True, logits_to_keep=1)
        logits, cache = out.logits[:, -1].index_select(0, of_row.to(device)), out.get("past_key_values")
        if not isinstance(cache, Cache):
            raise LexergyError(
                f"{lm.name} keeps no keys and values of what it has read, which drawing builds on. Its texts can be "
                "scored; draw from another model."
            )
        cache.batch_select_indices(of_row.to(device))
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
            out = lm.model(input_ids=token[:, None], past_key_values=cache, use_cache=True)
            logits, cache = out.logits[:, -1], out.past_key_values
    missing = law.max_new_tokens - len(ids)
    drawn = torch.nn.functional.pad(torch.stack(ids, 1), (0, missing)).cpu()
    kept = torch.nn.functional.pad(torch.stack(real, 1), (0, missing)).cpu()
    return Written(drawn.masked_fill(~kept, 0), kept, log_q.cpu(), log_p.cpu())

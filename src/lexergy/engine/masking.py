"""What a masked language model is shown: places chosen anew each time; documents that never see each other.

Of the n eligible tokens of a text, max(1, round(share·n)) are chosen, uniformly without replacement; of
these a share is shown as [MASK], a share as a random token, the rest as themselves. BERT's 15 % and 80/10/10
are the defaults.

Departure from BERT: a fixed number a text where BERT tosses a coin a token, so that every text trains and
batches cost the same. Each place is still as likely as any other, whatever its token.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed
from lexergy.core.types import Tokens


def maskable(tokenizer: PreTrainedTokenizerBase) -> Bool[Tensor, "vocabulary"]:
    """Which ids may be masked, and stand in for masked ones: all but the special ones."""
    table = torch.ones(len(tokenizer), dtype=torch.bool)
    table[tokenizer.all_special_ids] = False
    return table


def mask_tokens(
    tokens: Tokens,
    rng: Keyed,
    mask_id: int,
    eligible: Bool[Tensor, "vocabulary"],
    share: float = 0.15,
    shown_as_mask: float = 0.8,
    shown_as_random: float = 0.1,
) -> tuple[Int[Tensor, "batch time"], Bool[Tensor, "batch time"]]:
    """The ids to show and the places chosen. `rng`: one stream a row.

    Padding, context and special tokens are never chosen; a text of nothing else has nothing chosen.
    """
    if rng.rows != len(tokens):
        raise LexergyError(f"Masking needs one random stream a text; received {rng.rows} for {len(tokens)}.")
    shown_shares = (shown_as_mask, shown_as_random)
    if not 0 < share <= 1 or min(shown_shares) < 0 or sum(shown_shares) > 1:
        raise LexergyError(
            "Shares lie between 0 and 1, and those shown as [MASK] and as random tokens add up to at most 1; "
            f"received share={share}, {shown_as_mask} and {shown_as_random}."
        )
    time, device = tokens.ids.shape[1], tokens.ids.device
    rng, eligible = rng.to(device), eligible.to(device)
    able = eligible[tokens.ids] & tokens.mask & tokens.free
    count = able.sum(dim=1, keepdim=True)
    wanted = torch.minimum((share * count).round().long().clamp(min=1), count)
    # Uniform numbers, with those not eligible behind all others: a text's `wanted` smallest are chosen.
    score = rng.at("places").uniform(time).masked_fill(~able, 2.0)
    rank = score.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    chosen = rank < wanted
    shown = rng.at("shown").uniform(time)
    candidates = eligible.nonzero().squeeze(1)
    ids = torch.where(chosen & (shown < shown_as_mask), mask_id, tokens.ids)
    if shown_as_random and len(candidates):
        others = candidates[rng.at("tokens").integers(len(candidates), time)]
        at = chosen & (shown >= shown_as_mask) & (shown < shown_as_mask + shown_as_random)
        ids = torch.where(at, others, ids)
    return ids, chosen


def segments(ids: Int[Tensor, "batch time"], ends: Sequence[int]) -> Int[Tensor, "batch time"]:
    """The number of the document that each token of a packed row belongs to, the end included.

    Networks of `lexergy.nets` take it as `segments` and then never attend across a border.
    """
    is_end = torch.isin(ids, torch.tensor(list(ends), dtype=ids.dtype, device=ids.device)).long()
    return is_end.cumsum(dim=1) - is_end

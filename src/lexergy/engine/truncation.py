"""The law a token is drawn by: temperature, then top-k, then top-p, renormalised. Exactly k tokens, ties by lower id.

log q = log softmax(restrict(logits / temperature))
"""

import torch
from jaxtyping import Float
from torch import Tensor

from lexergy.core.errors import LexergyError


def check(temperature: float, top_k: int, top_p: float) -> None:
    """Refuse a law that is none."""
    if not temperature > 0:
        raise LexergyError(f"temperature must be above 0 for a law to draw from; received {temperature}.")
    if top_k < 0:
        raise LexergyError(f"top_k must be 0 (off) or more; received {top_k}.")
    if not 0 < top_p <= 1:
        raise LexergyError(f"top_p must lie in (0, 1]; received {top_p}.")


def restricted(
    logits: Float[Tensor, "rows vocabulary"], temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> Float[Tensor, "rows vocabulary"]:
    """Normalised log q, −inf where the law cannot draw; float32 or better."""
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if temperature != 1.0:
        scores = scores / temperature
    if 0 < top_k < scores.shape[-1]:
        scores = scores.masked_fill(~_top(scores, top_k), -torch.inf)
    if top_p < 1.0:
        scores = scores.masked_fill(~_nucleus(scores, top_p), -torch.inf)
    return torch.log_softmax(scores, dim=-1)


def _top(scores: Float[Tensor, "rows vocabulary"], k: int) -> Tensor:
    """True for exactly k entries a row: all above the k-th largest value, and of those equal to it the lowest ids."""
    threshold = torch.topk(scores, k, dim=-1).values[:, -1:]
    above = scores > threshold
    equal = scores == threshold
    room = k - above.sum(dim=-1, keepdim=True)
    if bool((equal.sum(dim=-1, keepdim=True) == room).all()):
        return above | equal
    return above | (equal & (equal.cumsum(dim=-1) <= room))


def _nucleus(scores: Float[Tensor, "rows vocabulary"], mass: float) -> Tensor:
    """True for the smallest set of most probable tokens whose mass reaches top_p; ties by id, at least one token."""
    ordered, order = torch.sort(scores, dim=-1, descending=True, stable=True)
    p = torch.softmax(ordered, dim=-1)
    before = p.cumsum(dim=-1) - p
    # A token is in when the mass before it has not reached the target yet.
    inside = (before < mass) & (ordered > -torch.inf)
    inside[:, 0] = True
    return torch.zeros_like(inside).scatter(1, order, inside)

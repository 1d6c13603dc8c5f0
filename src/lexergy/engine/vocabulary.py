"""Where states meet the vocabulary: log p(v | h) = (W h + b)_v − log Σ_u exp (W h + b)_u, for the rows that need it.

The full [batch, time, vocabulary] block is never made. Scoring takes rows in chunks and keeps one number a row;
training takes them in chunks too and forms the gradient while the chunk's logits are at hand, once.

Not to be confused with: `F.cross_entropy(W h, targets)`, which is the same number and keeps every logit.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 27}
"""Logits held at once, at most. On a CPU a chunk and what is done to it should stay in the last cache: at four times
the size the same work took 1.6 times as long."""


def chunk_rows(vocabulary: int, device: torch.device) -> int:
    """How many rows of logits make one chunk."""
    return max(1, CHUNK_ELEMENTS.get(device.type, CHUNK_ELEMENTS["cuda"]) // vocabulary)


class _WeightedNLL(torch.autograd.Function):
    """Σ_i c_i · −log p(target_i | h_i), with the gradient formed in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Float[Tensor, "rows width"],
        weight: Float[Tensor, "vocabulary width"],
        bias: Float[Tensor, "vocabulary"] | None,
        targets: Int[Tensor, "rows"],
        coefficients: Float[Tensor, "rows"],
    ) -> Float[Tensor, ""]:
        device = states.device.type
        compute = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        w = weight.to(compute)
        need_states, need_weight, need_bias = ctx.needs_input_grad[:3]
        grad_states = torch.empty_like(states) if need_states else None
        # Sums over many rows are kept in float32: chunks of bf16 gradients added in bf16 would lose the small ones.
        grad_weight = _wide_zeros(weight) if need_weight else None
        grad_bias = _wide_zeros(bias) if bias is not None and need_bias else None
        total = torch.zeros((), dtype=torch.promote_types(states.dtype, torch.float32), device=states.device)
        rows_at_once = chunk_rows(weight.shape[0], states.device)
        with torch.autocast(device, enabled=False):
            for start in range(0, states.shape[0], rows_at_once):
                rows = slice(start, start + rows_at_once)
                h, t, c = states[rows].to(compute), targets[rows, None], coefficients[rows, None].to(total.dtype)
                logits = torch.mm(h, w.t())
                if bias is not None:
                    logits = logits + bias.to(compute)
                chosen = logits.gather(1, t).to(total.dtype)
                top = logits.amax(dim=1, keepdim=True)
                # From here on in place and in the logits' own dtype: this block is the largest thing in the step.
                p = logits.sub_(top).exp_()
                mass = p.sum(dim=1, keepdim=True, dtype=total.dtype)
                total += (c * (top.to(total.dtype) + mass.log() - chosen)).sum()
                if need_states or need_weight or need_bias:
                    p.mul_((c / mass).to(p.dtype))
                    p.scatter_add_(1, t, -c.to(p.dtype))
                    if grad_states is not None:
                        grad_states[rows] = torch.mm(p, w).to(grad_states.dtype)
                    if grad_weight is not None:
                        grad_weight += torch.mm(p.t(), h)
                    if grad_bias is not None:
                        grad_bias += p.sum(0)
        ctx.save_for_backward(grad_states, grad_weight, grad_bias)
        ctx.dtypes = (weight.dtype, bias.dtype if bias is not None else None)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        grad_states, grad_weight, grad_bias = ctx.saved_tensors
        return (
            None if grad_states is None else grad_states * grad.to(grad_states.dtype),
            None if grad_weight is None else (grad_weight * grad).to(ctx.dtypes[0]),
            None if grad_bias is None else (grad_bias * grad).to(ctx.dtypes[1]),
            None,
            None,
        )


def _wide_zeros(like: Tensor) -> Tensor:
    """Where gradients are summed: float32 or better."""
    return torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))


def weighted_nll(
    states: Float[Tensor, "rows width"],
    weight: Float[Tensor, "vocabulary width"],
    targets: Int[Tensor, "rows"],
    coefficients: Float[Tensor, "rows"],
    bias: Float[Tensor, "vocabulary"] | None = None,
) -> Float[Tensor, ""]:
    """Σ_i coefficients_i · −log softmax(W h_i + b)[target_i], differentiable in h, W and b."""
    return _WeightedNLL.apply(states, weight, bias, targets, coefficients)  # type: ignore[no-any-return]


@torch.no_grad()
def token_log_prob(
    logits_of: Callable[[Tensor], Tensor],
    states: Float[Tensor, "rows width"],
    targets: Int[Tensor, "rows *each"],
    vocabulary: int,
) -> Float[Tensor, "rows *each"]:
    """log softmax(logits_of(h_i))[target_i], chunk by chunk, in float32 or better; `logits_of` is the model's own head.

    A row may have several targets.
    """
    wide = torch.promote_types(states.dtype, torch.float32)
    found = [torch.zeros(0, *targets.shape[1:], dtype=wide, device=states.device)]
    rows_at_once = chunk_rows(vocabulary, states.device)
    for start in range(0, states.shape[0], rows_at_once):
        rows = slice(start, start + rows_at_once)
        logits = logits_of(states[rows]).to(wide)
        wanted = targets[rows]
        chosen = logits.gather(1, wanted.reshape(len(wanted), -1)) - torch.logsumexp(logits, dim=-1, keepdim=True)
        found.append(chosen.reshape(wanted.shape))
    return torch.cat(found)

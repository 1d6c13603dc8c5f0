"""Attention with rotary positions: softmax(q kᵀ / √width) v, q and k turned by an angle that grows with position.

A product of two turned features depends on how far apart they stand, never on where: texts may start at any position.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def rotary(
    positions: Int[Tensor, "batch time"], width: int, theta: float
) -> tuple[Float[Tensor, "batch 1 time half"], Float[Tensor, "batch 1 time half"]]:
    """Cosines and sines of the angles by which pairs of features turn at each position."""
    half = width // 2
    frequency = theta ** (-torch.arange(half, device=positions.device, dtype=torch.float32) / half)
    angle = positions[:, None, :, None].float() * frequency
    return angle.cos(), angle.sin()


def turn(
    x: Float[Tensor, "batch heads time width"],
    cosine: Float[Tensor, "some 1 time half"],
    sine: Float[Tensor, "some 1 time half"],
) -> Float[Tensor, "batch heads time width"]:
    """Rotate the pairs (first half, second half) of each head's features."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cosine - b * sine, a * sine + b * cosine], dim=-1)


def attend(
    q: Float[Tensor, "batch heads queries width"],
    k: Float[Tensor, "batch heads keys width"],
    v: Float[Tensor, "batch heads keys width"],
    visible: Bool[Tensor, "#batch 1 #queries keys"] | None,
    causal: bool,
) -> Float[Tensor, "batch heads queries width"]:
    """softmax(q kᵀ / √width) v, by whichever kernel is faster for what is asked.

    On a CPU the backward pass of torch's fused kernel takes three to four times as long as two batched products and a
    softmax up to some 512 tokens, where the matrix of scores still fits the caches; without gradients, on long texts
    and on a GPU the fused kernel wins.
    """
    if q.device.type != "cpu" or not torch.is_grad_enabled() or k.shape[2] > 512 or q.dtype == torch.float64:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, is_causal=causal)
    score = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(2, 3))
    if causal:
        visible = torch.ones(score.shape[-2:], dtype=torch.bool, device=q.device).tril()[None, None]
    if visible is not None:
        score = score.masked_fill(~visible, torch.finfo(score.dtype).min)
    return torch.matmul(torch.softmax(score, dim=-1).to(v.dtype), v)

"""log Z between two bounds, T_n = log (1/n) Σ exp(−e_i) and U_n = (2n−1) T_n − 2(n−1) T̄_{n−1}.

Generation paper, section 3.2. The e_i are energies of n untruncated draws from the language model, along the
last axis; T̄_{n−1} is the mean of the n leave-one-out values. U_n is taken in the closed form

    U_n = T_n + 2(n−1) · [ −log(n/(n−1)) − (1/n) Σ_i l_i ],     l_i = log(1 − W_i),

where W_i are the normalised weights and (2n−1) times anything does not cancel. Everything is float64 and in
log space, whatever dtype the energies have. E[T_n] ≤ log Z at every n, E[U_n] ≥ log Z from some n on.

*Relations.* T_n and U_n both tend to log Z. `certified_gain` with one draw is 0: Algorithm 1 over one draw
is the language model. Where draws carry weights of their own (log P − log Q, say), give e − log P + log Q as
the energy.

*Not to be confused with* a proof: two bounds can agree and both be wrong. With weights 1 and 10⁴
(probability 10⁻³) three runs in four at n = 256 see T = U = 0 where log Z = 2.398. `resolved` looks for what
gives that away; only the certified gain holds at every n.
"""

import math
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from lexergy.core.errors import LexergyError
from lexergy.core.finite import check_energies
from lexergy.core.logspace import effective_sample_size, leave_one_out, log_mean_exp

LEAST_ESS: Final = 50.0
"""The effective sample size below which nothing is called resolved."""

HEAVY: Final = 0.5
"""A normalised weight above this makes the estimate of one prompt the estimate of one draw."""

MOST_HEAVY: Final = 0.01
"""The share of windows that may have such a weight."""

MOST_DRIFT: Final = 0.02
"""How far the mean of T_n may have moved since T_{n/2}, in nats."""

MOST_ON_TOP: Final = 0.05
"""The share of windows whose true continuation may outweigh every draw."""


def log_weights(energy: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """−e in float64; +inf is a text that is forbidden; NaN and −inf are errors that name the place."""
    values = energy.double()
    check_energies(values, lambda place: f"draw {place} of {tuple(energy.shape)}", forbid=True)
    if values.shape[-1] == 0:
        raise LexergyError(f"Shape {tuple(energy.shape)} holds no energies: give one draw or more.")
    return -values


def log_z_lower(energy: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """T_n: below log Z on average at every n. −inf where every draw is forbidden."""
    return log_mean_exp(log_weights(energy))


def log_z_upper(energy: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """U_n, n ≥ 2: above log Z on average from some n on. +inf where at most one draw is allowed: nothing
    bounds it."""
    log_weight = log_weights(energy)
    n = log_weight.shape[-1]
    if n < 2:
        raise LexergyError("One draw gives no upper bound on log Z: draw two or more.")
    # Relative to the largest, and l_i as log1p(−W_i) itself: what is rounded away here would come back n-fold.
    top = log_weight.amax(dim=-1, keepdim=True).nan_to_num(neginf=0.0)
    total = torch.logsumexp(log_weight - top, dim=-1, keepdim=True)
    left = leave_one_out(log_weight - top - total).mean(dim=-1)
    upper = (top + total).squeeze(-1) - math.log(n) - 2 * (n - 1) * (math.log1p(1 / (n - 1)) + left)
    return torch.where(torch.isneginf(total.squeeze(-1)), torch.inf, upper)


def certified_gain(energy: Float[Tensor, "*batch n"], true_energy: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """An unbiased estimate of E log[ n·w⁺ / (w⁺ + Σ_{i=2..n} w_i) ] ≤ log p_n(x⁺) − log P_LM(x⁺), in nats.

    p_n is the law of Algorithm 1 over n draws, n the number of draws given here. The bound asks for n−1 of
    them beside the true text, so each of the n leave-one-out sets serves once and their values are averaged:
    every term has the stated expectation, hence so has the mean, at a smaller spread than any one of them.
    """
    others = leave_one_out(log_weights(energy))
    own = log_weights(true_energy[..., None])
    # log w⁺ − log(w⁺ + rest) = −log(1 + rest / w⁺); written with logaddexp, which is exact at both ends.
    odds = torch.where(torch.isneginf(own), torch.inf, others - own)
    return math.log(energy.shape[-1]) - torch.logaddexp(torch.zeros_like(odds), odds).mean(dim=-1)


@dataclass(frozen=True)
class Curve:
    """The bounds as more of the same draws are used: column j uses the first `sizes[j]`."""

    sizes: tuple[int, ...]
    lower: Float[Tensor, "*batch sizes"]
    upper: Float[Tensor, "*batch sizes"]
    gain: Float[Tensor, "*batch sizes"] | None


def prefix_curve(
    energy: Float[Tensor, "*batch n"],
    true_energy: Float[Tensor, "*batch"] | None = None,
    sizes: tuple[int, ...] | None = None,
) -> Curve:
    """Bounds (and the certified gain) against n from one set of draws; by default at 2, 4, 8, … and all.

    Sizes that double cost, together, two passes over the draws. `upper` is NaN at n = 1.
    """
    n = energy.shape[-1]
    if sizes is None:
        sizes = (*(2**i for i in range(1, n.bit_length()) if 2**i < n), n)
    if not sizes or min(sizes) < 1 or max(sizes) > n:
        raise LexergyError(f"Sizes lie between 1 and the {n} draws there are; received {list(sizes)}.")
    parts = [energy[..., :size] for size in sizes]
    lower = torch.stack([log_z_lower(part) for part in parts], dim=-1)
    none = torch.full_like(lower[..., 0], math.nan)
    upper = torch.stack([log_z_upper(part) if part.shape[-1] > 1 else none for part in parts], dim=-1)
    gain = None
    if true_energy is not None:
        gain = torch.stack([certified_gain(part, true_energy) for part in parts], dim=-1)
    return Curve(sizes, lower, upper, gain)


def sample_size_and_top(
    energy: Float[Tensor, "*batch n"],
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """The effective sample size and the largest normalised weight; 0 and 0 where every draw is forbidden."""
    log_weight = log_weights(energy)
    top = torch.exp(log_weight.amax(dim=-1) - torch.logsumexp(log_weight, dim=-1))
    return effective_sample_size(log_weight).nan_to_num(0.0), top.nan_to_num(0.0)


@dataclass(frozen=True)
class Resolution:
    """Whether a set of windows was sampled well enough to speak of its log Z, and why not.

    `drift`: mean of T_n − T_{n/2}. `on_top`: the share of windows whose true continuation outweighs every
    draw. `reasons`: what speaks against it, in words; empty where nothing does.
    """

    resolved: bool
    n: int
    windows: int
    median_ess: float
    largest_weight: float
    heavy: float
    drift: float
    on_top: float
    reasons: tuple[str, ...]


def resolved(energy: Float[Tensor, "windows n"], true_energy: Float[Tensor, "windows"]) -> Resolution:
    """The four criteria over a set of windows; all must hold.

    Median ESS ≥ 50; at most 1 % of windows with a weight above 0.5; |mean(T_n − T_{n/2})| ≤ 0.02; the true
    continuation on top in at most 5 % of windows.
    """
    windows, n = energy.shape
    if windows == 0:
        raise LexergyError("No windows were given: there is nothing to resolve.")
    ess, top = sample_size_and_top(energy)
    median_ess = float(torch.quantile(ess, 0.5))
    # Where every draw is forbidden the weights say nothing at all: worse than one draw that decides.
    heavy = float(((top > HEAVY) | (top == 0)).double().mean())
    halves = log_z_lower(energy[:, : n // 2]) if n > 1 else torch.full_like(top, math.nan)
    drift = float((log_z_lower(energy) - halves).mean())
    on_top = float((true_energy.double() < energy.double().amin(dim=-1)).double().mean())
    reasons: list[str] = []
    if not median_ess >= LEAST_ESS:
        reasons.append(f"the median effective sample size is {median_ess:.1f}, below {LEAST_ESS:g}")
    if not heavy <= MOST_HEAVY:
        reasons.append(f"one draw has over half the weight in {heavy:.1%} of windows, above {MOST_HEAVY:.0%}")
    if n < 2:
        reasons.append("one draw a window cannot show whether log Z still moves")
    elif not abs(drift) <= MOST_DRIFT:
        reasons.append(f"log Z moved by {drift:+.3f} nats over the second half, beyond {MOST_DRIFT:g}")
    if not on_top <= MOST_ON_TOP:
        reasons.append(
            f"the true continuation outweighs every draw in {on_top:.1%} of windows, above {MOST_ON_TOP:.0%}"
        )
    return Resolution(
        resolved=not reasons,
        n=n,
        windows=windows,
        median_ess=median_ess,
        largest_weight=float(top.max()),
        heavy=heavy,
        drift=drift,
        on_top=on_top,
        reasons=tuple(reasons),
    )

"""Two-sided and certified perplexity of a residual model on held-out text, with intervals over documents.

    PPL = exp( −(1/M) Σ_test [ log P_LM(x|c) − E(c, x) − log Ẑ(c) ] )          generation paper, section 3.2

The lower estimate T_n of log Z gives the lower perplexity, U_n the upper; the certified one is that of Algorithm 1 with
n draws, which is a normalised model itself: exp( −(1/M) Σ [ log P_LM + gain ] ). A claim rests on the certified one.

*Inputs*, one a window: log P_LM of the true continuation, its energy, the energies of n untruncated draws, its number
of tokens, its group (document or author). *Requirements*: all from one numerical law and one space of continuations.

Not to be confused with: the two bounds agreeing, which they may while both are wrong (`core.bounds.resolved` looks for
that).
"""

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lexergy.core import bounds
from lexergy.core.bounds import Resolution
from lexergy.core.errors import LexergyError
from lexergy.core.types import Estimate
from lexergy.estimators.bootstrap import bootstrap


@dataclass(frozen=True)
class Judged:
    """What was measured on each window; enough to compute any estimate again."""

    log_p: Float[Tensor, "windows"]
    true_energy: Float[Tensor, "windows"]
    energy: Float[Tensor, "windows n"]
    sizes: Int[Tensor, "windows"]
    groups: list[str]
    law: str


@dataclass(frozen=True)
class Perplexity:
    """Perplexities with 95 % intervals over groups. `saved`: base minus certified, paired. `gain`: certified, in nats a
    window. `accuracy`: how often a true text has energy below zero or a drawn one above."""

    base: Estimate
    lower: Estimate
    upper: Estimate
    certified: Estimate
    saved: Estimate
    gain: Estimate
    accuracy: float
    resolution: Resolution
    windows: int
    groups: int
    tokens: int
    n: int
    law: str
    judged: Judged = field(repr=False)

    @property
    def resolved(self) -> bool:
        """Whether the bounds on log Z can be believed at this n."""
        return self.resolution.resolved

    def to_json(self) -> dict[str, Any]:
        """Everything but the numbers of single windows."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "judged"}
        plain = {k: asdict(v) if isinstance(v, Estimate | Resolution) else v for k, v in values.items()}
        return {**plain, "resolved": self.resolved}


def perplexity(judged: Judged, seed: int = 0) -> Perplexity:
    """All of it, from what was measured on each window."""
    energy, own = judged.energy.double(), judged.true_energy.double()
    if bool(torch.isposinf(own).any()):
        row = int(torch.isposinf(own).nonzero()[0])
        raise LexergyError(
            f"The energy forbids (+inf) the true continuation of window {row}, so the joint model gives it probability 0 "
            "and has no finite perplexity. Loosen the constraint."
        )
    lower_z = bounds.log_z_lower(energy)
    upper_z = bounds.log_z_upper(energy) if energy.shape[1] > 1 else torch.full_like(lower_z, torch.inf)
    gain = bounds.certified_gain(energy, own)
    groups = len(set(judged.groups))

    def estimate(log_prob: Tensor, against: Tensor | None = None) -> Estimate:
        if not bool(torch.isfinite(log_prob).all()):
            # One window that nothing bounds leaves the whole unbounded.
            return Estimate(math.inf, math.inf, math.inf, groups)
        sizes = judged.sizes
        return bootstrap(log_prob, judged.groups, sizes=sizes, statistic="perplexity", against=against, seed=seed)

    certified = judged.log_p + gain
    # Energy 0 tells nothing: half right.
    right = (1 - torch.sign(own)).mean() + (1 + torch.sign(energy)).mean()
    return Perplexity(
        base=estimate(judged.log_p),
        lower=estimate(judged.log_p - own - lower_z),
        upper=estimate(judged.log_p - own - upper_z),
        certified=estimate(certified),
        saved=estimate(judged.log_p, against=certified),
        gain=bootstrap(gain, judged.groups, seed=seed),
        accuracy=float(right / 4),
        resolution=bounds.resolved(energy, own),
        windows=len(judged.groups),
        groups=groups,
        tokens=int(judged.sizes.sum()),
        n=energy.shape[1],
        law=judged.law,
        judged=judged,
    )

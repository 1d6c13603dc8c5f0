"""Log-space arithmetic: log mean exp a = logsumexp a − log n, its leave-one-out values, and sums over chunks.

Every function takes any floating dtype and answers in float64: sums over samples are long, and the differences that
matter are small.

Not to be confused with: `torch.logsumexp`, which keeps its input's dtype and has no leave-one-out form.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


def log_mean_exp(values: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """log (1/n) Σ exp(values) along the last axis."""
    return torch.logsumexp(values.double(), dim=-1) - math.log(values.shape[-1])


def normalised(log_weight: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """Weights that sum to one along the last axis."""
    return torch.softmax(log_weight.double(), dim=-1)


def leave_one_out(values: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """logsumexp over all entries but one, for each one left out.

    For the largest entry the rest is summed directly: there, logsumexp minus that entry would cancel. For every other
    entry, log(Σ − w) = logΣ + log1p(−w/Σ) is exact, since w/Σ ≤ 1/2. One entry alone leaves nothing: −inf.
    """
    values = values.double()
    if values.shape[-1] == 1:
        return torch.full_like(values, -math.inf)
    total = torch.logsumexp(values, dim=-1, keepdim=True)
    top = values.argmax(dim=-1, keepdim=True)
    rest = torch.logsumexp(values.scatter(-1, top, -math.inf), dim=-1, keepdim=True)
    share = torch.where(torch.isneginf(total), torch.zeros_like(values), torch.exp(values - total))
    share = share.scatter(-1, top, 0.0)  # not used there, and log1p(−1) would be −inf
    return (total + torch.log1p(-share)).scatter(-1, top, rest)


def effective_sample_size(log_weight: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """(Σ w)² / Σ w²."""
    log_weight = log_weight.double()
    return torch.exp(2 * torch.logsumexp(log_weight, dim=-1) - torch.logsumexp(2 * log_weight, dim=-1))


@dataclass(frozen=True)
class LogSum:
    """A running log Σ exp over chunks; `add` as often as needed, in any split, then `log_mean`."""

    log_total: Float[Tensor, "*batch"]
    count: int

    @staticmethod
    def empty(*batch: int) -> "LogSum":
        """The sum of nothing."""
        return LogSum(torch.full(batch, -math.inf, dtype=torch.float64), 0)

    def add(self, values: Float[Tensor, "*batch n"]) -> "LogSum":
        """The sum with a chunk more along the last axis."""
        chunk = torch.logsumexp(values.double(), dim=-1)
        return LogSum(torch.logaddexp(self.log_total, chunk), self.count + values.shape[-1])

    def log_mean(self) -> Float[Tensor, "*batch"]:
        """log of the mean of all that was added."""
        return self.log_total - math.log(self.count)

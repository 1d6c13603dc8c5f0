"""An interval over documents: quantiles of a statistic of G groups drawn with replacement from G.

    mean = Σ_g values_g / Σ_g sizes_g          perplexity = exp(−mean)       (values: log P, sizes: tokens)

Efron's percentile bootstrap over groups: windows of one document (or author) depend on each other, so whole
groups are drawn, and a ratio is formed anew from each draw.

*Requirements.* Few groups (below some twenty) give intervals that are too short; one group gives none (−inf,
inf).

*Relations.* `against` gives the difference of two systems on the same draws of documents; that is how
systems are compared, never interval against interval. A one-sided test at level α reads `low` at level = 1 −
2α.

*Inputs.* One value a window, the group each window belongs to, and, where windows differ in size, their
numbers of tokens.

Example:

    bootstrap(log_p, documents, sizes=tokens, statistic="perplexity", against=other_log_p, seed=0)
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lexergy.core.errors import LexergyError, unknown
from lexergy.core.laws import keeps
from lexergy.core.random import Keyed
from lexergy.core.toy import Estimation
from lexergy.core.types import Estimate

_STATISTICS = ("mean", "perplexity")
_CHUNK = 1 << 22  # draws of groups held at once: 32 MB of indices


@keeps("asymptotic")
def bootstrap(
    values: Float[Tensor, "windows"],
    groups: Sequence[str] | Sequence[int],
    *,
    sizes: Int[Tensor, "windows"] | Float[Tensor, "windows"] | None = None,
    statistic: str = "mean",
    against: Float[Tensor, "windows"] | None = None,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """The statistic with its interval over groups; with `against`, its difference to another system's."""
    if statistic not in _STATISTICS:
        raise unknown("statistic", statistic, _STATISTICS)
    if not 0 < level < 1:
        raise LexergyError(f"level is a probability between 0 and 1; received {level}.")
    if resamples < 1:
        raise LexergyError(f"resamples is a positive number; received {resamples}.")
    columns = [values, torch.ones_like(values) if sizes is None else sizes]
    columns += [] if against is None else [against]
    lengths = [len(groups), *(len(column) for column in columns)]
    if min(lengths) == 0 or len(set(lengths)) > 1:
        raise LexergyError(
            f"Each window has a group, a value, a size; received {lengths[0]} groups and {lengths[1:]} numbers."
        )
    table = torch.stack([column.double().cpu() for column in columns], dim=1)
    if not bool(torch.isfinite(table).all()):
        row = int((~torch.isfinite(table)).any(dim=1).nonzero()[0])
        raise LexergyError(
            f"Window {row} holds {[float(value) for value in table[row]]}: an average needs finite numbers. "
            "A text of probability 0 (under a truncated law, say) has no finite perplexity."
        )
    sums = _by_group(table, groups)
    count = sums.shape[0]
    value = float(_statistic(sums.sum(dim=0), statistic))
    if count == 1:
        return Estimate(value, float("-inf"), float("inf"), 1)
    tail = (1 - level) / 2
    bounds = torch.tensor([tail, 1 - tail], dtype=torch.float64)
    low, high = torch.quantile(_resampled(sums, statistic, resamples, seed), bounds)
    return Estimate(value, float(low), float(high), count)


def _by_group(table: Float[Tensor, "windows columns"], groups: Sequence[str] | Sequence[int]) -> Tensor:
    """Sums over the windows of each group, in order of first appearance."""
    places = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    index = torch.tensor([places[group] for group in groups])
    return torch.zeros(len(places), table.shape[1], dtype=torch.float64).index_add_(0, index, table)


def _statistic(sums: Float[Tensor, "*draws columns"], statistic: str) -> Float[Tensor, "*draws"]:
    """From sums (values, sizes, and perhaps the other system's values) to the statistic, or its
    difference."""
    means = sums[..., [0, *range(2, sums.shape[-1])]] / sums[..., 1:2]
    found = torch.exp(-means) if statistic == "perplexity" else means
    return found[..., 0] if found.shape[-1] == 1 else found[..., 0] - found[..., 1]


def _resampled(sums: Float[Tensor, "groups columns"], statistic: str, resamples: int, seed: int) -> Tensor:
    """The statistic of each draw of groups."""
    count = sums.shape[0]
    at_once = max(1, _CHUNK // count)
    found: list[Tensor] = []
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = Keyed.of(seed, "bootstrap", start).integers(count, rows * count).view(rows, count)
        found.append(_statistic(sums[drawn].sum(dim=1), statistic))
    return torch.cat(found)


def tiny() -> Estimation:
    """Perplexity over documents of three kinds; a ratio and an exponential make it biased, less so with more
    documents."""
    log_p = torch.tensor([-1.0, -4.0, -9.0], dtype=torch.float64)
    tokens = torch.tensor([2, 3, 4])
    law = torch.tensor([0.3, 0.5, 0.2], dtype=torch.float64)

    def estimate(places: Tensor) -> float:
        groups = list(range(len(places)))
        return bootstrap(log_p[places], groups, sizes=tokens[places], statistic="perplexity", resamples=1).value

    return Estimation(
        estimate=estimate,
        law=law,
        truth=float(torch.exp(-(law * log_p).sum() / (law * tokens).sum())),
        sizes=(1, 2, 4),
    )

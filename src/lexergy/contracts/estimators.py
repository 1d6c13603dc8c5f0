"""Estimators: the expectation at each n, summed over every sample of n outcomes, stands where the law says.

*unbiased*: it is the quantity. *lower bound*, *upper bound*: it stays on its side and comes nearer.
*asymptotic*: the bias shrinks from each n to the next.
"""

import itertools
import math

import torch
from torch import Tensor

from lexergy.contracts.broken import require
from lexergy.core.toy import Estimation

EXACT = 1e-9
LOOK = "a missing − log n, a sum outside log space or below float64, the wrong log q in the weights"


def check(estimation: Estimation, law: str) -> None:
    """One estimator by its law."""
    sizes = estimation.sizes
    tolerance = EXACT * max(1.0, abs(estimation.truth))
    biases = [expectation(estimation, n) - estimation.truth for n in sizes]
    numbers = ", ".join(f"{bias:+.6g} at n = {n}" for n, bias in zip(sizes, biases, strict=True))
    found = f"expectation − truth is {numbers}; the truth is {estimation.truth:.6g}"
    if law == "unbiased":
        law_text = "unbiased: the expectation is the quantity at every n"
        require(all(abs(bias) <= tolerance for bias in biases), law_text, found, LOOK)
        return
    if law == "lower bound":
        law_text = "lower bound: the expectation is at most the quantity at every n"
        require(all(bias <= tolerance for bias in biases), law_text, found, LOOK)
    elif law == "upper bound":
        law_text = "upper bound: the expectation is at least the quantity at every n"
        require(all(bias >= -tolerance for bias in biases), law_text, found, LOOK)
    shrinks = all(abs(b) < abs(a) or abs(b) <= tolerance for a, b in itertools.pairwise(biases))
    require(len(sizes) > 1 and shrinks, "the bias shrinks as n grows", found, LOOK)


def expectation(estimation: Estimation, n: int) -> float:
    """E over every sample of n outcomes."""
    law = estimation.law.double()
    reachable = [place for place in range(len(law)) if law[place] > 0]
    terms: list[Tensor] = []
    for sample in itertools.product(reachable, repeat=n):
        places = torch.tensor(sample, dtype=torch.long)
        value = float(estimation.estimate(places))
        require(
            math.isfinite(value),
            "estimates are finite numbers",
            f"{value} from outcomes {list(sample)}",
            LOOK,
        )
        terms.append(law[places].prod() * value)
    return float(torch.stack(terms).sum())

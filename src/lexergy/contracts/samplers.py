"""Samplers: their own randomness is enumerated, so that laws and kernels are summed, not estimated.

*invariant*: π K = π, and one closed class. *exact draws*: the law of an outcome is the target. *asymptotic*:
the stated law at n is the one drawn from, and it approaches the target. *baseline*: it runs, and its page
says what it is.
"""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from lexergy.contracts.broken import ContractError, require, require_close
from lexergy.core.random import Keyed, outcomes
from lexergy.core.toy import Drawing, Kernel

EXACT = 1e-10
GROWING = (1, 2, 4, 8)
"""The n at which a finite-n law is compared with its target."""


def check(sampler: Drawing | Kernel, law: str) -> None:
    """One sampler by its law."""
    expected: type[Any] = Kernel if law == "invariant" else Drawing
    if law != "baseline" and not isinstance(sampler, expected):
        raise ContractError(
            f"The law {law!r} is checked on a {expected.__name__}; received a {type(sampler).__name__}."
        )
    if law == "baseline":
        _runs(sampler)
    elif isinstance(sampler, Kernel):
        _invariant(sampler)
    elif law == "exact draws":
        _drawn(sampler)
        _same(sampler.law, sampler.target, "exact draws: the law of an outcome is the target", "target")
    else:
        _drawn(sampler)
        _approaches(sampler)


def check_named(name: str, page: str) -> None:
    """A sampler without a law says so in the first line of its page."""
    require(
        "baseline" in page.lower(),
        "a sampler without a law is named a baseline",
        f"the page of {name} begins {page!r}",
        "the first line of its docstring",
    )


def _runs(sampler: Drawing | Kernel) -> None:
    rng = Keyed.of(0, "contract")
    size = len(sampler.target)
    found = sampler.draw(rng) if isinstance(sampler, Drawing) else sampler.step(0, rng)
    require(0 <= found < size, "outcomes are places in the universe", f"{found} of {size}", "the index")


def outcome_law(sampler: Drawing) -> Tensor:
    """The exact law of one outcome, from every path through the sampler's own randomness."""
    law = torch.zeros(len(sampler.law), dtype=torch.float64)
    for place, log_prob in outcomes(sampler.draw):
        law[place] += math.exp(log_prob)
    return law


def _drawn(sampler: Drawing) -> None:
    drawn = outcome_law(sampler)
    require_close(drawn.sum(), torch.ones(()), EXACT, "mass 1", "all paths together", "the enumeration")
    _same(drawn, sampler.law, "the stated law is the one drawn from", "stated")


def _same(found: Tensor, expected: Tensor, law: str, name: str) -> None:
    look = "the weights (which log q, which base, which sign), and the resampling"
    require_close(found, expected, EXACT, law, f"a probability against the {name} one", look)


def _approaches(sampler: Drawing) -> None:
    away = [0.5 * float((sampler.at(n) - sampler.target).abs().sum()) for n in GROWING]
    numbers = ", ".join(f"{value:.3g} at n = {n}" for n, value in zip(GROWING, away, strict=True))
    nearer = all(b < a or b < EXACT for a, b in itertools.pairwise(away))
    look = "weights made of another probability than the one drawn with, or a target that is not the limit"
    law = "asymptotic: the finite-n law approaches the target"
    require(nearer and away[-1] <= 0.5 * away[0], law, f"total variation {numbers}", look)


def transitions(kernel: Kernel) -> Tensor:
    """K[s, s']: every path of one move from every state."""
    size = len(kernel.target)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    for state in range(size):
        for place, log_prob in outcomes(lambda rng, state=state: kernel.step(state, rng)):
            matrix[state, place] += math.exp(log_prob)
    return matrix


def closed_classes(matrix: Tensor) -> list[list[int]]:
    """Sets of states that are never left once entered, and all of whose states reach each other."""
    size = len(matrix)
    reach = (matrix > 0) | torch.eye(size, dtype=torch.bool)
    for _ in range(max(1, math.ceil(math.log2(size)))):
        reach = (reach.double() @ reach.double()) > 0
    closed = {
        tuple(reach[s].nonzero().flatten().tolist())
        for s in range(size)
        if bool((reach[:, s] | ~reach[s]).all())  # all that s reaches leads back to s
    }
    return [list(members) for members in sorted(closed)]


def _invariant(kernel: Kernel) -> None:
    matrix, target = transitions(kernel), kernel.target.double()
    ones = torch.ones(len(target), dtype=torch.float64)
    require_close(matrix.sum(1), ones, EXACT, "mass 1", "a row of K", "the enumeration")
    require_close(
        target @ matrix,
        target,
        EXACT,
        "invariant: πK = π",
        "a probability after one move",
        "the acceptance ratio (sums over the block, both directions), or a block chosen by the state",
    )
    classes = closed_classes(matrix)
    require(
        len(classes) == 1,
        "invariant: one closed class, so that the chain can reach everything from anywhere",
        f"{len(classes)} closed classes, such as {classes[0][:8]} and {classes[-1][:8]}",
        "a proposal that never proposes some tokens (a pure nucleus), or a fixed parity of moves",
    )

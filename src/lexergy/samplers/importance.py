"""Algorithm 1: draw x_1..x_n from Q, keep one with probability ∝ w(x_i), w = exp(−E) or P_LM/Q · exp(−E).

Generation paper, section 3.3 ("top-k joint sampling" where Q is a top-k law). Its law at n is itself
normalised, and known:

    p_n(x) = n · Q(x) · E_{x_2..x_n ~ Q} [ w(x) / (w(x) + Σ_{i≥2} w(x_i)) ]   →   Q(x)·w(x) / Z      as n → ∞

*Requirements.* Energies that are finite, or +inf for texts that are forbidden. Independent texts of law p_n
need a set of draws each: a second one kept from the same draws has the same law, but depends on the first
(and without replacement has another law).

*Relations.* n = 1 is Q. m steps with `rng.at(0)`, `rng.at(1)` … keep the rows of `Samples.pick_rows(m,
rng)`. `certified` bounds −log p_n(x⁺) from above.

*Inputs.* `draw`: from randomness to n draws; `energy`: from their tokens to one number each.

*Not to be confused with* exact draws: at a finite n the law is p_n, and with a truncated Q the limit is Q's
product.

Example:

    state = Importance.init(rng, lambda rng: lm.sample("The council", n=64, seed=0), energy.of_tokens)
    state, kept = Importance.step(rng.at(0), state)
    state.samples.texts[kept.row]
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lexergy.core import logspace, toy
from lexergy.core.errors import LexergyError
from lexergy.core.random import Rng
from lexergy.core.types import Draws, Law, Samples, Tokens


@final
class Importance:
    """Resampling by weight: `init` draws and weighs, each `step` keeps one text."""

    law: ClassVar[str] = "asymptotic"

    @dataclass(frozen=True)
    class State:
        """The weighed draws, and which of them may still be kept."""

        samples: Samples
        left: Bool[Tensor, "batch"]

    @dataclass(frozen=True)
    class Kept:
        """The row kept, and the probability with which it was, given the draws."""

        row: int
        probability: float

    @staticmethod
    def init(
        rng: Rng,
        draw: Callable[[Rng], Draws],
        energy: Callable[[Tokens], Float[Tensor, "batch"]],
        base: Literal["draw", "full"] = "draw",
    ) -> State:
        """Draw and weigh (`Samples.weigh`, which says what `base` means)."""
        draws = draw(rng.at("draws"))
        samples = Samples.weigh(draws, energy(draws.tokens), base)
        return Importance.State(samples, samples.weight > 0)

    @staticmethod
    def step(rng: Rng, state: State, replace: bool = True) -> tuple[State, Kept]:
        """Keep one draw by weight; with replace=False it is not kept again."""
        if not bool(state.left.any()):
            raise LexergyError(
                f"All of the {len(state.samples)} draws that have a weight above zero are kept already. Draw "
                "more, or replace=True."
            )
        log_weight = torch.log(state.samples.weight).masked_fill(~state.left, -torch.inf)
        row = int(rng.categorical(log_weight[None])[0])
        kept = Importance.Kept(row, float(logspace.normalised(log_weight)[row]))
        left = state.left if replace else state.left.index_fill(0, torch.tensor([row]), False)
        return Importance.State(state.samples, left), kept


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a sum of so many numbers ≥ 0, in order."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def _law_at(log_q: Float[Tensor, "texts"], log_weight: Float[Tensor, "texts"], n: int) -> Float[Tensor, "texts"]:
    """p_n by summing over how often each text is among the n − 1 other draws."""
    counts = torch.tensor(list(_compositions(n - 1, len(log_q))), dtype=torch.float64)
    log_ways = math.lgamma(n) - torch.lgamma(counts + 1).sum(dim=1) + counts @ log_q
    others = torch.logsumexp(torch.log(counts) + log_weight, dim=1)
    share = log_weight - torch.logaddexp(log_weight, others[:, None])
    return n * torch.exp(log_q + torch.logsumexp(log_ways[:, None] + share, dim=0))


def tiny() -> toy.Drawing:
    """Three draws from a tabular language model over three texts, resampled by a random energy."""
    universe, n = toy.Universe(vocabulary=2, length=2, eos=1), 3
    lm = toy.TabularLM.random(universe, seed=1)
    energies = toy.energies(universe, seed=2)
    law = Law(model="toy", revision="", hash="", space="until_eos", max_new_tokens=universe.length, eos=(1,), seed=0)

    def draws(rng: Rng) -> Draws:
        places = torch.cat([lm.draw(rng.at("sample", i)) for i in range(n)])
        log_q = lm.log_prob[places]
        texts = [str(universe.rows[int(place)]) for place in places]
        return Draws(texts, universe.tokens.select(places), log_q, log_q, law)

    def draw(rng: Rng) -> int:
        state = Importance.init(rng, draws, lambda tokens: energies[universe.indices(tokens)])
        state, kept = Importance.step(rng.at("step"), state)
        return universe.index(state.samples.tokens.free_ids(kept.row))

    return toy.Drawing(
        draw=draw,
        law=_law_at(lm.log_prob, -energies, n),
        target=logspace.normalised(lm.log_prob - energies),
        at=lambda size: _law_at(lm.log_prob, -energies, size),
    )

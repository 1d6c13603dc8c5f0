"""Objectives, samplers and estimators over tables, sound ones and ones with one defect each."""

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lexergy.core.random import Rng
from lexergy.core.toy import MASKED, Drawing, Estimation, Kernel, Problem, TabularLM, TabularMasked, Universe, energies

FOUR: Final = Universe(vocabulary=2, length=2)
DATA: Final = TabularLM.random(FOUR, seed=1).log_prob
NOISE: Final = TabularLM.random(FOUR, seed=2).log_prob
BEST: Final = NOISE - DATA
"""The energy at which noise · exp(−E) is the data."""


def nce(loss: Callable[[Tensor, Tensor], Tensor]) -> Problem:
    """Noise-contrastive estimation of a table of energies. `loss`: from energies of data and of noise."""

    def expected(energy: Tensor) -> Tensor:
        data, noise = loss(energy, energy)
        return (DATA.exp() * data + NOISE.exp() * noise).sum()

    return Problem(optimum=BEST, expected_loss=expected, wrong=BEST + torch.tensor([0.5, -0.3, 0.2, -1.0]))


def sound_objective() -> Problem:
    return nce(lambda data, noise: (softplus(data), softplus(-noise)))


def energy_sign_turned() -> Problem:
    return nce(lambda data, noise: (softplus(-data), softplus(noise)))


def loss_maximised() -> Problem:
    return nce(lambda data, noise: (-softplus(data), -softplus(-noise)))


def log_k_forgotten() -> Problem:
    """Two noises a text, their terms summed, without the log 2 in the log-odds."""
    return nce(lambda data, noise: (softplus(data), 2 * softplus(-noise)))


def detached() -> Problem:
    return nce(lambda data, noise: (softplus(data.detach()), softplus(-noise.detach())))


def outside_log_space() -> Problem:
    problem = sound_objective()

    def expected(energy: Tensor) -> Tensor:
        p = torch.exp(-800 * energy) / torch.exp(-800 * energy).sum()
        return -(DATA.exp() * p.log()).sum()

    return Problem(problem.optimum, expected, problem.wrong)


ENERGY: Final = energies(FOUR, seed=3)
MASKED_LM: Final = TabularMasked.inconsistent(FOUR, seed=4, spread=2.0)
TARGET: Final = torch.softmax(-ENERGY, dim=0)


def chain(
    ratio: Callable[[list[float], list[float]], float] | None = None,
    place: Callable[[tuple[int, ...], Rng], int] | None = None,
    nucleus: bool = False,
) -> Kernel:
    """Metropolis-Hastings whose block is one token, or both at once; defects by argument.

    `ratio`: from log q of the old and of the new tokens to the correction; `place`: which token moves (2:
    both).
    """
    correct = ratio or (lambda old, new: sum(old) - sum(new))

    def step(state: int, rng: Rng) -> int:
        row = FOUR.rows[state]
        at = int(rng.at("place").categorical(torch.zeros(1, 3))[0]) if place is None else place(row, rng)
        block = [0, 1] if at == 2 else [at]
        context = tuple(MASKED if i in block else token for i, token in enumerate(row))
        new, old_q, new_q = list(row), [], []
        for i in block:
            law = MASKED_LM.conditional(context)[i]
            if nucleus:
                law = torch.log_softmax(law.masked_fill(law < law.max(), -math.inf), dim=0)
            new[i] = int(rng.at("token", i).categorical(law[None])[0])
            old_q.append(float(law[row[i]]))
            new_q.append(float(law[new[i]]))
        moved = FOUR.index(new)
        log_accept = float(ENERGY[state] - ENERGY[moved]) + correct(old_q, new_q)
        accept = torch.tensor([math.exp(min(0.0, log_accept))], dtype=torch.float64)
        return moved if bool(rng.at("accept").bernoulli(accept)[0]) else state

    return Kernel(step, TARGET)


def _least_confident(row: tuple[int, ...], rng: Rng) -> int:
    """Mostly the token that the model likes least where it stands, which depends on the state."""
    seen = [
        float(MASKED_LM.conditional(tuple(MASKED if i == j else t for j, t in enumerate(row)))[i][row[i]])
        for i in range(2)
    ]
    lean = torch.tensor([[0.0, 0.0]], dtype=torch.float64)
    lean[0, int(seen[1] < seen[0])] = 2.0
    return int(rng.at("place").categorical(lean)[0])


def ratio_missing() -> Kernel:
    return chain(ratio=lambda *_: 0.0)


def ratio_averaged() -> Kernel:
    return chain(ratio=lambda old, new: (sum(old) - sum(new)) / len(old))


def block_chosen_by_state() -> Kernel:
    return chain(place=_least_confident)


def pure_nucleus() -> Kernel:
    return chain(nucleus=True)


TWO: Final = Universe(vocabulary=2, length=1)
FULL: Final = TabularLM.random(TWO, seed=5).log_prob
DRAWN: Final = torch.log_softmax(2 * FULL, dim=0)
"""The law drawn from: the full one at temperature one half."""
PAIR: Final = energies(TWO, seed=6)


def resampled(log_weight: Tensor, keep: str = "by weight") -> Drawing:
    """Importance resampling of three draws; the law it states is the sound one: weights full / drawn ·
    exp(−E)."""
    sound = FULL - DRAWN - PAIR

    def draw(rng: Rng) -> int:
        places = torch.stack([rng.at(i).categorical(DRAWN[None])[0] for i in range(3)])
        if keep == "the best":
            return int(places[log_weight[places].argmax()])
        return int(places[rng.at("keep").categorical(log_weight[places][None])[0]])

    def at(n: int) -> Tensor:
        found = torch.zeros(2, dtype=torch.float64)
        for places in torch.cartesian_prod(*[torch.arange(2)] * n).view(-1, n):
            share = torch.softmax(sound[places], dim=0)
            found.index_add_(0, places, DRAWN[places].sum().exp() * share)
        return found

    return Drawing(draw, at(3), torch.softmax(FULL - PAIR, dim=0), at)


def sound_sampler() -> Drawing:
    return resampled(FULL - DRAWN - PAIR)


def weighed_with_untruncated() -> Drawing:
    """As if the draws had come from the full law."""
    return resampled(-PAIR)


def sampler_sign_turned() -> Drawing:
    return resampled(FULL - DRAWN + PAIR)


def best_kept() -> Drawing:
    return resampled(FULL - DRAWN - PAIR, keep="the best")


def partition(
    estimate: Callable[[Tensor], float], shift: float = 0.0, sizes: tuple[int, ...] = (1, 2, 4)
) -> Estimation:
    """log Z from energies of draws; `shift` moves every energy."""
    energy = PAIR + shift
    truth = float(torch.logsumexp(FULL - energy, dim=0))
    return Estimation(lambda places: estimate(energy[places]), FULL.exp(), truth, sizes)


def mean_in_log_space(energy: Tensor) -> float:
    return float(torch.logsumexp(-energy, dim=0)) - math.log(len(energy))


def log_n_dropped(energy: Tensor) -> float:
    return float(torch.logsumexp(-energy, dim=0))


def linear_space(energy: Tensor) -> float:
    return float(torch.log(torch.exp(-energy).mean()))


def jackknife(energy: Tensor, dtype: torch.dtype) -> float:
    """n T_n − (n−1) · mean of the T_{n−1} that leave one out; at n = 1, T_1."""
    values, n = (-energy).to(dtype), len(energy)
    if n == 1:
        return float(values[0])
    whole = torch.logsumexp(values, 0) - math.log(n)
    rest = [torch.logsumexp(torch.cat([values[:i], values[i + 1 :]]), 0) - math.log(n - 1) for i in range(n)]
    return float(n * whole - (n - 1) * torch.stack(rest).mean())

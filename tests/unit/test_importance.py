"""Algorithm 1: its law at n by enumeration, its limit, forbidden texts, and resampling without replacement."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from lexergy.core import toy
from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed, Rng, outcomes
from lexergy.core.types import Draws, Law
from lexergy.samplers.importance import Importance, tiny

UNIVERSE = toy.Universe(vocabulary=2, length=2, eos=1)
LM = toy.TabularLM.random(UNIVERSE, seed=5)
ENERGY = toy.energies(UNIVERSE, seed=6)
LAW = Law(model="toy", revision="", hash="", space="until_eos", max_new_tokens=2, eos=(1,), seed=0, top_k=1)


def texts(places: Tensor, log_q: Tensor, log_p: Tensor | None) -> Draws:
    names = [str(UNIVERSE.rows[int(place)]) for place in places]
    return Draws(names, UNIVERSE.tokens.select(places), log_q, log_p, LAW)


def drawn_by(law: Tensor, n: int, base: str, energy: Tensor = ENERGY) -> Tensor:
    """The exact law of one kept text, over every path of n categorical draws and the resampling."""

    def draw(rng: Rng) -> Draws:
        places = torch.cat([rng.at(i).categorical(law[None]) for i in range(n)])
        return texts(places, law[places], LM.log_prob[places])

    def run(rng: Rng) -> int:
        state = Importance.init(rng, draw, lambda tokens: energy[UNIVERSE.indices(tokens)], base)
        state, kept = Importance.step(rng, state)
        return UNIVERSE.index(state.samples.tokens.free_ids(kept.row))

    found = torch.zeros(len(UNIVERSE), dtype=torch.float64)
    for place, log_prob in outcomes(run):
        found[place] += math.exp(log_prob)
    return found


def p_n(law: Tensor, weight: Tensor, n: int) -> Tensor:
    """n · Q(x) · E[ w(x) / (w(x) + Σ_{i≥2} w(x_i)) ], term by term."""
    found = torch.zeros(len(law), dtype=torch.float64)
    for x in range(len(law)):
        for others in itertools.product(range(len(law)), repeat=n - 1):
            at = list(others)
            found[x] += n * torch.exp(law[x] + law[at].sum()) * weight[x] / (weight[x] + weight[at].sum())
    return found


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_law_at_n_is_p_n(n: int) -> None:
    found = drawn_by(LM.log_prob, n, "draw")
    assert torch.allclose(found, p_n(LM.log_prob, torch.exp(-ENERGY), n), atol=1e-12)
    if n == 1:
        assert torch.allclose(found, torch.exp(LM.log_prob), atol=1e-12)


def test_the_stated_law_is_p_n_and_its_limit_the_target() -> None:
    drawing = tiny()
    log_q = toy.TabularLM.random(UNIVERSE, seed=1).log_prob
    weight = torch.exp(-toy.energies(UNIVERSE, seed=2))
    for n in (1, 2, 3, 5):
        assert torch.allclose(drawing.at(n), p_n(log_q, weight, n), atol=1e-12)
    away = [float((drawing.at(n) - drawing.target).abs().sum()) for n in (1, 4, 16, 64)]
    assert away[0] > 2 * away[1] > 4 * away[2] > 8 * away[3]
    assert away[3] < 0.02


@pytest.mark.parametrize("base", ["draw", "full"])
def test_truncated_draws_target_what_base_says(base: str) -> None:
    """Q never reaches the last text. draw targets Q·exp(−E), full targets P_LM·exp(−E) on what Q reaches."""
    tempered = torch.log_softmax(0.3 * LM.log_prob, 0)
    tempered[-1] = -math.inf
    q = torch.log_softmax(tempered, 0)
    log_weight = -ENERGY if base == "draw" else LM.log_prob - q - ENERGY
    reached = torch.isfinite(q)
    weight = torch.where(reached, torch.exp(log_weight), 0.0)
    expected = torch.zeros(len(UNIVERSE), dtype=torch.float64)
    expected[reached] = p_n(q[reached], weight[reached], 3)
    assert torch.allclose(drawn_by(q, 3, base), expected, atol=1e-12)
    far = p_n(q[reached], weight[reached], 7)
    near = torch.softmax((q + log_weight)[reached], 0)
    assert (far - near).abs().sum() < (expected[reached] - near).abs().sum()


def test_forbidden_texts_are_never_kept() -> None:
    energy = ENERGY.clone()
    energy[0] = math.inf
    places = torch.tensor([0, 1, 0, 2])
    state = Importance.init(
        Keyed.of(0), lambda _: texts(places, LM.log_prob[places], None), lambda t: energy[UNIVERSE.indices(t)]
    )
    kept = {Importance.step(Keyed.of(0, "keep", i), state)[1].row for i in range(50)}
    assert kept == {1, 3}
    state, _ = Importance.step(Keyed.of(0, 1), state, replace=False)
    state, _ = Importance.step(Keyed.of(0, 2), state, replace=False)
    with pytest.raises(LexergyError, match="kept already"):
        Importance.step(Keyed.of(0, 3), state, replace=False)
    with pytest.raises(LexergyError, match="forbidden"):
        Importance.init(
            Keyed.of(0), lambda _: texts(places[[0, 2]], torch.zeros(2), None), lambda _: torch.full((2,), math.inf)
        )


@pytest.mark.parametrize("replace", [True, False])
def test_steps_keep_the_rows_that_pick_rows_does(replace: bool) -> None:
    places = torch.tensor([0, 1, 2, 1, 0])
    state = Importance.init(
        Keyed.of(0), lambda _: texts(places, LM.log_prob[places], None), lambda t: ENERGY[UNIVERSE.indices(t)]
    )
    rng, rows = Keyed.of(9, "steps"), []
    for i in range(4):
        state, kept = Importance.step(rng.at(i), state, replace)
        assert 0 < kept.probability <= 1
        rows.append(kept.row)
    assert rows == state.samples.pick_rows(4, rng, replace)
    assert replace or len(set(rows)) == 4


def test_law_without_replacement_is_sequential() -> None:
    """Two rows kept of three: each pair has probability w_i · w_j / (1 − w_i)."""
    places = torch.tensor([0, 1, 2])
    start = Importance.init(
        Keyed.of(0), lambda _: texts(places, LM.log_prob[places], None), lambda t: ENERGY[UNIVERSE.indices(t)]
    )
    weight = start.samples.weight

    def run(rng: Rng) -> tuple[int, int]:
        state, first = Importance.step(rng, start, replace=False)
        _, second = Importance.step(rng, state, replace=False)
        return first.row, second.row

    found = {pair: math.exp(log_prob) for pair, log_prob in outcomes(run)}
    assert len(found) == 6
    for (i, j), probability in found.items():
        assert probability == pytest.approx(float(weight[i] * weight[j] / (1 - weight[i])), abs=1e-12)

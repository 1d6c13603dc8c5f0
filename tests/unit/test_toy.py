"""The toy universe lists every text once, laws have mass 1, conditionals are consistent when they claim to be."""

import math

import pytest
import torch

from lexergy.core.errors import LexergyError
from lexergy.core.random import outcomes
from lexergy.core.toy import MASKED, TabularLM, TabularMasked, Universe, energies
from lexergy.core.types import Direction, Tokens

UNIVERSES = [
    Universe(3, 3),
    Universe(3, 3, eos=2),
    Universe(2, 3, direction="right_to_left"),
    Universe(3, 3, eos=0, direction="right_to_left"),
]


def test_texts_are_listed_once() -> None:
    assert len(Universe(3, 4)) == 81
    variable = Universe(3, 3, eos=2)
    assert variable.rows[:3] == ((0, 0, 0), (0, 0, 1), (0, 0, 2))
    assert len(set(variable.rows)) == len(variable) == 1 + 2 + 4 + 8
    assert all(2 not in row[:-1] and (len(row) == 3 or row[-1] == 2) for row in variable.rows)
    backwards = Universe(3, 3, eos=2, direction="right_to_left")
    assert sorted(row[::-1] for row in backwards.rows) == list(variable.rows)


@pytest.mark.parametrize("universe", UNIVERSES, ids=str)
def test_places_and_tokens_go_both_ways(universe: Universe) -> None:
    assert universe.indices(universe.tokens).tolist() == list(range(len(universe)))
    with pytest.raises(LexergyError, match="no text of"):
        universe.index([7])


@pytest.mark.parametrize("universe", UNIVERSES, ids=str)
def test_language_model_has_mass_one_and_draws_its_law(universe: Universe) -> None:
    lm = TabularLM.random(universe, seed=0)
    assert float(lm.log_prob.exp().sum()) == pytest.approx(1, abs=1e-12)
    law = torch.zeros(len(universe), dtype=torch.float64)
    for place, log_prob in outcomes(lambda rng: int(lm.draw(rng)[0])):
        law[place] += math.exp(log_prob)
    torch.testing.assert_close(law, lm.log_prob.exp(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("universe", UNIVERSES, ids=str)
def test_a_law_is_the_chain_of_its_conditionals(universe: Universe) -> None:
    log_p = torch.log_softmax(-energies(universe, 1), dim=0)
    torch.testing.assert_close(TabularLM.of(universe, log_p + 5).log_prob, log_p, atol=1e-12, rtol=0)


def test_a_law_reads_both_ways() -> None:
    ways: list[Direction] = ["left_to_right", "right_to_left"]
    log_p = torch.log_softmax(-energies(Universe(3, 3), 2), dim=0)
    both = [TabularLM.of(Universe(3, 3, direction=way), log_p).log_prob for way in ways]
    torch.testing.assert_close(both[0], both[1], atol=1e-12, rtol=0)


def test_changed_tables_are_normalised() -> None:
    lm = TabularLM.random(Universe(3, 2, eos=1), seed=3)
    colder = lm.changed(lambda table: 2 * table)
    assert float(colder.log_prob.exp().sum()) == pytest.approx(1, abs=1e-12)
    expected = torch.log_softmax(2 * lm.next([0]), dim=-1)
    torch.testing.assert_close(colder.next([0]), expected, atol=1e-12, rtol=0)


def test_masked_conditionals_of_a_joint_law_are_its_conditionals() -> None:
    universe = Universe(3, 3)
    log_p = torch.log_softmax(-energies(universe, 4), dim=0)
    masked = TabularMasked.consistent(universe, log_p)
    p = log_p.exp().view(3, 3, 3)
    torch.testing.assert_close(masked.conditional([1, MASKED, 2])[1].exp(), p[1, :, 2] / p[1, :, 2].sum())
    torch.testing.assert_close(masked.conditional([MASKED, MASKED, 2])[0].exp(), p[:, :, 2].sum(1) / p[:, :, 2].sum())


def gibbs(masked: TabularMasked, place: int) -> torch.Tensor:
    """K of drawing one token anew."""
    universe = masked.universe
    matrix = torch.zeros(len(universe), len(universe), dtype=torch.float64)
    for state, row in enumerate(universe.rows):
        law = masked.conditional([MASKED if i == place else t for i, t in enumerate(row)])[place].exp()
        for token in range(universe.vocabulary):
            matrix[state, universe.index([token if i == place else t for i, t in enumerate(row)])] += law[token]
    return matrix


def test_consistent_conditionals_leave_their_law_and_inconsistent_ones_depend_on_the_scan() -> None:
    universe = Universe(2, 2)
    log_p = torch.log_softmax(-energies(universe, 5), dim=0)
    masked = TabularMasked.consistent(universe, log_p)
    for place in (0, 1):
        torch.testing.assert_close(log_p.exp() @ gibbs(masked, place), log_p.exp(), atol=1e-12, rtol=0)
    odd = TabularMasked.inconsistent(universe, seed=0)
    scans = [gibbs(odd, 0) @ gibbs(odd, 1), gibbs(odd, 1) @ gibbs(odd, 0)]
    laws = [torch.linalg.matrix_power(scan, 64)[0] for scan in scans]
    assert float((laws[0] - laws[1]).abs().max()) > 0.01


def test_masked_tables_need_one_length() -> None:
    with pytest.raises(LexergyError, match="without eos"):
        TabularMasked.inconsistent(Universe(2, 2, eos=1), seed=0)


def test_free_tokens_find_their_place_after_a_context() -> None:
    universe = Universe(3, 2, eos=2)
    tokens = Tokens.of([[9, 0, 1], [9, 2]], free_from=[1, 1])
    assert [universe.rows[i] for i in universe.indices(tokens).tolist()] == [(0, 1), (2,)]

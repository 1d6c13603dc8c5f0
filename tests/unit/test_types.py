"""The shared words: tokens under any padding, and weights made in one place."""

import math
from dataclasses import replace

import pytest
import torch

from lexergy.core.errors import LexergyError
from lexergy.core.random import outcomes
from lexergy.core.types import Draws, Law, Samples, Tokens, concatenate

LAW = Law(model="toy", revision="r", hash="h", space="until_eos", max_new_tokens=4, eos=(2,), seed=3)


def draws(n: int, log_p: list[float] | None = None, law: Law = LAW) -> Draws:
    tokens = Tokens.of([[i] for i in range(n)])
    log_q = torch.zeros(n, dtype=torch.float64) - 1.0
    known = torch.tensor(log_p, dtype=torch.float64) if log_p is not None else log_q
    return Draws([f"text {i}" for i in range(n)], tokens, log_q, known, law)


def test_rows_become_tokens() -> None:
    tokens = Tokens.of([[5, 6, 7], [8]], free_from=[1, 0], pad=9)
    assert tokens.ids.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert tokens.mask.tolist() == [[True] * 3, [True, False, False]]
    assert tokens.free.tolist() == [[False, True, True], [True, False, False]]
    assert tokens.lengths.tolist() == [3, 1]
    assert (tokens.real(1), tokens.free_ids(0)) == ([8], [6, 7])
    assert len(Tokens.of([])) == 0


def test_tokens_of_different_shapes_are_refused() -> None:
    square, wide = torch.zeros(2, 2, dtype=torch.long), torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises((LexergyError, TypeError), match=r"shape|time"):
        Tokens(square, wide, wide)


def test_left_alignment_moves_real_tokens_and_nothing_else() -> None:
    ids = torch.tensor([[9, 1, 9, 2], [9, 9, 3, 4]])
    mask = torch.tensor([[False, True, False, True], [False, False, True, True]])
    free = torch.tensor([[True, False, True, True], [True, True, False, True]])
    tokens = Tokens(ids, mask, free).left_aligned(pad=7)
    assert tokens.ids.tolist() == [[1, 2], [3, 4]]
    assert bool(tokens.mask.all())
    assert tokens.free.tolist() == [[False, True], [False, True]]
    ragged = Tokens.of([[1, 2, 3], [4]], pad=6)
    assert ragged.left_aligned(pad=0).ids.tolist() == [[1, 2, 3], [4, 0, 0]]


def test_selection_and_concatenation() -> None:
    tokens = Tokens.of([[1, 2], [3], [4, 5]])
    assert tokens.select([2, 0]).ids.tolist() == [[4, 5], [1, 2]]
    assert tokens.select(torch.tensor([False, True, False])).real(0) == [3]
    both = concatenate([tokens.select([1]), Tokens.of([[6, 7, 8]])], pad=9)
    assert both.ids.tolist() == [[3, 0, 9], [6, 7, 8]]
    assert both.lengths.tolist() == [1, 3]


def test_a_law_survives_json_and_says_what_it_is() -> None:
    law = replace(LAW, top_k=10, temperature=0.5, direction="right_to_left", space="fixed")
    assert Law.from_json(law.to_json()) == law
    assert law.truncated
    assert not law.exact
    assert "top-k 10" in str(law)
    assert "temperature 0.5" in str(law)
    assert "untruncated" in str(LAW)
    assert LAW.exact
    assert not replace(LAW, temperature=2.0).exact
    assert not replace(LAW, temperature=2.0).truncated
    assert replace(LAW, top_p=0.9).truncated


def test_weights_of_the_law_drawn_from() -> None:
    energy = torch.tensor([0.0, math.log(2.0), math.inf], dtype=torch.float64)
    samples = Samples.weigh(draws(3), energy)
    assert samples.log_weight.tolist() == [0.0, -math.log(2.0), -math.inf]
    assert samples.weight.tolist() == pytest.approx([2 / 3, 1 / 3, 0])
    assert samples.max_weight == pytest.approx(2 / 3)
    assert samples.ess == pytest.approx(9 / 5)
    assert samples.seed == 3
    assert samples.law.startswith("P_LM·exp(−E)")
    assert Samples.weigh(draws(3, law=replace(LAW, top_k=2)), energy).law.startswith("Q·exp(−E)")


def test_weights_of_the_full_model() -> None:
    found = draws(2, log_p=[-1.0, -3.0], law=replace(LAW, top_k=2))
    samples = Samples.weigh(found, torch.zeros(2), base="full")
    assert samples.log_weight.tolist() == pytest.approx([0.0, -2.0])
    assert "texts that Q reaches" in samples.law
    with pytest.raises(LexergyError, match="log_p"):
        Samples.weigh(replace(found, log_p=None), torch.zeros(2), base="full")


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_an_energy_that_is_no_energy_is_refused_by_row(bad: float) -> None:
    with pytest.raises(LexergyError, match=r"row 1 .*'text 1'"):
        Samples.weigh(draws(3), torch.tensor([0.0, bad, 0.0]))


def test_only_forbidden_texts_are_refused() -> None:
    with pytest.raises(LexergyError, match="All 2 drawn texts are forbidden"):
        Samples.weigh(draws(2), torch.tensor([math.inf, math.inf]))


def test_extreme_energies_keep_finite_weights() -> None:
    samples = Samples.weigh(draws(3), torch.tensor([1e4, 1e4 + 1, -1e4], dtype=torch.float64))
    assert samples.weight.tolist() == [0.0, 0.0, 1.0]
    assert samples.ess == pytest.approx(1)


def weighted() -> Samples:
    """Three texts of weight 1/2, 1/3, 1/6, and one that is forbidden."""
    return Samples.weigh(draws(4), -torch.log(torch.tensor([3.0, 2.0, 1.0, 0.0], dtype=torch.float64)))


def test_picking_with_replacement_has_its_law() -> None:
    samples, law = weighted(), {}
    for rows, log_prob in outcomes(lambda rng: samples.pick_rows(2, rng)):
        law[tuple(rows)] = law.get(tuple(rows), 0.0) + math.exp(log_prob)
    p = [1 / 2, 1 / 3, 1 / 6]
    assert law == pytest.approx({(i, j): p[i] * p[j] for i in range(3) for j in range(3)})


def test_picking_without_replacement_has_its_law() -> None:
    samples, law = weighted(), {}
    for rows, log_prob in outcomes(lambda rng: samples.pick_rows(2, rng, replace=False)):
        law[tuple(rows)] = law.get(tuple(rows), 0.0) + math.exp(log_prob)
    p = [1 / 2, 1 / 3, 1 / 6]
    assert law == pytest.approx({(i, j): p[i] * p[j] / (1 - p[i]) for i in range(3) for j in range(3) if i != j})


def test_pick_is_repeatable_and_refuses_too_many() -> None:
    samples = weighted()
    assert samples.pick(5, seed=1) == samples.pick(5, seed=1)
    assert sorted(samples.pick(3, seed=0, replace=False)) == ["text 0", "text 1", "text 2"]
    with pytest.raises(LexergyError, match="3 of 4"):
        samples.pick(4, replace=False)
    with pytest.raises(LexergyError, match="at least one"):
        samples.pick(0)


def test_picks_after_different_prompts_are_independent() -> None:
    def after(token: int) -> Samples:
        tokens = Tokens.of([[token, 9]] * 64, [1] * 64)
        log_p = torch.zeros(64, dtype=torch.float64)
        return Samples.weigh(Draws([str(i) for i in range(64)], tokens, log_p, log_p, LAW), torch.zeros(64))

    assert after(1).pick(4) == after(1).pick(4)
    assert len({tuple(after(token).pick(4)) for token in range(8)}) == 8
    assert after(1).pick(4, seed=7) != after(2).pick(4, seed=7)

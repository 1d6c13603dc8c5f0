"""Randomness: keyed by name and by nothing else, of the stated laws, and enumerable.

Statistical tests: fixed seeds, bounds for a false alarm of at most 1e-6 each over the choice of the seed.
"""

import math

import pytest
import torch
from scipy import stats

from lexergy.core import random
from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed, Rng, outcomes

FALSE_ALARM = 1e-6


def chi_square(counts: torch.Tensor, p: torch.Tensor) -> float:
    """The probability of counts at least so far from their expectation."""
    expected = p * counts.sum()
    return float(stats.chi2.sf(float(((counts - expected) ** 2 / expected).sum()), len(counts) - 1))


def test_mix_is_a_bijection_on_what_it_is_given() -> None:
    words = random.mix(torch.arange(-50_000, 50_000))
    assert len(words.unique()) == len(words)


def test_every_bit_of_a_key_moves_half_of_the_bits_of_the_word() -> None:
    keys = torch.arange(1000)
    for bit in range(0, 64, 7):
        flipped = random.mix(keys) ^ random.mix(keys ^ (-(2**63) if bit == 63 else 1 << bit))
        ones = sum(bin(word & (2**64 - 1)).count("1") for word in flipped.tolist())
        # 64000 fair bits: five standard deviations, false alarm 6e-7.
        assert abs(ones - 32_000) < 5 * math.sqrt(16_000)


def test_streams_do_not_depend_on_the_batch_they_are_in() -> None:
    every = Keyed.grid(3, [7, 7, 8, 9], [0, 1, 0, 5])
    alone = Keyed.grid(3, [8], [0])
    assert torch.equal(every.uniform(4)[2], alone.uniform(4)[0])
    assert torch.equal(every.select(torch.tensor([2])).at("x", 1).uniform(4), alone.at("x", 1).uniform(4))


def test_streams_of_other_names_seeds_and_steps_differ() -> None:
    streams = [
        Keyed.of(0),
        Keyed.of(1),
        Keyed.of(0, "a"),
        Keyed.of(0, "b"),
        Keyed.of(0, "a", "b"),
        Keyed.of(0, "b", "a"),
        Keyed.of(0, 0),
        Keyed.of(0, 1),
        Keyed.of(0, 0, 0),
        Keyed.grid(0, [1], [2]),
        Keyed.grid(0, [2], [1]),
    ]
    values = {float(stream.uniform(1)) for stream in streams}
    assert len(values) == len(streams)


def test_a_stream_asked_twice_answers_the_same() -> None:
    stream = Keyed.of(5, "twice")
    assert torch.equal(stream.uniform(8), stream.uniform(8))
    assert torch.equal(stream.permutation(8), stream.permutation(8))


def test_uniform_numbers_are_uniform_and_open() -> None:
    values = Keyed.of(1, "uniform").uniform(20_000)[0]
    assert 0 < float(values.min()) < float(values.max()) < 1
    counts = torch.histc(values, 50, 0, 1).double()
    assert chi_square(counts, torch.full((50,), 0.02, dtype=torch.float64)) > FALSE_ALARM


def test_successive_samples_are_independent() -> None:
    values = Keyed.grid(0, [4] * 20_000, range(20_000)).uniform(2)
    cells = (values[:, 0] * 5).long() * 5 + (values[:, 1] * 5).long()
    assert chi_square(torch.bincount(cells, minlength=25).double(), torch.full((25,), 0.04).double()) > FALSE_ALARM
    lagged = (values[1:, 0] * 5).long() * 5 + (values[:-1, 0] * 5).long()
    assert chi_square(torch.bincount(lagged, minlength=25).double(), torch.full((25,), 0.04).double()) > FALSE_ALARM


def test_categorical_draws_the_law_it_is_given() -> None:
    p = torch.tensor([0.5, 0.0, 0.2, 0.299, 0.001], dtype=torch.float64)
    rng = Keyed.grid(0, [1] * 20_000, range(20_000))
    drawn = rng.categorical(torch.log(p).expand(20_000, -1) + 3.0)
    counts = torch.bincount(drawn, minlength=5).double()
    assert counts[1] == 0
    kept = p > 0
    assert chi_square(counts[kept], p[kept]) > FALSE_ALARM


def test_categorical_never_draws_what_has_no_probability() -> None:
    log_p = torch.full((1000, 7), -math.inf)
    log_p[:, 3] = -1e4
    assert set(Keyed.grid(0, [0] * 1000, range(1000)).categorical(log_p).tolist()) == {3}


def test_bernoulli_and_gumbel_have_their_laws() -> None:
    rng = Keyed.grid(2, [0] * 20_000, range(20_000))
    hits = rng.bernoulli(torch.full((20_000,), 0.3, dtype=torch.float64)).sum()
    assert float(stats.binomtest(int(hits), 20_000, 0.3).pvalue) > FALSE_ALARM
    assert float(stats.kstest(rng.gumbel(1).flatten().numpy(), "gumbel_r").pvalue) > FALSE_ALARM


def test_permutations_are_uniform() -> None:
    orders = Keyed.grid(0, [3] * 6000, range(6000)).permutation(3)
    assert torch.equal(orders.sort(dim=1).values, torch.arange(3).expand(6000, 3))
    codes = orders @ torch.tensor([9, 3, 1])
    _, counts = codes.unique(return_counts=True)
    assert len(counts) == 6
    assert chi_square(counts.double(), torch.full((6,), 1 / 6, dtype=torch.float64)) > FALSE_ALARM


def test_integers_cover_their_range_evenly() -> None:
    values = Keyed.of(0, "integers").integers(7, 7000)[0]
    assert chi_square(torch.bincount(values, minlength=7).double(), torch.full((7,), 1 / 7).double()) > FALSE_ALARM


def test_outcomes_list_every_path_with_its_probability() -> None:
    log_p = torch.log(torch.tensor([[0.5, 0.25, 0.25], [1.0, 0.0, 3.0]]))

    def run(rng: Rng) -> tuple[int, ...]:
        first = rng.at("x").categorical(log_p)
        again = rng.select(torch.tensor([0])).bernoulli(torch.tensor([0.1])) if first[0] == 2 else torch.tensor([0])
        return (*first.tolist(), int(again))

    found = {value: math.exp(log_prob) for value, log_prob in outcomes(run, rows=2)}
    expected = {
        (0, 0, 0): 0.125,
        (0, 2, 0): 0.375,
        (1, 0, 0): 0.0625,
        (1, 2, 0): 0.1875,
        (2, 0, 0): 0.05625,
        (2, 0, 1): 0.00625,
        (2, 2, 0): 0.16875,
        (2, 2, 1): 0.01875,
    }
    assert found.keys() == expected.keys()
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    assert all(found[key] == pytest.approx(expected[key], abs=1e-8) for key in expected)


def test_outcomes_of_a_permutation_are_uniform() -> None:
    found = [(tuple(order.tolist()[0]), p) for order, p in outcomes(lambda rng: rng.permutation(3))]
    assert len({order for order, _ in found}) == len(found) == 6
    assert all(math.exp(p) == pytest.approx(1 / 6) for _, p in found)


def test_outcomes_refuse_what_is_too_much_to_list() -> None:
    with pytest.raises(LexergyError, match="smaller universe"):
        list(outcomes(lambda rng: rng.permutation(6), limit=100))


def test_seeded_block_gives_torchs_generator_back() -> None:
    torch.manual_seed(0)  # what the caller had
    before = torch.random.get_rng_state()
    with random.seeded(1, "x"):
        first = torch.rand(3)
    assert torch.equal(torch.random.get_rng_state(), before)
    with random.seeded(1, "x"):
        assert torch.equal(torch.rand(3), first)
    with random.seeded(1, "y"):
        assert not torch.equal(torch.rand(3), first)


def test_no_seed_draws_one() -> None:
    assert random.resolve(7) == 7
    assert len({random.resolve(None) for _ in range(4)}) > 1


def test_words_of_names_keep_kinds_apart() -> None:
    assert len({random.word("1"), random.word(1), random.word(b"1"), random.word((1,)), random.word((1, 1))}) == 5
    assert random.word(2**64 - 1) == -1


def test_streams_of_draws_are_those_of_prompt_and_sample() -> None:
    every = Keyed.draws(0, [[1, 2], [3]], 3)
    assert torch.equal(every.keys[3:], Keyed.draws(0, [[3]], 3).keys)
    assert torch.equal(every.keys[1:2], Keyed.draws(0, [[1, 2]], 1, first=[1]).keys)
    assert len(every.keys.unique()) == 6

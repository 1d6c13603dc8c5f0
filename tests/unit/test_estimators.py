"""Bounds on log Z and the certified gain by enumeration; intervals and the fitted factor against plain formulas."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from lexergy.core import bounds
from lexergy.core.errors import LexergyError
from lexergy.core.logspace import LogSum, log_mean_exp
from lexergy.core.random import Keyed
from lexergy.estimators.bootstrap import bootstrap
from lexergy.estimators.certified import certified
from lexergy.estimators.jackknife import jackknife
from lexergy.estimators.partition import partition
from lexergy.estimators.scale import scale

LAW = torch.tensor([0.55, 0.3, 0.15], dtype=torch.float64)
ENERGY = torch.tensor([0.4, -0.6, -1.9], dtype=torch.float64)
LOG_Z = float(torch.log((LAW * torch.exp(-ENERGY)).sum()))


def samples(n: int) -> tuple[Tensor, Tensor]:
    """Every sample of n outcomes of three, and its probability."""
    places = torch.tensor(list(itertools.product(range(3), repeat=n)), dtype=torch.long).view(3**n, n)
    return places, LAW[places].prod(1)


def two_valued(n: int, rare: float, log_weight: float, which: str) -> float:
    """E of T_n or U_n where a text of probability `rare` weighs exp(log_weight) and all others 1: a sum over counts."""
    total = 0.0
    for count in range(n + 1):
        energy = torch.tensor([-log_weight] * count + [0.0] * (n - count), dtype=torch.float64)
        value = bounds.log_z_lower(energy) if which == "lower" else bounds.log_z_upper(energy)
        total += math.comb(n, count) * rare**count * (1 - rare) ** (n - count) * float(value)
    return total


def naive_upper(energy: Tensor) -> float:
    n = len(energy)
    lower = float(log_mean_exp(-energy))
    left = [float(log_mean_exp(-energy[[j for j in range(n) if j != i]])) for i in range(n)]
    return (2 * n - 1) * lower - 2 * (n - 1) * sum(left) / n


def random_energies(*shape: int, spread: float = 1.0) -> Tensor:
    return spread * Keyed.of(0, "energies", *shape).gumbel(math.prod(shape)).view(shape)


@pytest.mark.parametrize("n", range(1, 8))
def test_lower_bound_is_one_at_every_n(n: int) -> None:
    places, p = samples(n)
    expectation = float((p * bounds.log_z_lower(ENERGY[places])).sum())
    assert expectation < LOG_Z - 1e-3
    assert partition(ENERGY[places[0]]).n == n


def test_upper_bound_holds_from_a_stated_n_and_both_close_in() -> None:
    """Weights 1 and e³, the heavy one with probability 0.02: E[U_n] ≥ log Z from n = 8 on, and at no n before."""
    log_z = math.log(0.98 + 0.02 * math.exp(3))
    upper = {n: two_valued(n, 0.02, 3.0, "upper") - log_z for n in (*range(2, 33), 64, 128, 256)}
    assert [n for n, bias in upper.items() if bias < 0] == list(range(2, 8))
    lower = [two_valued(n, 0.02, 3.0, "lower") - log_z for n in (8, 32, 128, 256)]
    assert lower[0] < lower[1] < lower[2] < lower[3] < 0
    # Twice the draws, half the bias, on either side.
    assert upper[256] / upper[128] == pytest.approx(0.5, abs=0.05)
    assert lower[3] / lower[2] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("n", [2, 3, 17])
def test_closed_form_equals_leaving_each_out(n: int, spread: float) -> None:
    energy = random_energies(4, n, spread=spread)
    for row, value in zip(energy, jackknife(energy), strict=True):
        assert float(value) == pytest.approx(naive_upper(row), rel=1e-10, abs=1e-10)


def test_the_counterexample_passes_both_bounds() -> None:
    """Weights 1 and 10⁴, the second with probability 10⁻³: three runs in four see nothing, and cannot know."""
    rare, heavy, n = 1e-3, 1e4, 256
    log_z = math.log(1 - rare + rare * heavy)
    assert log_z == pytest.approx(2.398, abs=5e-4)
    assert (1 - rare) ** n == pytest.approx(0.774, abs=5e-4)
    unseen = partition(torch.zeros(n))
    assert unseen.lower == pytest.approx(0, abs=1e-12)
    assert unseen.upper == pytest.approx(0, abs=1e-10)
    assert unseen.ess == pytest.approx(n)
    assert unseen.resolved  # necessary, not sufficient: this is the case that shows it
    seen = partition(torch.tensor([-math.log(heavy)] + [0.0] * (n - 1)))
    assert not seen.resolved
    # Over a set of windows the true continuations give it away: most of their mass is the rare text.
    energy = torch.zeros(20, n)
    true = torch.tensor([-math.log(heavy)] * 18 + [0.0] * 2)
    found = bounds.resolved(energy, true)
    assert not found.resolved
    assert [reason.split(" in ")[0] for reason in found.reasons] == ["the true continuation outweighs every draw"]


@pytest.mark.parametrize("n", range(1, 7))
def test_certified_gain_is_unbiased_and_below_the_exact_one(n: int) -> None:
    """E[gain] equals its definition, and log P_LM + gain ≤ log p_n, p_n summed with its own n − 1 other draws."""
    others, p_others = samples(n - 1)
    places, p = samples(n)
    weight = torch.exp(-ENERGY)
    for true in range(3):
        terms = n * weight[true] / (weight[true] + weight[others].sum(1))
        stated, exact = float((p_others * torch.log(terms)).sum()), math.log(float((p_others * terms).sum()))
        gain = float((p * certified(ENERGY[places], ENERGY[true].expand(len(places)))).sum())
        assert gain == pytest.approx(stated, abs=1e-10)
        assert gain <= exact + 1e-12
        if n > 1:
            assert gain < exact
        else:
            assert gain == 0


def test_finite_n_law_is_normalised_and_certified_perplexity_is_above_it() -> None:
    n = 4
    others, p_others = samples(n - 1)
    weight = torch.exp(-ENERGY)
    p_n = torch.stack(
        [LAW[x] * n * (p_others * weight[x] / (weight[x] + weight[others].sum(1))).sum() for x in range(3)]
    )
    assert float(p_n.sum()) == pytest.approx(1, abs=1e-12)
    places, p = samples(n)
    cross_entropy = -(LAW * torch.log(p_n)).sum()
    gains = torch.stack([(p * certified(ENERGY[places], ENERGY[x].expand(len(places)))).sum() for x in range(3)])
    assert -(LAW * (torch.log(LAW) + gains)).sum() > cross_entropy


def test_certified_gain_tends_to_the_exact_one() -> None:
    counts = (LAW * 20_000).long()
    energy = torch.repeat_interleave(ENERGY, counts)
    assert float(certified(energy, ENERGY[2])) == pytest.approx(float(-ENERGY[2]) - LOG_Z, abs=1e-3)


@pytest.mark.parametrize("shift", [-1e4, 0.0, 1e4])
def test_extreme_energies_shift_and_do_not_overflow(shift: float) -> None:
    energy, true = random_energies(3, 16), random_energies(3)
    assert torch.allclose(bounds.log_z_lower(energy + shift), bounds.log_z_lower(energy) - shift, atol=1e-9)
    assert torch.allclose(bounds.log_z_upper(energy + shift), bounds.log_z_upper(energy) - shift, atol=1e-9)
    assert torch.allclose(certified(energy + shift, true + shift), certified(energy, true), atol=1e-9)
    wide = torch.tensor([1e4, -1e4, 0.0])
    found = partition(wide)
    assert found.lower == pytest.approx(1e4 - math.log(3))
    assert found.upper is not None
    assert math.isfinite(found.upper)
    assert found.max_weight == 1
    assert float(certified(wide, torch.tensor(1e4))) == pytest.approx(math.log(3) - (1e4 + 2e4 + 2e4) / 3)


def test_float32_is_read_in_float64() -> None:
    energy = random_energies(4096).float()
    same = energy.double()
    assert partition(energy) == partition(same)
    assert jackknife(energy).dtype == torch.float64
    assert float(certified(energy, energy[0])) == float(certified(same, same[0]))


def test_upper_keeps_its_digits_at_many_draws() -> None:
    """At equal weights U_n is exactly T_n: 2(n−1) times a rounding error must not show."""
    for level in (0.0, 1e4):
        energy = torch.full((100_000,), level)
        assert float(jackknife(energy)) == pytest.approx(-level, abs=1e-8)


def test_one_draw_has_no_upper_bound() -> None:
    found = partition(torch.tensor([0.7], dtype=torch.float64))
    assert (found.lower, found.upper, found.ess, found.max_weight, found.resolved) == (-0.7, None, 1, 1, False)
    with pytest.raises(LexergyError, match="two or more"):
        jackknife(torch.tensor([0.7]))


def test_forbidden_texts_weigh_nothing() -> None:
    inf = math.inf
    found = partition(torch.tensor([0.0, inf, 0.0, inf], dtype=torch.float64))
    assert found.lower == pytest.approx(-math.log(2))
    assert found.ess == pytest.approx(2)
    alone = partition(torch.tensor([0.0, inf, inf]))
    assert alone.upper == inf
    assert alone.lower == pytest.approx(-math.log(3))
    none = partition(torch.full((4,), inf))
    assert (none.lower, none.upper, none.ess, none.resolved) == (-inf, inf, 0, False)
    gains = certified(torch.tensor([[0.0, inf], [inf, inf], [inf, inf]]), torch.tensor([inf, inf, 0.0]))
    assert gains.tolist() == [-inf, -inf, pytest.approx(math.log(2))]


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_broken_energies_are_named(bad: float) -> None:
    energy = torch.zeros(2, 3)
    energy[1, 2] = bad
    for function in (bounds.log_z_lower, jackknife):
        with pytest.raises(LexergyError, match=r"\(1, 2\)"):
            function(energy)


def test_streamed_sum_equals_one_shot() -> None:
    energy = random_energies(3, 1000, spread=20.0)
    total = LogSum.empty(3)
    for chunk in energy.split([1, 499, 37, 463], dim=1):
        total = total.add(-chunk)
    assert total.count == 1000
    assert torch.allclose(total.log_mean(), bounds.log_z_lower(energy), atol=1e-12)


def test_prefix_curve_is_the_bounds_of_the_first_draws() -> None:
    energy, true = random_energies(2, 21), random_energies(2)
    curve = bounds.prefix_curve(energy, true)
    assert curve.sizes == (2, 4, 8, 16, 21)
    assert curve.gain is not None
    for column, size in enumerate(curve.sizes):
        part = energy[:, :size]
        assert torch.equal(curve.lower[:, column], bounds.log_z_lower(part))
        assert torch.equal(curve.upper[:, column], bounds.log_z_upper(part))
        assert torch.equal(curve.gain[:, column], bounds.certified_gain(part, true))
    one = bounds.prefix_curve(energy, sizes=(1, 21))
    assert bool(one.upper[:, 0].isnan().all())
    assert one.gain is None
    with pytest.raises(LexergyError, match="between 1 and the 21"):
        bounds.prefix_curve(energy, sizes=(22,))


def _well_sampled(windows: int = 200, n: int = 256) -> tuple[Tensor, Tensor]:
    return random_energies(windows, n, spread=0.3), random_energies(windows, 1, spread=0.3).squeeze(1)


def test_resolved_needs_all_four() -> None:
    energy, true = _well_sampled()
    good = bounds.resolved(energy, true)
    assert good.resolved
    assert good.reasons == ()
    assert (good.n, good.windows) == (256, 200)
    halves = bounds.log_z_lower(energy[:, :128])
    assert good.drift == pytest.approx(float((bounds.log_z_lower(energy) - halves).mean()), abs=1e-12)

    heavy = energy.clone()
    heavy[:3, 0] -= 20
    moved = energy.clone()
    moved[:, 128:] -= 0.1
    on_top = true.clone()
    on_top[:11] = -50
    for broken, word in (
        (bounds.resolved(energy[:, :32], true), "effective sample size"),
        (bounds.resolved(heavy, true), "over half the weight in 1.5% of windows"),
        (bounds.resolved(moved, true), "log Z moved by +0.0"),
        (bounds.resolved(energy, on_top), "true continuation outweighs every draw in 5.5% of windows"),
    ):
        assert not broken.resolved
        assert any(word in reason for reason in broken.reasons), broken.reasons
    assert not bounds.resolved(energy[:, :1], true).resolved
    allowed = energy.clone()
    allowed[:2, 0] -= 20  # 1 % of windows, T_{n/2} and T_n alike
    assert bounds.resolved(allowed, true).heavy == pytest.approx(0.01)


def test_bootstrap_value_is_the_statistic() -> None:
    log_p = torch.tensor([-3.0, -5.0, -8.0], dtype=torch.float64)
    tokens = torch.tensor([2, 3, 4])
    found = bootstrap(log_p, ["a", "b", "a"], sizes=tokens, statistic="perplexity", seed=1)
    assert found.value == pytest.approx(math.exp(16 / 9))
    assert found.n == 2
    # Two groups, four draws: the extremes are each group alone.
    assert found.low == pytest.approx(math.exp(5 / 3))
    assert found.high == pytest.approx(math.exp(11 / 6))
    assert bootstrap(log_p, [7, 8, 9]).value == pytest.approx(-16 / 3)


def test_bootstrap_draws_groups_and_not_windows() -> None:
    """40 windows in 4 documents, all the same within one: the interval is that of 4 numbers, not of 40."""
    values = torch.arange(4, dtype=torch.float64).repeat_interleave(10)
    by_group = bootstrap(values, [f"document {int(v)}" for v in values], seed=0)
    by_window = bootstrap(values, list(range(40)), seed=0)
    assert by_group.high - by_group.low > 2.5 * (by_window.high - by_window.low)
    assert (by_group.n, by_window.n) == (4, 40)


def test_bootstrap_pairs_its_differences() -> None:
    """Documents differ a hundred times more than the systems do: only pairs can see which is better."""
    documents = list(range(50))
    base = 100 * random_energies(50)
    better = base + 1 + 0.1 * random_energies(1, 50).squeeze(0)
    paired = bootstrap(better, documents, against=base, seed=0)
    assert paired.value == pytest.approx(float((better - base).mean()))
    assert 0.9 < paired.low < paired.high < 1.3
    ratio = bootstrap(better / 100, documents, sizes=torch.full((50,), 2), statistic="perplexity", against=base / 100)
    single = [math.exp(-float(x.mean()) / 200) for x in (better, base)]
    assert ratio.value == pytest.approx(single[0] - single[1])


def test_bootstrap_is_a_function_of_its_seed() -> None:
    values = random_energies(30)
    documents = [i // 3 for i in range(30)]
    assert bootstrap(values, documents, seed=4) == bootstrap(values, documents, seed=4)
    assert bootstrap(values, documents, seed=4) != bootstrap(values, documents, seed=5)
    shuffled = torch.arange(29, -1, -1)
    again = bootstrap(values[shuffled], [documents[int(i)] for i in shuffled], seed=4)
    assert again.value == pytest.approx(bootstrap(values, documents, seed=4).value)


def test_bootstrap_covers_at_its_level() -> None:
    """200 experiments of 40 groups at 90 %, where the percentile interval covers about 88 %: 155 to 195 is 4 standard
    deviations of a binomial around 176, false alarm below 1e-4."""
    hits = 0
    for experiment in range(200):
        draws = Keyed.of(experiment, "coverage").gumbel(40)[0]
        found = bootstrap(draws, list(range(40)), level=0.9, resamples=400, seed=experiment)
        hits += found.low <= 0.5772156649 <= found.high
    assert 155 <= hits <= 195


def test_bootstrap_names_what_it_cannot_use() -> None:
    values = torch.zeros(3)
    lone = bootstrap(values, ["a"] * 3)
    assert (lone.low, lone.high, lone.n) == (-math.inf, math.inf, 1)
    with pytest.raises(LexergyError, match="2 groups"):
        bootstrap(values, ["a", "b"])
    with pytest.raises(LexergyError, match=r"Window 1 .* finite"):
        bootstrap(torch.tensor([0.0, -math.inf]), ["a", "b"])
    with pytest.raises(LexergyError, match="Did you mean 'perplexity'"):
        bootstrap(values, ["a", "b", "c"], statistic="perplexty")
    with pytest.raises(LexergyError, match="level"):
        bootstrap(values, ["a", "b", "c"], level=95.0)


def _over_confident(windows: int = 60, n: int = 32, factor: float = 2.5) -> tuple[Tensor, Tensor]:
    """Draws of energy E₀ and true texts resampled by exp(−E₀); the energies given are `factor` times as large."""
    energy = random_energies(windows, n)
    rng = Keyed(Keyed.of(0, "true").words(windows)[0])
    candidates = random_energies(windows, 500)
    true = candidates.gather(1, rng.categorical(-candidates)[:, None]).squeeze(1)
    return factor * energy, factor * true


@pytest.mark.parametrize("goal", ["certified", "nce"])
def test_scale_is_the_best_factor_of_a_grid(goal: str) -> None:
    energy, true = _over_confident()
    found = scale(energy, true, goal=goal)
    grid = torch.linspace(0.005, 2, 400, dtype=torch.float64)
    if goal == "certified":
        values = torch.stack([certified(a * energy, a * true).sum() for a in grid])
    else:
        sigmoid = torch.nn.functional.logsigmoid
        values = torch.stack([(sigmoid(-a * true) + sigmoid(a * energy).mean(1)).sum() for a in grid])
    assert found.value == pytest.approx(float(grid[values.argmax()]), abs=0.005)
    assert found.low < found.value < found.high
    assert found.n == 60


def test_scale_undoes_a_factor() -> None:
    energy, true = _over_confident(factor=1.0)
    once, blown_up = scale(energy, true), scale(2.5 * energy, 2.5 * true)
    assert blown_up.value == pytest.approx(once.value / 2.5, rel=1e-9)
    assert once.low < 1 < once.high  # the energy was right
    assert blown_up.high < 1


def test_scale_interval_is_by_groups() -> None:
    energy, true = _over_confident()
    twice = torch.arange(60).repeat(2)
    grouped = scale(energy[twice], true[twice], [int(i) for i in twice])
    alone = scale(energy, true)
    assert grouped.value == pytest.approx(alone.value, abs=1e-9)
    assert (grouped.low, grouped.high) == (pytest.approx(alone.low), pytest.approx(alone.high))
    assert scale(energy, true, ["one"] * 60).high == 10


def test_scale_stays_between_its_borders() -> None:
    """A true text below every draw asks for an infinite factor; above every draw, for none at all."""
    energy = torch.zeros(3, 4)
    assert scale(energy, torch.full((3,), -1.0), largest=3.0).value == pytest.approx(3)
    assert scale(energy, torch.full((3,), 1.0)).value == pytest.approx(0, abs=1e-9)
    with pytest.raises(LexergyError, match="finite"):
        scale(torch.full((1, 2), math.inf), torch.zeros(1))
    with pytest.raises(LexergyError, match="two draws"):
        scale(torch.zeros(3, 1), torch.zeros(3))

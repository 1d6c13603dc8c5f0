"""Log-space sums against slow references in exact arithmetic, at ordinary and at extreme values."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lexergy.core import logspace

MODERATE = st.lists(st.floats(-30, 30), min_size=2, max_size=12)
EXTREME = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=8)
# Pinned examples: the same in every run.
FIXED = settings(derandomize=True, max_examples=60, deadline=None)


def exact_log_sum(values: list[float]) -> float:
    """log Σ exp(v), the sum of rationals after the largest is taken out."""
    top = max(values)
    total = sum(Fraction(math.exp(value - top)) for value in values)
    return top + math.log(total)


@FIXED
@given(MODERATE)
def test_log_mean_exp_is_the_log_of_the_mean(values: list[float]) -> None:
    found = logspace.log_mean_exp(torch.tensor(values, dtype=torch.float64))
    assert float(found) == pytest.approx(exact_log_sum(values) - math.log(len(values)), abs=1e-12)


@FIXED
@given(EXTREME, st.integers(1, 7))
def test_running_sum_equals_the_one_shot_in_any_split(values: list[float], chunk: int) -> None:
    whole = torch.tensor(values, dtype=torch.float64)
    running = logspace.LogSum.empty()
    for part in whole.split(chunk):
        running = running.add(part)
    assert running.count == len(values)
    assert float(running.log_mean()) == pytest.approx(float(logspace.log_mean_exp(whole)), rel=1e-12, abs=1e-12)


def test_running_sum_keeps_its_rows_apart() -> None:
    values = torch.randn(3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 100
    running = logspace.LogSum.empty(3).add(values[:, :5]).add(values[:, 5:])
    torch.testing.assert_close(running.log_mean(), logspace.log_mean_exp(values), rtol=1e-12, atol=0)


@FIXED
@given(EXTREME.filter(lambda values: len(values) > 1))
def test_leave_one_out_equals_leaving_one_out(values: list[float]) -> None:
    found = logspace.leave_one_out(torch.tensor(values, dtype=torch.float64)).tolist()
    expected = [exact_log_sum(values[:i] + values[i + 1 :]) for i in range(len(values))]
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_leave_one_out_at_the_edges() -> None:
    assert logspace.leave_one_out(torch.tensor([3.0])).tolist() == [-math.inf]
    infinite = torch.tensor([-math.inf, 0.0, -math.inf], dtype=torch.float64)
    assert logspace.leave_one_out(infinite).tolist() == [0.0, -math.inf, 0.0]
    nothing = torch.full((2, 3), -math.inf)
    assert bool(torch.isneginf(logspace.leave_one_out(nothing)).all())


def test_leave_one_out_does_not_cancel_at_the_largest() -> None:
    found = logspace.leave_one_out(torch.tensor([0.0, -60.0, -61.0], dtype=torch.float64))
    assert float(found[0]) == pytest.approx(exact_log_sum([-60.0, -61.0]), abs=1e-12)


@FIXED
@given(MODERATE)
def test_weights_sum_to_one_and_ess_is_theirs(values: list[float]) -> None:
    log_weight = torch.tensor(values, dtype=torch.float64)
    weight = logspace.normalised(log_weight)
    assert float(weight.sum()) == pytest.approx(1, abs=1e-12)
    ess = float(logspace.effective_sample_size(log_weight))
    assert ess == pytest.approx(1 / float((weight**2).sum()), rel=1e-10)
    assert 1 - 1e-9 <= ess <= len(values) * (1 + 1e-9)


def test_float32_goes_in_and_float64_comes_out() -> None:
    single = torch.tensor([1e4, 1e4 + 1, -1e4])
    for function in (logspace.log_mean_exp, logspace.leave_one_out, logspace.normalised):
        assert function(single).dtype == torch.float64
        assert bool(torch.isfinite(function(single)).all())
    assert float(logspace.effective_sample_size(single)) > 1

"""The schedules at their corners."""

import math

import pytest

from lexergy.core.errors import LexergyError
from lexergy.training.schedules import SCHEDULES, factor
from lexergy.training.settings import Settings


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_warm_up_rises_in_equal_parts_from_above_zero_to_one(schedule: str) -> None:
    assert [factor(schedule, step, 100, 4) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_decay_starts_at_one_and_reaches_zero_one_past_the_last_step(schedule: str) -> None:
    assert factor(schedule, 10, 110, 10) == 1.0
    assert factor(schedule, 60, 110, 10) == pytest.approx(0.5)
    assert 0 < factor(schedule, 109, 110, 10) < 0.011
    assert factor(schedule, 110, 110, 10) == pytest.approx(0.0, abs=1e-15)
    assert factor(schedule, 500, 110, 10) == pytest.approx(0.0, abs=1e-15)


def test_cosine_and_linear_differ_at_a_quarter() -> None:
    assert factor("linear", 25, 100, 0) == 0.75
    assert factor("cosine", 25, 100, 0) == pytest.approx((1 + math.sqrt(0.5)) / 2)


def test_inverse_square_root_goes_on_from_the_warm_up() -> None:
    assert factor("inverse_sqrt", 399, 1000, 100) == pytest.approx(0.5)
    assert factor("inverse_sqrt", 100, 1000, 100) == pytest.approx(math.sqrt(100 / 101))
    assert factor("inverse_sqrt", 0, 10, 0) == 1.0
    assert factor("inverse_sqrt", 3, 10, 0) == 0.5


def test_constant_stays() -> None:
    assert {factor("constant", step, 10, 2) for step in range(2, 12)} == {1.0}


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_warm_up_may_fill_the_whole_run(schedule: str) -> None:
    assert [factor(schedule, step, 2, 2) for step in range(2)] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"schedule": "cosin"}, "Did you mean 'cosine'"),
        ({"warmup": 11}, "warm-up of 11 steps is longer than the run of 10"),
        ({"steps": 0}, "steps is at least 1"),
        ({"accumulate": 0}, "accumulate is at least 1"),
        ({"patience": 0}, "patience is at least 1"),
        ({"learning_rate": 0.0}, "learning_rate is above 0"),
        ({"clip": -1.0}, "clip is at least 0"),
    ],
)
def test_settings_say_what_is_wrong(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(LexergyError, match=said):
        Settings(**{"steps": 10, "learning_rate": 0.1, **wrong})  # pyright: ignore[reportArgumentType]

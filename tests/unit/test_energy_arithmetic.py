"""Energies add, scale and divide; what is neither an energy nor a number is refused in a sentence."""

from collections.abc import Callable

import pytest
import torch

from lexergy.core.errors import LexergyError
from lexergy.energies import bag, function
from lexergy.energies.bag import Bag
from lexergy.energies.base import Energy

TEXTS = ["ab", "b", "", "aab"]


def other() -> Bag:
    made = bag.tiny()
    with torch.no_grad():
        made.weight.mul_(-3).add_(0.25)
    return made


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda a, b: sum([a, b]), lambda a, b: a + b),
        (lambda a, _: -a, lambda a, _: -a),
        (lambda a, _: a / 4, lambda a, _: a / 4),
        (lambda a, b: a - b, lambda a, b: a - b),
        (lambda a, b: 2 * a + b * torch.tensor(0.5), lambda a, b: 2 * a + b / 2),
    ],
    ids=["sum", "minus", "over", "less", "weighted"],
)
def test_arithmetic_is_that_of_the_numbers(
    made: Callable[[Energy, Energy], Energy], expected: Callable[[float, float], float]
) -> None:
    one, two = bag.tiny(), other()
    wanted = [expected(a, b) for a, b in zip(one.score(TEXTS), two.score(TEXTS), strict=True)]
    assert made(one, two).score(TEXTS) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda e: e + 3,
        lambda e: 3 + e,
        lambda e: e + "a",
        lambda e: e - 1,
        lambda e: e * "a",
        lambda e: [2] * e,
        lambda e: e * None,
        lambda e: e / "a",
        lambda e: e / 0,
        lambda e: e * float("nan"),
        lambda e: e * e,
    ],
    ids=range(11),
)
def test_what_makes_no_energy_is_refused(wrong: Callable[[Energy], Energy]) -> None:
    with pytest.raises(LexergyError, match=r"energy is (added to an energy|multiplied|not divided by 0)"):
        wrong(bag.tiny())


def test_a_constraint_is_not_turned_around() -> None:
    with pytest.raises(LexergyError, match="hard constraint"):
        bag.tiny() - function.tiny()

"""What is no energy is refused wherever it comes from, and its place is named."""

import pytest
import torch

from lexergy.core.errors import LexergyError
from lexergy.core.finite import check_energies


def named(place: tuple[int, ...]) -> str:
    return f"text {place}"


def test_energies_pass() -> None:
    check_energies(torch.tensor([1.0, -2.0]), named, forbid=False)
    check_energies(torch.tensor([1.0, torch.inf]), named, forbid=True)
    check_energies(torch.zeros(0), named, forbid=False)


@pytest.mark.parametrize("bad", [torch.nan, -torch.inf])
def test_what_is_none_names_its_place(bad: float) -> None:
    with pytest.raises(LexergyError, match=rf"text \(1,\) is {bad}.*or \+inf"):
        check_energies(torch.tensor([1.0, bad, bad]), named, forbid=True)
    with pytest.raises(LexergyError, match=r"text \(0, 2\)"):
        check_energies(torch.tensor([[0.0, 1.0, bad], [bad, 0.0, 0.0]]), named, forbid=True)


def test_only_a_constraint_forbids() -> None:
    with pytest.raises(LexergyError, match=r"text \(0,\) is inf: an energy is a finite number\."):
        check_energies(torch.tensor([torch.inf, torch.nan]), named, forbid=False)

"""The law of a token: temperature, then top-k, then top-p; exactly k tokens, ties by id; always
normalised."""

import math

import pytest
import torch

from lexergy.core.errors import LexergyError
from lexergy.engine.truncation import check, restricted


def test_ties_give_exactly_k_tokens_and_the_lower_ids() -> None:
    found = restricted(torch.tensor([[1.0, 3.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]]), top_k=2)
    assert torch.isfinite(found).tolist() == [[True, True, False, False], [True, True, False, False]]


def test_one_token_always_remains() -> None:
    found = restricted(torch.tensor([[0.0, 5.0, 0.0]]), top_p=1e-9)
    assert found.tolist() == [[-math.inf, 0.0, -math.inf]]


def test_bf16_logits_are_normalised_in_float32() -> None:
    found = restricted(torch.randn(2, 1000, generator=torch.Generator().manual_seed(0)).bfloat16(), top_k=500)
    assert found.dtype == torch.float32
    assert found.exp().sum(1).tolist() == pytest.approx([1, 1], abs=1e-5)


def test_extreme_logits_and_forbidden_tokens() -> None:
    found = restricted(torch.tensor([[-math.inf, 1e4, -1e4, 1e4]]), top_k=3, top_p=0.9)
    assert found.exp().tolist() == [[0.0, 0.5, 0.0, 0.5]]


@pytest.mark.parametrize(
    ("law", "named"),
    [
        ((0.0, 0, 1.0), "temperature"),
        ((math.nan, 0, 1.0), "temperature"),
        ((-1.0, 0, 1.0), "temperature"),
        ((1.0, -1, 1.0), "top_k"),
        ((1.0, 0, 0.0), "top_p"),
        ((1.0, 0, 1.5), "top_p"),
    ],
)
def test_what_is_no_law_is_refused(law: tuple[float, int, float], named: str) -> None:
    with pytest.raises(LexergyError, match=named):
        check(*law)


def test_laws_pass() -> None:
    check(1.0, 0, 1.0)
    check(0.1, 5, 0.5)

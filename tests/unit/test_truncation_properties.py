"""The law of a token against the same law worked out in plain Python, over logits that tie."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lexergy.engine.truncation import restricted

# Few different values, so that ties are the rule.
LOGITS = st.lists(st.sampled_from([-3.0, -1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=9)


def by_hand(logits: list[float], temperature: float, top_k: int, top_p: float) -> list[float]:
    """The same law in plain Python."""
    scores = [value / temperature for value in logits]
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    kept = order[:top_k] if top_k else order
    mass = sum(math.exp(scores[i]) for i in kept)
    nucleus, before = [], 0.0
    for i in kept:
        if before < top_p - 1e-12:
            nucleus.append(i)
        before += math.exp(scores[i]) / mass
    total = math.log(sum(math.exp(scores[i]) for i in nucleus))
    return [scores[i] - total if i in nucleus else -math.inf for i in range(len(scores))]


@settings(derandomize=True, max_examples=150, deadline=None)
@given(LOGITS, st.sampled_from([0.5, 1.0, 2.0]), st.integers(0, 10), st.sampled_from([0.31, 0.77, 1.0]))
def test_law_is_the_one_worked_out_by_hand(logits: list[float], temperature: float, top_k: int, top_p: float) -> None:
    rows = torch.tensor([logits, logits[::-1]], dtype=torch.float64)
    found = restricted(rows, temperature, top_k, top_p)
    assert found[0].tolist() == pytest.approx(by_hand(logits, temperature, top_k, top_p), abs=1e-12)
    assert found[1].tolist() == pytest.approx(by_hand(logits[::-1], temperature, top_k, top_p), abs=1e-12)

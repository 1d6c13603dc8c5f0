"""The fast step is the network's own arithmetic: attention over a shared prompt, and whole networks, against the plain way."""

import dataclasses

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from families import CAUSAL, causal
from lexergy.core.random import Keyed, seeded
from lexergy.core.types import Law
from lexergy.engine import decode
from lexergy.engine.fast import fast_step
from lexergy.engine.language_model import LanguageModel
from lexergy.engine.prefix import SharedPrefix

WRITTEN_OUT = {"llama", "qwen2", "ours", "ours backwards"}


def law(steps: int) -> Law:
    return Law("m", "r", "h", "fixed", steps, (), 0)


@pytest.mark.parametrize("counts", [[1], [3], [2, 2, 2], [1, 3, 3, 2]])
@pytest.mark.parametrize("group", [1, 3])
def test_attention_over_prompt_and_text_is_attention_over_both_joined(counts, group):
    heads, length, width, steps, prompts, rows = 2, 5, 4, 3, len(counts), sum(counts)
    rng = Keyed.of(0, "prefix")

    def some(name: str, *shape: int) -> torch.Tensor:
        return rng.at(name).gumbel(torch.Size(shape).numel()).view(shape)

    keys, values = some("keys", prompts, heads, length, width), some("values", prompts, heads, length, width)
    prefix = SharedPrefix([keys], [values], counts, steps)
    of_row = torch.repeat_interleave(torch.arange(prompts), torch.tensor(counts))
    joined_keys, joined_values = keys[of_row], values[of_row]
    for step in range(steps):
        q = some(f"q{step}", rows, heads, group, width)
        k, v = some(f"k{step}", rows, heads, width), some(f"v{step}", rows, heads, width)
        joined_keys = torch.cat([joined_keys, k[:, :, None]], 2)
        joined_values = torch.cat([joined_values, v[:, :, None]], 2)
        wanted = torch.softmax(0.5 * q @ joined_keys.transpose(2, 3), -1) @ joined_values
        torch.testing.assert_close(prefix.attend(0, q, k, v, 0.5), wanted, rtol=1e-10, atol=1e-10)
        prefix.written += 1
    assert prefix.position == length + steps


def test_attention_survives_scores_of_any_size():
    keys = torch.tensor([[[[1000.0], [-1000.0]]]])
    prefix = SharedPrefix([keys], [keys], [1], 1)
    one = torch.ones(1, 1, 1, 1)
    assert prefix.attend(0, one, torch.tensor([[[-500.0]]]), torch.tensor([[[7.0]]]), 1.0).item() == 1000


def test_families_that_are_written_out():
    assert {family for family in CAUSAL if fast_step(causal(family).model) is not None} == WRITTEN_OUT


def test_a_sliding_window_is_not_written_out():
    sizes = {
        "vocab_size": 8,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    for window, fits in ((None, True), (4, False)):
        config = MistralConfig(**sizes, num_key_value_heads=1, head_dim=4, sliding_window=window)
        assert (fast_step(MistralForCausalLM(config)) is not None) == fits


@pytest.mark.parametrize("family", sorted(WRITTEN_OUT))
def test_the_fast_step_draws_what_the_network_itself_draws(family, monkeypatch):
    with seeded(0):
        lm = LanguageModel(causal(family))
    prompts = [[1, 2, 3], [3, 2, 1], [1, 2, 3], [4]]
    fast = decode.continuations(lm, prompts, 3, law(6), Keyed.grid(0, [0] * 12, list(range(12))))
    monkeypatch.setattr(decode, "fast_step", lambda _: None)
    plain = decode.continuations(lm, prompts, 3, law(6), Keyed.grid(0, [0] * 12, list(range(12))))
    assert torch.equal(fast.ids, plain.ids)
    torch.testing.assert_close(fast.log_p, plain.log_p, rtol=0, atol=2e-4)
    assert len({tuple(row) for row in fast.ids.tolist()}) > 6


def test_prompts_read_a_few_at_a_time_are_read_alike(monkeypatch):
    lm = LanguageModel(causal("llama"))
    prompts = [[i, 2, 3] for i in range(5)]
    whole = decode.continuations(lm, prompts, 2, law(4), Keyed.grid(0, [0] * 10, list(range(10))))
    monkeypatch.setattr(decode, "_rows_at_once", lambda *_: 64)
    lm.plan = dataclasses.replace(lm.plan, tokens=6)
    few = decode.continuations(lm, prompts, 2, law(4), Keyed.grid(0, [0] * 10, list(range(10))))
    assert torch.equal(whole.ids, few.ids)

"""bf16 is believed of a checkpoint only where it says what float32 says."""

from pathlib import Path

import pytest
import torch

from lexergy.core import files
from lexergy.core.random import seeded
from lexergy.engine import agreement, load
from lexergy.engine.load import fingerprint
from lexergy.nets.transformer import TransformerForCausalLM, TransformerModel, preset
from lexergy.text.tokenisers import character_tokenizer


def network(kind: type = TransformerForCausalLM):
    with seeded(0):
        return kind(preset("tiny", vocab_size=40, hidden_size=32, num_attention_heads=2)).eval()


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("LEXERGY_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("kind", [TransformerForCausalLM, TransformerModel])
def test_a_sound_network_is_trusted_and_asked_once(kind):
    model, asked = network(kind), []

    def again():
        asked.append(1)
        return network(kind)

    half = network(kind).bfloat16()
    assert agreement.trusted(half, fingerprint(model), again)
    assert agreement.trusted(half, fingerprint(model), again)
    assert len(asked) == 1


def test_a_network_that_bf16_spoils_is_not_trusted():
    model = network()
    # Another network stands for what bf16 would have made of this one.
    spoilt = network()
    spoilt.lm_head.weight.data = spoilt.lm_head.weight.data * 40
    assert not agreement.trusted(model.bfloat16(), "spoilt", lambda: spoilt)


def test_a_broken_cache_is_no_verdict(tmp_path):
    model = network()
    kept = tmp_path / "cache" / "agreement" / "x.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{")
    assert agreement.trusted(network().bfloat16(), "x", lambda: model)
    assert files.read_json(kept)["agrees"] is True


def test_loading_falls_back_to_float32(monkeypatch, tmp_path: Path):
    tokenizer = character_tokenizer("abc")
    with seeded(0):
        model = TransformerForCausalLM(preset("tiny", vocab_size=len(tokenizer), hidden_size=32, num_attention_heads=2))
    model.save_pretrained(tmp_path / "lm")
    tokenizer.save_pretrained(tmp_path / "lm")
    chosen = load.plan

    def in_bf16(shape=None, device=None, dtype=None):
        return chosen(shape, device, dtype or "bfloat16")

    monkeypatch.setattr(load, "plan", in_bf16)
    assert load.load(tmp_path / "lm", "causal").model.dtype == torch.bfloat16
    monkeypatch.setattr(load, "trusted", lambda *_: False)
    loaded = load.load(tmp_path / "lm", "causal")
    assert loaded.model.dtype == torch.float32
    assert loaded.plan.dtype == "float32"
    assert "says something else" in loaded.plan.reasons["dtype"]
    assert load.load(tmp_path / "lm", "causal", dtype="bfloat16").model.dtype == torch.bfloat16


def test_the_fingerprint_of_a_matrix_too_large_for_float32_places():
    class Large(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(
                torch.zeros(1, dtype=torch.bfloat16).expand(28_311_552), requires_grad=False
            )

    assert fingerprint(Large()) == fingerprint(Large())


class Weighted(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)


@pytest.mark.parametrize("size", [0, 5, 32768, 32769, 3_000_000])
def test_the_fingerprint_tells_any_change_and_no_dtype(size):
    values = torch.randn(size, generator=torch.Generator().manual_seed(0)).bfloat16()
    said = fingerprint(Weighted(values))
    assert said == fingerprint(Weighted(values.float()))
    for at in {0, size // 3, size - 1} if size else ():
        other = values.clone()
        other[at] += 1
        assert fingerprint(Weighted(other)) != said, at
    for apart in (1, 32768):
        if size > 2 * apart:
            assert values[1] != values[1 + apart]
            swapped = values.clone()
            swapped[[1, 1 + apart]] = values[[1 + apart, 1]]
            assert fingerprint(Weighted(swapped)) != said

"""The transformer of ours: its cache, its masks, its kernels, what it saves, and that Hugging Face can read it."""

import importlib
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, DynamicCache
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_MAPPING,
)

from lexergy.core import random
from lexergy.core.errors import LexergyError
from lexergy.engine import load as loading
from lexergy.nets.attention import attend, rotary, turn
from lexergy.nets.transformer import (
    PRESETS,
    TransformerConfig,
    TransformerForCausalLM,
    TransformerForMaskedLM,
    TransformerModel,
    preset,
)

EITHER = pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
SIZES = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "max_position_embeddings": 32}
SHIFTED = {"rtol": 0, "atol": 1e-5}
"""Angles are float32: the same distance elsewhere is the same up to that."""


def build(kind: type = TransformerModel, double: bool = True, **changes: object) -> TransformerModel:
    """A network whose weights are wide enough for everything to matter."""
    with random.seeded(0, "nets"):
        model = kind(preset("tiny", **SIZES, **changes)).eval()
    for weight in model.parameters():
        weight.data *= 12 if weight.dim() == 2 else 1
    return model.double() if double else model


def ids(rows: int, time: int, *names: str) -> Tensor:
    """Random ids."""
    return random.Keyed.of(1, "ids", *names).integers(50, rows * time).reshape(rows, time)


def states(model: TransformerModel, given: Tensor, **inputs: object) -> Tensor:
    with torch.no_grad():
        return model(given, **inputs).last_hidden_state


@pytest.mark.parametrize("pieces", [[7, 1, 1, 1], [1] * 10, [3, 4, 3], [10]])
def test_a_cache_gives_what_the_whole_pass_does(pieces: list[int]) -> None:
    model, given = build(), ids(3, 10)
    cache, found = DynamicCache(), []
    for part in given.split(pieces, dim=1):
        found.append(states(model, part, past_key_values=cache, use_cache=True))
    torch.testing.assert_close(torch.cat(found, 1), states(model, given))
    cache.batch_select_indices(torch.tensor([2, 0, 2]))
    more = ids(3, 2, "more")
    whole = torch.cat([given[[2, 0, 2]], more], 1)
    torch.testing.assert_close(states(model, more, past_key_values=cache), states(model, whole)[:, 10:])


def test_a_padded_prompt_with_a_cache() -> None:
    model, given, more = build(), ids(2, 6), ids(2, 3, "more")
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])
    out = model(given, attention_mask=mask, use_cache=True)
    longer = torch.cat([mask, torch.ones(2, 3, dtype=torch.long)], 1)
    found = states(model, more, attention_mask=longer, past_key_values=out.past_key_values)
    alone = states(model, torch.cat([given[:1, 2:], more[:1]], 1))
    torch.testing.assert_close(found[0], alone[0, 4:], **SHIFTED)
    torch.testing.assert_close(found[1], states(model, torch.cat([given, more], 1))[1, 6:])


@EITHER
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_not_seen(causal: bool, side: str) -> None:
    model, given = build(causal=causal), ids(4, 9)
    lengths = [9, 4, 1, 6]
    place = torch.arange(9)
    rows = [place >= 9 - n if side == "left" else place < n for n in lengths]
    mask = torch.stack(rows)
    wanted = [states(model, given[row, mask[row]][None])[0] for row in range(4)]
    for filler in (0, 7):
        found = states(model, given.masked_fill(~mask, filler), attention_mask=mask.long())
        for row in range(4):
            torch.testing.assert_close(found[row, mask[row]], wanted[row], **SHIFTED)
        assert bool(found.isfinite().all())


@EITHER
def test_packed_documents_do_not_see_each_other(causal: bool) -> None:
    model, given = build(causal=causal), ids(2, 12)
    segments = torch.tensor([[0] * 4 + [1] * 5 + [2] * 3, [0] * 12])
    found = states(model, given, segments=segments)
    changed = given.clone()
    changed[0, 4:9] = (changed[0, 4:9] + 1) % 50
    again = states(model, changed, segments=segments)
    apart = torch.cat([states(model, given[:1, a:b], position_ids=torch.arange(a, b)[None])[0] for a, b in CUTS])
    torch.testing.assert_close(found[0], apart)
    assert torch.equal(found[0, :4], again[0, :4])
    assert torch.equal(found[0, 9:], again[0, 9:])
    assert not torch.allclose(found[0, 4:9], again[0, 4:9])
    torch.testing.assert_close(found[1], states(model, given[1:])[0])
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[0, 11], mask[1, 8:] = 0, 0
    both = states(model, given, segments=segments, attention_mask=mask)
    torch.testing.assert_close(both[1, :8], states(model, given[1:, :8])[0])
    torch.testing.assert_close(both[0, :9], found[0, :9])


CUTS = ((0, 4), (4, 9), (9, 12))


@EITHER
def test_positions_are_relative(causal: bool) -> None:
    model, given = build(causal=causal), ids(1, 8)
    moved = states(model, given, position_ids=torch.arange(8)[None] + 9)
    torch.testing.assert_close(moved, states(model, given), **SHIFTED)
    assert not torch.allclose(states(model, given, position_ids=2 * torch.arange(8)[None]), states(model, given))


@EITHER
def test_a_mask_of_four_axes_is_the_whole_rule(causal: bool) -> None:
    model, given = build(causal=causal), ids(2, 6)
    order = torch.ones(6, 6, dtype=torch.bool).tril()[None, None].expand(2, 1, 6, 6)
    like_causal = states(build(causal=True), given)
    torch.testing.assert_close(states(model, given, attention_mask=order), like_causal)
    added = torch.zeros(2, 1, 6, 6, dtype=torch.float64).masked_fill(~order, torch.finfo(torch.float64).min)
    torch.testing.assert_close(states(model, given, attention_mask=added), like_causal)
    everything = torch.ones(2, 1, 6, 6, dtype=torch.long)
    torch.testing.assert_close(states(model, given, attention_mask=everything), states(build(causal=False), given))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_the_two_kernels_agree_in_values_and_gradients(causal: bool, masked: bool) -> None:
    rng = random.Keyed.of(2, "kernels")
    q, k, v, out = (rng.at(i).gumbel(2 * 3 * 7 * 4).reshape(2, 3, 7, 4).float() for i in range(4))
    visible = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    visible[1, ..., 5:] = False
    if causal:
        visible = visible & torch.ones(7, 7, dtype=torch.bool).tril()
    if not masked:
        visible = None
    inputs = [x.clone().requires_grad_() for x in (q, k, v)]
    found = attend(*inputs, visible, causal=causal and not masked)
    by_hand = torch.autograd.grad((found * out).sum(), inputs)
    again = [x.clone().requires_grad_() for x in (q, k, v)]
    wanted = F.scaled_dot_product_attention(*again, attn_mask=visible, is_causal=causal and not masked)
    assert type(found.grad_fn).__name__ != type(wanted.grad_fn).__name__  # the one made by hand did run
    torch.testing.assert_close(found, wanted)
    for a, b in zip(by_hand, torch.autograd.grad((wanted * out).sum(), again), strict=True):
        torch.testing.assert_close(a, b)


@EITHER
def test_gradients_are_those_of_the_fused_kernel(causal: bool) -> None:
    """The whole network: float32 goes by hand under autograd, float64 by torch's kernel."""
    here, there = build(causal=causal, double=False), build(causal=causal)
    given, mask = ids(3, 8), torch.arange(8) < torch.tensor([[8], [5], [3]])
    values = []
    for model in (here, there):
        out = model(given, attention_mask=mask.long()).last_hidden_state
        (out.masked_fill(~mask[..., None], 0).square().sum() / 100).backward()
        values.append([p.grad.double() for p in model.parameters() if p.grad is not None])
    for a, b in zip(*values, strict=True):
        assert float((a - b).norm()) <= 1e-3 * float(b.norm()) + 1e-6


def test_a_turn_keeps_lengths_and_reads_only_distance() -> None:
    x, y = ids(1, 8).double().reshape(1, 1, 2, 4), ids(1, 8, "y").double().reshape(1, 1, 2, 4)
    products = []
    for start in (0, 5):
        angles = [part.double() for part in rotary(torch.tensor([[start, start + 3]]), 4, 10_000.0)]
        a, b = turn(x, *angles), turn(y, *angles)
        torch.testing.assert_close(a.norm(dim=-1), x.norm(dim=-1), rtol=1e-5, atol=1e-5)
        products.append((a[0, 0, 0] * b[0, 0, 1]).sum())
    torch.testing.assert_close(products[0], products[1], rtol=1e-5, atol=1e-4)


def test_longer_than_its_positions_is_an_error() -> None:
    model = build()
    assert states(model, ids(1, 32)).isfinite().all()
    with pytest.raises(LexergyError, match="33 tokens is longer than the 32"):
        model(ids(1, 33))
    out = model(ids(1, 32), use_cache=True)
    with pytest.raises(LexergyError, match="33 tokens"):
        model(ids(1, 1), past_key_values=out.past_key_values)


def test_sizes_by_name() -> None:
    assert preset("small").hidden_size == PRESETS["small"]["hidden_size"]
    assert preset("gpu", vocab_size=9).vocab_size == 9
    assert preset("tiny").intermediate_size == 4 * preset("tiny").hidden_size
    for name in PRESETS:
        preset(name)
    with pytest.raises(LexergyError, match="Did you mean 'small'"):
        preset("smal")
    with pytest.raises(LexergyError, match="multiple of twice"):
        preset("tiny", hidden_size=36, num_attention_heads=4)


def test_dropout_is_there_in_training_only() -> None:
    model, given = build(dropout=0.5), ids(2, 6)
    torch.testing.assert_close(states(model, given), states(build(), given))
    model.train()
    with random.seeded(0, "dropout"):
        assert not torch.allclose(states(model, given), states(model, given))


def test_states_of_every_layer() -> None:
    model, given = build(), ids(2, 6)
    out = model(given, output_hidden_states=True)
    assert len(out.hidden_states) == 3
    assert torch.equal(out.hidden_states[0], model.embedding(given))
    assert torch.equal(out.hidden_states[-1], out.last_hidden_state)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", [TransformerForCausalLM, TransformerForMaskedLM])
def test_what_is_saved_comes_back(kind: type, tied: bool, tmp_path: Path) -> None:
    causal = kind is TransformerForCausalLM
    changes = {"tie_word_embeddings": tied, "direction": "right_to_left", "causal": causal, "eos_token_id": [3, 4]}
    model, given = build(kind, double=False, dropout=0.25, rope_theta=500.0, **changes), ids(2, 6)
    assert (model.lm_head.weight is model.model.embedding.weight) == tied
    model.save_pretrained(tmp_path)
    again = kind.from_pretrained(tmp_path)
    assert isinstance(again.config, TransformerConfig)
    assert again.config.to_diff_dict() == model.config.to_diff_dict() | {"dtype": "float32", **_written(again)}
    assert (again.config.direction, again.config.causal, again.config.eos_token_id) == ("right_to_left", causal, [3, 4])
    assert (again.config.dropout, again.config.rope_theta, again.config.tie_word_embeddings) == (0.25, 500.0, tied)
    assert (again.lm_head.weight is again.model.embedding.weight) == tied
    assert not again.training
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert torch.equal(again(given).logits, model(given).logits)
    trunk = TransformerModel.from_pretrained(tmp_path)
    assert torch.equal(states(trunk, given), states(model.model, given))
    assert loading.fingerprint(again) == loading.fingerprint(model)
    other = TransformerModel.from_pretrained(tmp_path, causal=not causal)
    assert not torch.allclose(states(other, given), states(trunk, given))


def _written(model: TransformerForCausalLM) -> dict[str, object]:
    """What saving adds to a configuration."""
    return {"architectures": [type(model).__name__]}


def test_logits_kept_are_the_last() -> None:
    model, given = build(TransformerForCausalLM), ids(2, 6)
    torch.testing.assert_close(model(given, logits_to_keep=2).logits, model(given).logits[:, -2:])


def test_the_auto_classes_know_it_once_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(TransformerForCausalLM, double=False).save_pretrained(tmp_path)
    for known in (CONFIG_MAPPING, MODEL_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING):
        monkeypatch.setattr(known, "_extra_content", {})
    with pytest.raises(ValueError, match="lexergy"):
        AutoConfig.from_pretrained(tmp_path)
    importlib.reload(importlib.import_module("lexergy.hf"))
    assert type(AutoModelForCausalLM.from_pretrained(tmp_path)) is TransformerForCausalLM
    assert type(AutoModel.from_pretrained(tmp_path)) is TransformerModel
    assert type(AutoModelForMaskedLM.from_pretrained(tmp_path)) is TransformerForMaskedLM

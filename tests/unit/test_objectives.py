"""Objectives at their optima by enumeration, Z included; the loss of networks against the obvious formula."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed, seeded
from lexergy.core.toy import TabularLM, Universe
from lexergy.core.types import Tokens
from lexergy.engine.masking import mask_tokens, maskable, segments
from lexergy.nets.transformer import TransformerModel, preset
from lexergy.objectives.lm import lm
from lexergy.objectives.masked_lm import masked_lm
from lexergy.objectives.nce import nce
from lexergy.text.tokenisers import character_tokenizer

UNIVERSE = Universe(vocabulary=2, length=2, eos=1)
DATA = TabularLM.random(UNIVERSE, seed=11).log_prob
NOISE = TabularLM.random(UNIVERSE, seed=12).log_prob


def expected(loss_of: Callable[[Tensor, Tensor], Tensor], energy: Tensor, k: int) -> Tensor:
    """E over one true text and k noise texts."""
    total = energy.new_zeros(())
    for real, *fake in itertools.product(range(len(UNIVERSE)), repeat=1 + k):
        total = total + torch.exp(DATA[real] + NOISE[fake].sum()) * loss_of(energy[[real]], energy[fake][None])
    return total


def gradient(loss_of: Callable[[Tensor, Tensor], Tensor], energy: Tensor, k: int) -> Tensor:
    parameters = energy.detach().clone().requires_grad_(True)
    return torch.autograd.grad(expected(loss_of, parameters, k), parameters)[0]


def log_z(energy: Tensor) -> float:
    return float(torch.logsumexp(NOISE - energy, 0))


@pytest.mark.parametrize("form", ["mean", "sum"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_nce_optimum_is_the_data_with_z_one(form: str, k: int) -> None:
    energy = NOISE - DATA
    slope = gradient(lambda real, fake: nce(real, fake, form)[0], energy, k)
    assert slope.abs().max() < 1e-10
    assert torch.allclose(torch.exp(NOISE - energy), torch.exp(DATA), atol=1e-12)
    assert log_z(energy) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("shifted_by_log_k", [True, False], ids=["log k in the mean", "no log k in the sum"])
def test_mixing_the_forms_moves_z_and_not_p(k: int, shifted_by_log_k: bool) -> None:
    def mixed(real: Tensor, fake: Tensor) -> Tensor:
        shift = math.log(k) if shifted_by_log_k else 0.0
        negatives = F.logsigmoid(fake + shift)
        total = negatives.mean(1) if shifted_by_log_k else negatives.sum(1)
        return (-F.logsigmoid(-real - shift) - total).mean()

    log_scale = math.log(k) if shifted_by_log_k else -math.log(k)
    energy = NOISE - DATA - log_scale
    assert gradient(mixed, energy, k).abs().max() < 1e-10
    assert log_z(energy) == pytest.approx(log_scale, abs=1e-12)
    assert torch.allclose(torch.softmax(NOISE - energy, 0), torch.exp(DATA), atol=1e-12)


def test_both_forms_are_one_for_one_negative() -> None:
    real, fake = torch.tensor([0.3, -2.0]), torch.tensor([[1.0], [0.2]])
    assert torch.equal(nce(real, fake, "mean")[0], nce(real, fake, "sum")[0])
    by_hand = torch.log1p(torch.exp(real)).mean() + torch.log1p(torch.exp(-fake)).mean()
    assert nce(real, fake)[0].item() == pytest.approx(by_hand.item(), rel=1e-6)


def test_nce_survives_extreme_energies() -> None:
    real = torch.tensor([1e4, -1e4], requires_grad=True)
    fake = torch.tensor([[-1e4, 1e4], [1e4, -1e4]], requires_grad=True)
    for form in ("mean", "sum"):
        loss, _ = nce(real, fake, form)
        slopes = torch.autograd.grad(loss, [real, fake])
        assert torch.isfinite(loss)
        assert all(bool(torch.isfinite(slope).all()) for slope in slopes)
    assert nce(torch.tensor([-1e4]), torch.tensor([[1e4]]))[0] == 0


def test_nce_reads_bfloat16_energies_in_float32() -> None:
    real, fake = torch.tensor([0.5], dtype=torch.bfloat16), torch.tensor([[1.5]], dtype=torch.bfloat16)
    loss, _ = nce(real, fake)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(math.log1p(math.exp(0.5)) + math.log1p(math.exp(-1.5)), rel=1e-6)


def test_nce_info_counts_each_side_for_one_half() -> None:
    _, info = nce(torch.tensor([-1.0, 1.0]), torch.tensor([[2.0, 3.0, 0.0], [1.0, 1.0, 1.0]]))
    assert info["accuracy"].item() == pytest.approx(0.5 * 0.5 + 0.5 * (5.5 / 6))
    assert info["energy_real"].item() == 0
    assert info["energy_fake"].item() == pytest.approx(8 / 6)


def test_nce_names_what_it_cannot_use() -> None:
    with pytest.raises(LexergyError, match=r"Did you mean 'sum'"):
        nce(torch.zeros(1), torch.zeros(1, 1), "sun")
    with pytest.raises(LexergyError, match="positives and negatives"):
        nce(torch.zeros(2), torch.zeros(2, 0))


def _head(rows: int, width: int = 5, vocabulary: int = 7) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    with seeded(0, "head"):
        states = torch.randn(rows, width, dtype=torch.float64, requires_grad=True)
        weight = torch.randn(vocabulary, width, dtype=torch.float64, requires_grad=True)
        bias = torch.randn(vocabulary, dtype=torch.float64, requires_grad=True)
        return states, weight, bias, torch.randint(vocabulary, (rows,))


def test_lm_is_the_mean_over_real_targets() -> None:
    states, weight, bias, targets = _head(12)
    mask = torch.tensor([True, False, True, True] * 3)
    loss, info = lm(states.view(3, 4, -1), weight, targets.masked_fill(~mask, -100).view(3, 4), mask.view(3, 4), bias)
    plain = F.cross_entropy(states @ weight.t() + bias, targets.masked_fill(~mask, -100))
    assert loss.item() == pytest.approx(plain.item(), abs=1e-12)
    assert int(info["tokens"]) == 9
    ours = torch.autograd.grad(loss, [states, weight, bias])
    theirs = torch.autograd.grad(plain, [states, weight, bias])
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(ours, theirs, strict=True))


def test_masked_lm_is_the_mean_over_chosen_places() -> None:
    states, weight, bias, targets = _head(8)
    chosen = torch.tensor([False, True, False, False, True, True, False, False])
    loss, info = masked_lm(states.view(2, 4, -1), weight, targets.view(2, 4), chosen.view(2, 4), bias)
    plain = F.cross_entropy((states @ weight.t() + bias)[chosen], targets[chosen])
    assert loss.item() == pytest.approx(plain.item(), abs=1e-12)
    assert int(info["tokens"]) == 3
    nothing, _ = masked_lm(states, weight, targets, torch.zeros_like(chosen))
    assert nothing.item() == 0


def test_objectives_name_shapes_that_do_not_fit() -> None:
    states, weight, _, targets = _head(6)
    with pytest.raises(Exception, match=r"batch|each place"):
        lm(states, weight, targets[:5], torch.ones(6, dtype=torch.bool))


TOKENIZER = character_tokenizer("abc")


def _texts() -> Tokens:
    rows = [[0, 1, 2, 0, 1, 2, 0, 1, 2, 3], [0, 3], [3], [2, 2, 2, 2, 2]]
    return Tokens.of(rows, free_from=[2, 0, 0, 0], pad=int(TOKENIZER.pad_token_id))


def test_masking_spares_padding_context_and_special_tokens() -> None:
    tokens, mask_id = _texts(), int(TOKENIZER.mask_token_id)
    rng = Keyed(Keyed.of(0, "mask").words(len(tokens))[0])
    for share in (0.15, 0.5, 1.0):
        ids, chosen = mask_tokens(
            tokens, rng, mask_id, maskable(TOKENIZER), share, shown_as_mask=1.0, shown_as_random=0.0
        )
        able = tokens.mask & tokens.free & (tokens.ids < 3)
        assert not bool((chosen & ~able).any())
        assert torch.equal(ids, tokens.ids.masked_fill(chosen, mask_id))
        counts = [max(1, round(share * n)) if n else 0 for n in (7, 1, 0, 5)]
        assert chosen.sum(1).tolist() == counts


def test_masking_does_not_depend_on_the_batch() -> None:
    tokens, mask_id = _texts(), int(TOKENIZER.mask_token_id)
    rng = Keyed(Keyed.of(3, "mask").words(len(tokens))[0])
    together = mask_tokens(tokens, rng, mask_id, maskable(TOKENIZER), 0.5)
    for row in range(len(tokens)):
        at = torch.tensor([row])
        alone = mask_tokens(tokens.select(at), rng.select(at), mask_id, maskable(TOKENIZER), 0.5)
        assert torch.equal(alone[0], together[0][at])
        assert torch.equal(alone[1], together[1][at])
    other = mask_tokens(tokens, rng.at("next epoch"), mask_id, maskable(TOKENIZER), 0.5)
    assert not torch.equal(other[1], together[1])


def test_masking_shows_what_it_was_asked_to() -> None:
    """4,000 texts of 10 letters, 2 chosen in each. Bounds are 5 standard deviations: false alarm below 1e-5."""
    tokens = Tokens.of([[0] * 10] * 4000)
    rng = Keyed(Keyed.of(1, "mask").words(len(tokens))[0])
    ids, chosen = mask_tokens(tokens, rng, int(TOKENIZER.mask_token_id), maskable(TOKENIZER), share=0.2)
    n = int(chosen.sum())
    assert n == 8000
    shown = ids[chosen]
    for share, found in (
        (0.8, int((shown == TOKENIZER.mask_token_id).sum())),
        (0.1 * 2 / 3, int(((shown == 1) | (shown == 2)).sum())),
        (0.1 + 0.1 / 3, int((shown == 0).sum())),
    ):
        assert abs(found - share * n) < 5 * math.sqrt(n * share * (1 - share))
    places = chosen.sum(0).double()
    assert bool(((places - 800).abs() < 5 * math.sqrt(4000 * 0.2 * 0.8)).all())


def test_masking_names_wrong_shares_and_streams() -> None:
    tokens = _texts()
    rng = Keyed.of(0).select(torch.zeros(4, dtype=torch.long))
    with pytest.raises(LexergyError, match="add up to at most 1"):
        mask_tokens(tokens, rng, 5, maskable(TOKENIZER), shown_as_mask=0.9, shown_as_random=0.2)
    with pytest.raises(LexergyError, match="received 1 for 4"):
        mask_tokens(tokens, Keyed.of(0), 5, maskable(TOKENIZER))


def test_segments_end_with_their_end() -> None:
    ids = torch.tensor([[0, 1, 9, 2, 8, 9, 3], [9, 9, 0, 0, 0, 0, 0]])
    assert segments(ids, [9]).tolist() == [[0, 0, 0, 1, 1, 1, 2], [0, 1, 2, 2, 2, 2, 2]]
    assert segments(ids, [9, 8]).tolist()[0] == [0, 0, 0, 1, 1, 2, 3]
    assert segments(ids, []).sum() == 0


def test_packed_documents_do_not_see_each_other() -> None:
    config = preset("tiny", vocab_size=10, hidden_size=16, num_attention_heads=2, causal=False)
    with seeded(0, "packed"):
        network = TransformerModel(config).double().eval()
    first, second = [0, 1, 2, 9], [4, 5, 9]
    with torch.no_grad():
        packed = torch.tensor([first + second])
        together = network(packed, segments=segments(packed, [9])).last_hidden_state[0]
        apart = network(torch.tensor([second])).last_hidden_state[0]
        leaking = network(packed).last_hidden_state[0]
    # Rotary positions are relative, so a document reads the same wherever it stands.
    assert torch.allclose(together[len(first) :], apart, atol=1e-6)
    assert not torch.allclose(leaking[len(first) :], apart, atol=1e-3)

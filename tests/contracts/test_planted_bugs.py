"""The contracts are worth what they catch: each planted bug is caught, by the law that it breaks, and without
it nothing is."""

from collections.abc import Callable
from typing import Any

import planted_energies as energies
import planted_proposals as proposals
import planted_tables as tables
import pytest
import torch

from lexergy import contracts
from lexergy.contracts import ContractError
from lexergy.engine import truncation

PROPOSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "candidates of several prompts regrouped across prompts": (proposals.regrouped, "their own prompt|never mixed"),
    "log-probability averaged, not summed": (proposals.averaged, "log_q = log_prob"),
    "EOS masked away because pad = EOS": (proposals.eos_hidden_as_padding, "log_q = log_prob"),
    "left padding without position ids": (proposals.left_padding_without_positions, "padded on the left"),
    "BOS doubled": (proposals.start_twice, "without a context"),
    "BOS missing": (proposals.start_missing, "without a context"),
    "context and text tokenised apart": (proposals.tokenised_apart, r"log_prob\(texts, context\)"),
    "temperature applied to log-probabilities without renormalising": (
        proposals.temperature_not_normalised,
        "temperature 0.5.*log_q is the probability",
    ),
    "untruncated log_q reported for truncated draws": (proposals.untruncated_log_q, "temperature 0.5|top-k"),
    "truncated log_q reported as log_p": (proposals.truncated_log_p, "log_p is the untruncated"),
    "conditional mass below 1": (proposals.mass_below_one, "log_q"),
    "EOS not counted in log_q": (proposals.eos_not_counted, "log_q"),
    "texts run on after EOS": (proposals.runs_on_after_eos, "ends as its space says"),
    "one random number for all samples of a prompt": (proposals.one_number_for_all_samples, "independent"),
    "one random number for all steps": (proposals.one_number_for_all_steps, "independent"),
    "random numbers keyed by the row of the batch": (proposals.numbers_by_row_of_the_batch, "any batching"),
}

ENERGIES: dict[str, tuple[Callable[[], Any], str]] = {
    "NaN for some texts": (energies.not_a_number, "finite numbers"),
    "minus infinity for some texts": (energies.minus_infinity, "finite numbers"),
    "plus infinity from a finite energy": (energies.plus_infinity, "finite numbers"),
    "statistics of the batch (batch norm)": (energies.statistics_of_the_batch, "other texts of its batch"),
    "place in the batch": (energies.place_in_the_batch, "batch|order"),
    "dropout left on": (energies.dropout_left_on, "deterministic"),
    "one number for every text": (energies.constant, "tells texts apart"),
    "padding leaks into pooling": (energies.MeanOverPadding, "other texts of its batch"),
    "padding that is marked free is read": (energies.FreePadding, "padding does not count"),
    "product of probabilities in linear space": (energies.LinearSpace, "finite numbers"),
    "sign turned between saving and loading": (energies.SignTurnedAtLoading, "saved and loaded"),
    "score in another sign than the energy": (energies.RewardForEnergy, "that of its tokens"),
    "context dropped by encode": (energies.ContextDropped, "cover context and text"),
    "scoring leaves evaluation mode behind": (energies.StaysInEvaluation, "leaves the mode"),
    "scores depend on the training mode": (lambda: energies.TrainingModeMatters().eval(), "evaluation mode"),
}

OBJECTIVES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "sign of the energy turned": (tables.energy_sign_turned, "consistent", "zero where the model equals"),
    "loss maximised": (tables.loss_maximised, "consistent", "downhill"),
    "log k forgotten": (tables.log_k_forgotten, "consistent", "zero where the model equals"),
    "loss cut off from its parameters": (tables.detached, "surrogate", "downhill"),
    "softmax outside log space": (tables.outside_log_space, "surrogate", "finite"),
    "a consistent objective marked biased": (tables.sound_objective, "biased", "marked biased"),
}

SAMPLERS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "acceptance without the proposal's ratio": (tables.ratio_missing, "invariant", "πK = π"),
    "log-probability averaged in the acceptance ratio": (tables.ratio_averaged, "invariant", "πK = π"),
    "block chosen by the state": (tables.block_chosen_by_state, "invariant", "πK = π"),
    "pure nucleus with several closed classes": (tables.pure_nucleus, "invariant", "closed class"),
    "draws of another law weighed with the full log p": (tables.weighed_with_untruncated, "asymptotic", "stated law"),
    "sign of the energy turned in sampling": (tables.sampler_sign_turned, "asymptotic", "stated law"),
    "best of n passed off as resampling": (tables.best_kept, "asymptotic", "stated law"),
    "a finite-n law passed off as exact": (tables.sound_sampler, "exact draws", "is the target"),
}

ESTIMATORS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "log n dropped": (lambda: tables.partition(tables.log_n_dropped), "lower bound", "at most"),
    "a lower bound called an upper bound": (
        lambda: tables.partition(tables.mean_in_log_space),
        "upper bound",
        "at least",
    ),
    "a biased estimate called unbiased": (lambda: tables.partition(tables.mean_in_log_space), "unbiased", "unbiased"),
    "product of weights in linear space": (
        lambda: tables.partition(tables.linear_space, shift=1e4),
        "lower bound",
        "finite numbers",
    ),
    "jackknife in float32": (
        lambda: tables.partition(lambda e: tables.jackknife(e, torch.float32), shift=1e7, sizes=(1, 4, 8)),
        "asymptotic",
        "shrinks",
    ),
}


@pytest.mark.parametrize("bug", PROPOSALS)
def test_planted_bug_in_a_proposal_is_caught(bug: str) -> None:
    plant, law = PROPOSALS[bug]
    with pytest.raises(ContractError, match=law):
        contracts.check(plant())


@pytest.mark.parametrize("bug", ENERGIES)
def test_planted_bug_in_an_energy_is_caught(bug: str) -> None:
    plant, law = ENERGIES[bug]
    with pytest.raises(ContractError, match=law):
        contracts.check(plant())


@pytest.mark.parametrize("bug", [*OBJECTIVES, *SAMPLERS, *ESTIMATORS])
def test_planted_bug_over_tables_is_caught(bug: str) -> None:
    plant, law, found = (OBJECTIVES | SAMPLERS | ESTIMATORS)[bug]
    with pytest.raises(ContractError, match=found):
        contracts.check(plant(), law=law)


def test_planted_bug_top_k_ties_give_more_than_k_tokens_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncation, "_top", lambda scores, k: scores >= scores.topk(k).values[:, -1:])
    with pytest.raises(ContractError, match="top-k"):
        contracts.check(proposals.tied())


@pytest.mark.parametrize("sound", [proposals.Planted, proposals.merging, proposals.learned_positions, energies.Sound])
def test_without_a_bug_nothing_is_caught(sound: Callable[[], Any]) -> None:
    contracts.check(sound())


def test_without_a_bug_nothing_is_caught_over_tables() -> None:
    contracts.check(tables.sound_objective(), law="consistent")
    contracts.check(tables.chain(), law="invariant")
    contracts.check(tables.sound_sampler(), law="asymptotic")
    contracts.check(tables.partition(tables.mean_in_log_space), law="lower bound")
    for shift in (0.0, 1e7):
        jackknife = tables.partition(lambda e: tables.jackknife(e, torch.float64), shift, sizes=(1, 4, 8))
        contracts.check(jackknife, law="asymptotic")

"""Energies with one defect each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexergy.core import files
from lexergy.core.random import Keyed
from lexergy.core.toy import LETTERS
from lexergy.core.types import Tokens
from lexergy.energies.base import Energy
from lexergy.text.joint import Encoded
from lexergy.text.tokenisers import character_tokenizer, load_tokenizer


class Sound(Energy):
    """A small energy that keeps its law: sums over free tokens of a table entry that depends on the token
    before."""

    def __init__(self, spoil: Callable[[Tensor, Tokens], Tensor] | None = None) -> None:
        super().__init__()
        self.tokenizer: PreTrainedTokenizerBase | None = character_tokenizer(LETTERS)
        size = len(self.tokenizer)
        table = Keyed.of(0, "planted").gumbel(size * size).view(size, size)
        self.table = nn.Parameter(table)
        self.spoil = spoil

    def forward(self, tokens: Tokens) -> Tensor:
        values = self.sound(tokens)
        return values if self.spoil is None else self.spoil(values, tokens)

    def sound(self, tokens: Tokens) -> Tensor:
        before = torch.nn.functional.pad(tokens.ids, (1, 0))[:, :-1]
        return (self.table[before, tokens.ids] * (tokens.free & tokens.mask)).sum(1)

    def config(self) -> dict[str, Any]:
        return {}

    def save_parts(self, folder: Path) -> None:
        files.write_tensors(folder / "table.safetensors", {"table": self.table})
        assert self.tokenizer is not None
        self.tokenizer.save_pretrained(folder)

    @classmethod
    def load(cls, folder: Path, _config: dict[str, Any], **_options: Any) -> "Sound":
        energy = cls()
        energy.tokenizer = load_tokenizer(folder)
        files.load_state(energy, files.read_tensors(folder / "table.safetensors"), folder)
        return energy


def spoiled(spoil: Callable[[Tensor, Tokens], Tensor]) -> Callable[[], Energy]:
    return lambda: Sound(spoil)


def _where_two_are_alike(values: Tensor, tokens: Tokens, bad: float) -> Tensor:
    alike = ((tokens.ids[:, 1:] == tokens.ids[:, :-1]) & tokens.mask[:, 1:]).any(1)
    return torch.where(alike, torch.full_like(values, bad), values)


not_a_number = spoiled(lambda values, tokens: _where_two_are_alike(values, tokens, float("nan")))
minus_infinity = spoiled(lambda values, tokens: _where_two_are_alike(values, tokens, float("-inf")))
plus_infinity = spoiled(lambda values, tokens: _where_two_are_alike(values, tokens, float("inf")))
statistics_of_the_batch = spoiled(lambda values, _: values - values.mean())
place_in_the_batch = spoiled(lambda values, _: values + 0.01 * torch.arange(len(values)))
dropout_left_on = spoiled(lambda values, _: nn.functional.dropout(values, 0.5, training=True))
constant = spoiled(lambda values, _: 0 * values)


class MeanOverPadding(Sound):
    """Divided by the width of the batch."""

    def sound(self, tokens: Tokens) -> Tensor:
        return super().sound(tokens) / tokens.ids.shape[1]


class FreePadding(Sound):
    """free read without mask."""

    def sound(self, tokens: Tokens) -> Tensor:
        return (self.table[0][tokens.ids] * tokens.free).sum(1)

    def of_tokens(self, tokens: Tokens) -> Tensor:
        with torch.no_grad():
            return self(tokens).double()


class LinearSpace(Sound):
    """A product of probabilities, and its logarithm."""

    def sound(self, tokens: Tokens) -> Tensor:
        p = torch.softmax(5 * self.table, dim=-1)[0][tokens.ids] * 0.02
        return -torch.log(torch.where(tokens.free & tokens.mask, p, torch.ones_like(p)).prod(1))


class SignTurnedAtLoading(Sound):
    @classmethod
    def load(cls, folder: Path, _config: dict[str, Any], **_options: Any) -> "Sound":
        energy = super().load(folder, _config)
        energy.table.data.neg_()
        return energy


class RewardForEnergy(Sound):
    """score gives what is higher for the likelier, of_tokens what is lower."""

    def score(self, texts: Any, context: Any = "", windows: Any = None) -> list[float]:
        return [-value for value in super().score(texts, context, windows)]


class ContextDropped(Sound):
    def encode(self, texts: Sequence[str], contexts: Sequence[str]) -> list[Encoded]:
        return super().encode(texts, [""] * len(contexts))


class StaysInEvaluation(Sound):
    def of_tokens(self, tokens: Tokens) -> Tensor:
        self.eval()
        return super().of_tokens(tokens)


class TrainingModeMatters(Sound):
    """Scores in whatever mode it is in, and the mode matters."""

    def of_tokens(self, tokens: Tokens) -> Tensor:
        with torch.no_grad():
            values = self(tokens.left_aligned()).double()
        return values * (0.9 if self.training else 1.0)

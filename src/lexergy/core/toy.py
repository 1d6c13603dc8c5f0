"""The toy universe: every text there is, so that laws can be summed instead of believed.

A `Universe` lists all texts over a small vocabulary; laws over it are tables (`TabularLM`, `TabularMasked`),
energies are one number a text. `Problem`, `Drawing`, `Estimation` and `Kernel` are what a component's
`tiny()` hands to its contract.

Example:

    universe = Universe(vocabulary=3, length=4, eos=2)
    lm = TabularLM.random(universe, seed=0)
    lm.log_prob.exp().sum()          # 1
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed, Rng
from lexergy.core.types import Direction, Tokens

LETTERS: Final = "abc"
"""The toy alphabet. Its character tokenizer gives the letters ids 0, 1, 2; EOS, padding and mask come behind
them."""

MASKED: Final = -1
"""Stands in a context of `TabularMasked` where a token is hidden."""


@dataclass(frozen=True)
class Universe:
    """All texts over ids 0 … vocabulary−1: of exactly `length` tokens, or, with an `eos`, of at most so many,
    each ended by its first EOS or by its length. Written right to left, a text's EOS stands before its first
    token."""

    vocabulary: int
    length: int
    eos: int | None = None
    direction: Direction = "left_to_right"

    @cached_property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """Every text, in reading order and sorted."""
        written = list(self._endings(()))
        return tuple(sorted(row if self.direction == "left_to_right" else row[::-1] for row in written))

    def _endings(self, begun: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(begun) == self.length or (begun and begun[-1] == self.eos):
            yield begun
        else:
            for token in range(self.vocabulary):
                yield from self._endings((*begun, token))

    @cached_property
    def tokens(self) -> Tokens:
        """Every text as a row, padded on the right, all of it free."""
        return Tokens.of(self.rows)

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        return {row: place for place, row in enumerate(self.rows)}

    def __len__(self) -> int:
        return len(self.rows)

    def index(self, ids: Sequence[int]) -> int:
        """The place of a text."""
        place = self._places.get(tuple(int(token) for token in ids))
        if place is None:
            raise LexergyError(f"{list(ids)} is no text of {self}.")
        return place

    def indices(self, tokens: Tokens) -> Int[Tensor, "batch"]:
        """The place of each row's free tokens."""
        return torch.tensor([self.index(tokens.free_ids(row)) for row in range(len(tokens))], dtype=torch.long)


def written(row: Sequence[int], direction: Direction) -> tuple[int, ...]:
    """A text in the order it is written in; the inverse of itself."""
    return tuple(row) if direction == "left_to_right" else tuple(row)[::-1]


@dataclass(frozen=True)
class TabularLM:
    """A language model as tables: for each beginning, in writing order, log-probabilities of the next
    token."""

    universe: Universe
    tables: Mapping[tuple[int, ...], Float[Tensor, "vocabulary"]]

    @staticmethod
    def random(universe: Universe, seed: int, spread: float = 1.0) -> "TabularLM":
        """Gumbel logits for every beginning, float64; the larger the spread, the further from uniform."""
        beginnings = {written(row, universe.direction)[:t] for row in universe.rows for t in range(len(row))}
        return TabularLM(
            universe,
            {
                begun: torch.log_softmax(spread * Keyed.of(seed, "lm", *begun).gumbel(universe.vocabulary)[0], dim=-1)
                for begun in sorted(beginnings)
            },
        )

    @staticmethod
    def of(universe: Universe, log_prob: Float[Tensor, "texts"]) -> "TabularLM":
        """The chain of conditionals of a given law over the texts, which need not be normalised."""
        mass: dict[tuple[int, ...], Tensor] = {}
        for row, value in zip(universe.rows, log_prob.double(), strict=True):
            order = written(row, universe.direction)
            for t in range(len(order) + 1):
                mass[order[:t]] = torch.logaddexp(mass[order[:t]], value) if order[:t] in mass else value
        beginnings = {written(row, universe.direction)[:t] for row in universe.rows for t in range(len(row))}
        next_mass = {b: torch.stack([mass[(*b, v)] for v in range(universe.vocabulary)]) for b in sorted(beginnings)}
        return TabularLM(universe, {b: torch.log_softmax(values, dim=-1) for b, values in next_mass.items()})

    def next(self, begun: Sequence[int]) -> Float[Tensor, "vocabulary"]:
        """Log-probabilities of the token after a beginning, in writing order."""
        return self.tables[tuple(begun)]

    def changed(self, function: Callable[[Tensor], Tensor]) -> "TabularLM":
        """The same with every table changed: tempered or truncated, say. `function` maps one vector of
        log-probabilities to another; what it returns is normalised."""
        return TabularLM(
            self.universe, {b: torch.log_softmax(function(table), dim=-1) for b, table in self.tables.items()}
        )

    @cached_property
    def log_prob(self) -> Float[Tensor, "texts"]:
        """log P of every text of the universe; they sum to 1."""
        rows = [written(row, self.universe.direction) for row in self.universe.rows]
        return torch.stack([torch.stack([self.next(row[:t])[row[t]] for t in range(len(row))]).sum() for row in rows])

    def draw(self, rng: Rng) -> Int[Tensor, "rows"]:
        """A text for each stream, token by token, as places in the universe."""
        found: list[int] = []
        for row in range(rng.rows):
            stream = rng.select(torch.tensor([row]))
            begun: list[int] = []
            while tuple(begun) in self.tables:
                begun.append(int(stream.at(len(begun)).categorical(self.next(begun)[None])[0]))
            found.append(self.universe.index(written(begun, self.universe.direction)))
        return torch.tensor(found, dtype=torch.long)


@dataclass(frozen=True)
class TabularMasked:
    """A masked language model as tables: for each text with some tokens hidden (`MASKED`), the law of each
    hidden one.

    Built from a joint law the conditionals are consistent: all are conditionals of one law. Real masked
    language models are not, and `inconsistent` is deliberately so.
    """

    universe: Universe
    tables: Mapping[tuple[int, ...], Float[Tensor, "time vocabulary"]]

    @staticmethod
    def consistent(universe: Universe, log_prob: Float[Tensor, "texts"]) -> "TabularMasked":
        """The conditionals of a joint law over texts of one length: p(x_i | visible), hidden neighbours
        summed out."""
        rows = universe.tokens.ids
        tables: dict[tuple[int, ...], Tensor] = {}
        for context in _contexts(universe):
            given = torch.tensor(context)
            agree = ((rows == given) | (given == MASKED)).all(dim=1)
            table = torch.zeros(universe.length, universe.vocabulary, dtype=torch.float64)
            for place in range(universe.length):
                values = [log_prob.double()[agree & (rows[:, place] == v)] for v in range(universe.vocabulary)]
                table[place] = torch.stack([torch.logsumexp(v, 0) for v in values])
            tables[context] = torch.log_softmax(table, dim=-1)
        return TabularMasked(universe, tables)

    @staticmethod
    def inconsistent(universe: Universe, seed: int, spread: float = 1.0) -> "TabularMasked":
        """Random conditionals, one table a context: no joint law has them."""
        size = universe.length * universe.vocabulary
        return TabularMasked(
            universe,
            {
                context: torch.log_softmax(
                    spread * Keyed.of(seed, "masked", *context).gumbel(size).view(universe.length, -1), dim=-1
                )
                for context in _contexts(universe)
            },
        )

    def conditional(self, context: Sequence[int]) -> Float[Tensor, "time vocabulary"]:
        """Log-probabilities at each place given the tokens that are not MASKED; read them at the masked
        places."""
        return self.tables[tuple(int(token) for token in context)]


def _contexts(universe: Universe) -> Iterator[tuple[int, ...]]:
    if universe.eos is not None:
        raise LexergyError("A masked language model is tabulated over texts of one length: use a Universe without eos.")
    return itertools.product(range(MASKED, universe.vocabulary), repeat=universe.length)


def energies(universe: Universe, seed: int, spread: float = 1.0) -> Float[Tensor, "texts"]:
    """One random energy a text, float64."""
    return spread * Keyed.of(seed, "energies").gumbel(len(universe))[0]


@dataclass(frozen=True)
class Problem:
    """An objective over tables. `optimum`: parameters at which the model equals the data. `expected_loss`:
    the loss's expectation over data, noise and draws by enumeration, differentiable. `wrong`: parameters from
    which a step downhill must lead towards the optimum."""

    optimum: Tensor
    expected_loss: Callable[[Tensor], Tensor]
    wrong: Tensor


@dataclass(frozen=True)
class Drawing:
    """A sampler of independent outcomes. `draw`: one outcome (a place in a universe) from an Rng of one row.
    `law`: the exact law of that outcome. `target`: what it is to draw from. `at`: the law at n, shown to
    approach the target from n = 1 to 8."""

    draw: Callable[[Rng], int]
    law: Float[Tensor, "texts"]
    target: Float[Tensor, "texts"]
    at: Callable[[int], Tensor]


@dataclass(frozen=True)
class Kernel:
    """A sampler that moves. `step`: one move from a state (a place in a universe), by an Rng of one row.
    `target`: the law that it must leave as it is."""

    step: Callable[[int, Rng], int]
    target: Float[Tensor, "states"]


@dataclass(frozen=True)
class Estimation:
    """An estimator. `estimate`: from the places of n independent outcomes to a number. `law`: the law of one
    outcome. `truth`: what is estimated. `sizes`: increasing n, small enough that every sample of n can be
    listed."""

    estimate: Callable[[Int[Tensor, "n"]], float]
    law: Float[Tensor, "outcomes"]
    truth: float
    sizes: tuple[int, ...]

"""Randomness is an argument: a number is a function of (seed, names, call), never of what else was drawn or batched.

Equation: uniform = mix(mix(seed ⊕ name₁) ⊕ name₂ …) / 2⁶⁴, where mix is a bijection of 64-bit words with full avalanche
(the finaliser of a multiplicative congruential hash). Every sampler draws through an `Rng`; under a contract the `Rng`
is `Enumerated`, which walks through every outcome there is and says how probable it was.
"""

# torch and safetensors leave some of their types open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import hashlib
import math
import operator
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lexergy.core.errors import LexergyError

T = TypeVar("T")

_GOLDEN: Final = -7046029254386353131  # 2⁶⁴ / φ as a signed word: successive keys are spread over the whole range
_BLOCK: Final = 256
"""Options in a block of `Keyed.categorical`."""
_MUL_A: Final = -4658895280553007687
_MUL_B: Final = -7723592293110705685


def fresh_seed() -> int:
    """A seed for `seed=None`: drawn once, recorded by whoever asked."""
    return secrets.randbits(32)


def resolve(seed: int | None) -> int:
    """The given seed, or a fresh one."""
    if seed is None:
        return fresh_seed()
    try:
        return operator.index(seed)
    except TypeError as error:
        raise LexergyError(f"A seed is a whole number, or None to have one drawn; received {seed!r}.") from error


def _shift(x: Tensor, by: int) -> Tensor:
    """Logical right shift of signed 64-bit words."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def mix(x: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """A bijection of 64-bit words in which every input bit moves every output bit."""
    x = x + _GOLDEN
    x = (x ^ _shift(x, 30)) * _MUL_A
    x = (x ^ _shift(x, 27)) * _MUL_B
    return x ^ _shift(x, 31)


def word(name: int | str | bytes | Sequence[int]) -> int:
    """A name as a signed 64-bit word: integers as they are, everything else hashed."""
    if isinstance(name, int):
        value = name & (2**64 - 1)
        return value - 2**64 if value >= 2**63 else value
    if isinstance(name, str):
        data = b"s" + name.encode()
    elif isinstance(name, bytes):
        data = b"b" + name
    else:
        data = b"i" + b",".join(str(item).encode() for item in name)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


class Rng(ABC):
    """One stream of random numbers a row."""

    rows: int

    @abstractmethod
    def at(self, *names: int | str) -> "Rng":
        """The streams for a named step: independent of every other name, the same each time it is asked for."""

    @abstractmethod
    def select(self, index: Int[Tensor, "some"]) -> "Rng":
        """The streams of some rows, repeats allowed."""

    @abstractmethod
    def categorical(self, log_p: Float[Tensor, "rows options"]) -> Int[Tensor, "rows"]:
        """One option a row, with probability ∝ exp(log_p)."""

    @abstractmethod
    def bernoulli(self, p: Float[Tensor, "rows"]) -> Bool[Tensor, "rows"]:
        """True with probability p."""

    @abstractmethod
    def permutation(self, n: int) -> Int[Tensor, "rows n"]:
        """A uniformly random order of 0 … n−1 a row."""


class Keyed(Rng):
    """Numbers keyed by their names: the same under any batching, resumption or number of workers.

    Asking one `Rng` twice for the same thing gives the same answer twice: name each use with `at`.
    """

    def __init__(self, keys: Int[Tensor, "rows"]) -> None:
        self.keys = keys
        self.rows = keys.shape[0]

    @staticmethod
    def of(seed: int, *names: int | str) -> "Keyed":
        """One stream, by seed and names."""
        return Keyed(mix(torch.tensor([word(seed)]))).at(*names)

    @staticmethod
    def grid(seed: int, prompts: Sequence[int], samples: Sequence[int]) -> "Keyed":
        """One stream for each (prompt, sample) pair, given as two columns of words."""
        key = mix(torch.tensor([word(seed)]))
        key = mix(key ^ torch.tensor([word(p) for p in prompts], dtype=torch.long))
        return Keyed(mix(key ^ torch.tensor([word(s) for s in samples], dtype=torch.long)))

    @staticmethod
    def draws(seed: int, prompts: Sequence[Sequence[int]], n: int, first: Sequence[int] | None = None) -> "Keyed":
        """n streams for each prompt given by ids, in order; those of prompt i are its samples first[i], first[i] + 1, …

        `first` (default 0) is for prompts that come again: the same samples would be drawn again.
        """
        begin = [0] * len(prompts) if first is None else first
        keys = [key for key in map(word, map(tuple, prompts)) for _ in range(n)]
        return Keyed.grid(seed, keys, [start + sample for start in begin for sample in range(n)])

    def at(self, *names: int | str) -> "Keyed":
        keys = self.keys
        for name in names:
            keys = mix(keys ^ word(name))
        return Keyed(keys)

    def select(self, index: Int[Tensor, "some"]) -> "Keyed":
        return Keyed(self.keys[index.to(self.keys.device)])

    def to(self, device: torch.device | str) -> "Keyed":
        """The same streams with their keys on a device, so that drawing there copies nothing."""
        return Keyed(self.keys.to(device))

    def words(self, n: int) -> Int[Tensor, "rows n"]:
        """n independent 64-bit words a row."""
        return mix(mix(self.keys)[:, None] ^ torch.arange(n, device=self.keys.device))

    def uniform(self, n: int) -> Float[Tensor, "rows n"]:
        """n numbers a row in the open interval (0, 1), float64: never 0, so that their logarithm is finite."""
        return (_shift(self.words(n), 12).double() + 0.5) * 2.0**-52

    def gumbel(self, n: int) -> Float[Tensor, "rows n"]:
        """n standard Gumbel numbers a row, float64."""
        return -torch.log(-torch.log(self.uniform(n)))

    def categorical(self, log_p: Float[Tensor, "rows options"]) -> Int[Tensor, "rows"]:
        """By inversion: the first option whose cumulative probability passes a uniform number.

        A vocabulary is walked in two strides, over the sums of blocks and then within one: one pass over it, where a
        cumulative sum of all of it would be several. Sums are float64.
        """
        log_p = log_p.to(self.keys.device)
        log_p = log_p.to(torch.promote_types(log_p.dtype, torch.float32))
        rows, options = log_p.shape
        p = torch.exp(log_p - log_p.amax(dim=-1, keepdim=True))
        width = min(options, _BLOCK)
        p = torch.nn.functional.pad(p, (0, -options % width)).view(rows, -1, width)
        passed = p.sum(dim=-1, dtype=torch.float64).cumsum(dim=-1)
        target = self.uniform(1) * passed[:, -1:]
        block = torch.searchsorted(passed, target, right=True).clamp(max=passed.shape[1] - 1)
        before = torch.where(block > 0, passed.gather(1, (block - 1).clamp(min=0)), 0.0)
        inside = p.gather(1, block[..., None].expand(-1, 1, width)).squeeze(1).double()
        place = torch.searchsorted(inside.cumsum(dim=-1), target - before, right=True).clamp(max=width - 1)
        # Rounding can still pass the last option that has any probability: step back to it.
        last = width - 1 - (inside.flip(-1) > 0).int().argmax(dim=-1, keepdim=True)
        return (block * width + torch.minimum(place, last)).squeeze(1)

    def bernoulli(self, p: Float[Tensor, "rows"]) -> Bool[Tensor, "rows"]:
        return self.uniform(1).squeeze(-1) < p.to(self.keys.device)

    def permutation(self, n: int) -> Int[Tensor, "rows n"]:
        return torch.argsort(self.words(n), dim=-1, stable=True)

    def integers(self, high: int, n: int) -> Int[Tensor, "rows n"]:
        """n integers a row, uniform over 0 … high−1 (bias below 2⁻³² for any practical `high`)."""
        return (self.uniform(n) * high).long().clamp(max=high - 1)


class _Script:
    """The choices of one run: those prescribed, and the options met after them."""

    def __init__(self, prescribed: list[int]) -> None:
        self.prescribed = prescribed
        self.taken: list[int] = []
        self.options: list[list[int]] = []
        self.log_prob = 0.0

    def choose(self, log_p: list[float]) -> int:
        total = math.log(sum(math.exp(v - max(log_p)) for v in log_p)) + max(log_p)
        options = [i for i, v in enumerate(log_p) if v > -math.inf]
        at = len(self.taken)
        chosen = self.prescribed[at] if at < len(self.prescribed) else options[0]
        self.taken.append(chosen)
        self.options.append(options)
        self.log_prob += log_p[chosen] - total
        return chosen


class Enumerated(Rng):
    """The randomness of one run of `outcomes`: takes the choices of its script, row by row."""

    def __init__(self, script: _Script, rows: int) -> None:
        self._script = script
        self.rows = rows

    def at(self, *names: int | str) -> "Enumerated":  # noqa: ARG002  every call is a fresh choice here
        return self

    def select(self, index: Int[Tensor, "some"]) -> "Enumerated":
        return Enumerated(self._script, index.shape[0])

    def categorical(self, log_p: Float[Tensor, "rows options"]) -> Int[Tensor, "rows"]:
        return torch.tensor([self._script.choose(row.tolist()) for row in log_p.double()], device=log_p.device)

    def bernoulli(self, p: Float[Tensor, "rows"]) -> Bool[Tensor, "rows"]:
        return self.categorical(torch.log(torch.stack([1 - p, p], dim=-1).double())).bool()

    def permutation(self, n: int) -> Int[Tensor, "rows n"]:
        orders = []
        for _ in range(self.rows):
            left, order = list(range(n)), []
            while left:
                order.append(left.pop(self._script.choose([0.0] * len(left))))
            orders.append(order)
        return torch.tensor(orders)


def outcomes(run: Callable[[Rng], T], rows: int = 1, limit: int = 1_000_000) -> Iterator[tuple[T, float]]:
    """Every outcome of a function of randomness, with its log-probability: the hook by which a contract sums a sampler.

    `run` is called once for each path through its own choices, depth first. The probabilities of all paths sum to 1.
    """
    prescribed: list[int] | None = []
    count = 0
    while prescribed is not None:
        script = _Script(prescribed)
        value = run(Enumerated(script, rows))
        yield value, script.log_prob
        count += 1
        if count >= limit:
            raise LexergyError(f"More than {limit} outcomes: enumerate a smaller universe.")
        prescribed = None
        for at in reversed(range(len(script.taken))):
            later = [option for option in script.options[at] if option > script.taken[at]]
            if later:
                prescribed = [*script.taken[:at], later[0]]
                break


@contextmanager
def seeded(seed: int, *names: int | str) -> Generator[None]:
    """torch's own generator (dropout, initialisation) set for the length of a block, and given back as it was."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(Keyed.of(seed, *names).keys[0]) & (2**63 - 1))
        yield

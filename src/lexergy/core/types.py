"""The shared words: str → Tokens → Draws → Samples → Estimate or Bounds, each a frozen record checked where it is made."""

# torch and safetensors leave some of their types open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lexergy.core import logspace, random
from lexergy.core.errors import LexergyError
from lexergy.core.finite import check_energies

Space = Literal["fixed", "until_eos"]
"""The space of continuations (spec: decide it once). `fixed`: exactly T tokens, EOS is an ordinary token and the text
runs on after it. `until_eos`: a text ends at its first EOS or at T tokens."""

Direction = Literal["left_to_right", "right_to_left"]


@dataclass(frozen=True)
class Tokens:
    """Token ids in reading order. `mask`: True where there is a real token. `free`: True where the token is what is being
    modelled (a continuation, a prefix, an infill, everything); False where it is given as context, or padding."""

    ids: Int[Tensor, "batch time"]
    mask: Bool[Tensor, "batch time"]
    free: Bool[Tensor, "batch time"]

    def __post_init__(self) -> None:
        if not self.ids.shape == self.mask.shape == self.free.shape:
            raise LexergyError(
                f"Tokens need ids, mask and free of one shape; received {tuple(self.ids.shape)}, "
                f"{tuple(self.mask.shape)} and {tuple(self.free.shape)}."
            )

    @staticmethod
    def of(rows: Sequence[Sequence[int]], free_from: Sequence[int] | None = None, pad: int = 0) -> "Tokens":
        """Rows of ids, padded on the right; row i is free from position `free_from[i]` on (default: all of it)."""
        width = max((len(row) for row in rows), default=0)
        ids = torch.full((len(rows), width), pad, dtype=torch.long)
        mask = torch.zeros(len(rows), width, dtype=torch.bool)
        free = torch.zeros_like(mask)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.as_tensor(row, dtype=torch.long)
            mask[i, : len(row)] = True
            free[i, (free_from[i] if free_from is not None else 0) : len(row)] = True
        return Tokens(ids, mask, free)

    def __len__(self) -> int:
        return self.ids.shape[0]

    @property
    def lengths(self) -> Int[Tensor, "batch"]:
        """How many real tokens each row has."""
        return self.mask.sum(dim=1)

    def to(self, device: torch.device | str) -> "Tokens":
        """The same on a device."""
        return Tokens(self.ids.to(device), self.mask.to(device), self.free.to(device))

    def select(self, rows: Int[Tensor, "rows"] | Bool[Tensor, "batch"] | slice | Sequence[int]) -> "Tokens":
        """Some of the rows."""
        index = torch.as_tensor(rows, dtype=torch.long) if isinstance(rows, Sequence) else rows
        return Tokens(self.ids[index], self.mask[index], self.free[index])

    def left_aligned(self, pad: int = 0) -> "Tokens":
        """The same texts with each row's real tokens moved to its start, and columns that hold nothing dropped.

        Every network reads tokens in this form: position 0 is the first real token, so that default positions are
        right for every family and the side of the padding cannot matter.
        """
        if bool(self.mask.all()):
            return self
        order = torch.argsort((~self.mask).to(torch.int8), dim=1, stable=True)
        width = int(self.mask.sum(dim=1).max()) if len(self) else 0
        order = order[:, :width]
        mask = self.mask.gather(1, order)
        ids = self.ids.gather(1, order).masked_fill(~mask, pad)
        return Tokens(ids, mask, self.free.gather(1, order) & mask)

    def real(self, row: int) -> list[int]:
        """The real ids of one row."""
        return self.ids[row][self.mask[row]].tolist()

    def free_ids(self, row: int) -> list[int]:
        """The real, free ids of one row."""
        return self.ids[row][self.mask[row] & self.free[row]].tolist()


def concatenate(parts: Sequence[Tokens], pad: int = 0) -> Tokens:
    """Tokens below one another, padded on the right to one width."""
    width = max(part.ids.shape[1] for part in parts)

    def widen(x: Tensor, value: int | bool) -> Tensor:
        return torch.nn.functional.pad(x, (0, width - x.shape[1]), value=value)

    return Tokens(
        torch.cat([widen(part.ids, pad) for part in parts]),
        torch.cat([widen(part.mask, False) for part in parts]),
        torch.cat([widen(part.free, False) for part in parts]),
    )


@dataclass(frozen=True)
class Law:
    """What a set of texts was drawn by: enough to weigh them, to draw them again, and to refuse the wrong model."""

    model: str
    revision: str
    hash: str
    space: Space
    max_new_tokens: int
    eos: tuple[int, ...]
    seed: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    direction: Direction = "left_to_right"
    dtype: str = "float32"

    @property
    def truncated(self) -> bool:
        """Whether some texts of the model could not be drawn."""
        return self.top_k > 0 or self.top_p < 1.0

    @property
    def exact(self) -> bool:
        """Whether texts were drawn from the model itself: untruncated, at temperature 1."""
        return not self.truncated and self.temperature == 1.0

    def __str__(self) -> str:
        parts = [f"temperature {self.temperature:g}"]
        if self.top_k:
            parts.append(f"top-k {self.top_k}")
        if self.top_p < 1:
            parts.append(f"top-p {self.top_p:g}")
        if self.exact:
            parts = ["untruncated, temperature 1"]
        ends = "a text ends at its first EOS or" if self.space == "until_eos" else "texts run across EOS for"
        side = "continuation" if self.direction == "left_to_right" else "prefix"
        amount = f"at {self.max_new_tokens} tokens" if self.space == "until_eos" else f"{self.max_new_tokens} tokens"
        return f"{side} by {self.model}: {', '.join(parts)}; {ends} {amount}; seed {self.seed}, {self.dtype}"

    def to_json(self) -> dict[str, Any]:
        """A plain mapping."""
        return {**dataclasses.asdict(self), "eos": list(self.eos)}

    @staticmethod
    def from_json(value: dict[str, Any]) -> "Law":
        """The inverse of `to_json`."""
        given: dict[str, Any] = dict(value)
        given["eos"] = tuple(given["eos"])
        return Law(**given)


@dataclass(frozen=True)
class Draws:
    """Texts that a proposal wrote. `texts` are without the prompt, `tokens` with it. `log_q`: the probability they were
    actually drawn with, after temperature, truncation and EOS. `log_p`: under the untruncated model (None where unknown)."""

    texts: list[str]
    tokens: Tokens
    log_q: Float[Tensor, "batch"]
    log_p: Float[Tensor, "batch"] | None
    law: Law

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Samples:
    """Draws with their energies and weights. Made by `Samples.weigh`, the one place where weights are made."""

    texts: list[str]
    tokens: Tokens
    log_q: Float[Tensor, "batch"]
    log_p: Float[Tensor, "batch"] | None
    energy: Float[Tensor, "batch"]
    log_weight: Float[Tensor, "batch"]
    weight: Float[Tensor, "batch"]
    ess: float
    max_weight: float
    law: str
    seed: int

    @staticmethod
    def weigh(draws: Draws, energy: Float[Tensor, "batch"], base: Literal["draw", "full"] = "draw") -> "Samples":
        """Weigh draws by an energy.

        base="draw": log w = −E, targeting Q·exp(−E) where Q is the law drawn from, temperature and truncation included.
        base="full": log w = log P_LM − log Q − E, targeting P_LM·exp(−E) on the texts that Q can reach.
        """
        values = energy.double().cpu()
        check_energies(values, lambda place: f"row {place[0]} (the text: {draws.texts[place[0]][:80]!r})", forbid=True)
        if bool(torch.isposinf(values).all()):
            raise LexergyError(
                f"All {len(values)} drawn texts are forbidden (energy +inf), so no weight is above zero. Draw more "
                "texts, or loosen the constraint."
            )
        if base == "full":
            if draws.log_p is None:
                raise LexergyError('base="full" needs log_p, which this proposal does not know. Use base="draw".')
            log_weight = draws.log_p - draws.log_q - values
        elif base == "draw":
            log_weight = -values
        else:
            raise LexergyError(f'base is "draw" or "full"; received {base!r}.')
        target = "Q·exp(−E)" if base == "draw" else "P_LM·exp(−E)"
        if base == "full" and draws.law.truncated:
            target += ", on the texts that Q reaches"
        if base == "draw" and draws.law.exact:
            target = "P_LM·exp(−E)"
        weight = logspace.normalised(log_weight)
        return Samples(
            texts=draws.texts,
            tokens=draws.tokens,
            log_q=draws.log_q,
            log_p=draws.log_p,
            energy=values,
            log_weight=log_weight,
            weight=weight,
            ess=float(logspace.effective_sample_size(log_weight)),
            max_weight=float(weight.max()),
            law=f"{target}, approached by {len(draws)} weighted draws; Q: {draws.law}",
            seed=draws.law.seed,
        )

    def __len__(self) -> int:
        return len(self.texts)

    def pick_rows(self, m: int, rng: random.Rng, replace: bool = True) -> list[int]:
        """m rows resampled by weight; without replacement, by weight among those left."""
        alive = int((self.weight > 0).sum())
        if m < 1:
            raise LexergyError(f"Pick at least one text; received {m}.")
        if not replace and m > alive:
            raise LexergyError(
                f"Cannot pick {m} different texts: {alive} of {len(self)} have a weight above zero. Draw more, or replace=True."
            )
        log_weight = torch.log(self.weight)
        rows: list[int] = []
        for i in range(m):
            row = int(rng.at(i).categorical(log_weight[None])[0])
            rows.append(row)
            if not replace:
                log_weight = log_weight.index_fill(0, torch.tensor([row]), -torch.inf)
        return rows

    def pick(self, m: int = 1, seed: int | None = None, replace: bool = True) -> list[str]:
        """m texts resampled by weight. `seed=None` goes on from the seed of the draws."""
        # Keyed by the prompt too: picks after different prompts are independent.
        prompt = self.tokens.ids[0][self.tokens.mask[0] & ~self.tokens.free[0]].tolist()
        rng = random.Keyed.of(self.seed if seed is None else seed, "pick", random.word(prompt))
        return [self.texts[row] for row in self.pick_rows(m, rng, replace)]


@dataclass(frozen=True)
class Estimate:
    """A number with its interval. `n`: how many independent things it rests on."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Bounds:
    """Two estimates that hold a quantity between them as n grows. `upper` is None where n = 1 gives none.

    `resolved`: ESS ≥ 50 and no weight above one half; necessary, not sufficient (two bounds can agree and both be wrong).
    """

    lower: float
    upper: float | None
    n: int
    ess: float
    max_weight: float
    resolved: bool
    seed: int | None = None
    """What the draws were drawn with, given or made up; None where the energies came from elsewhere."""

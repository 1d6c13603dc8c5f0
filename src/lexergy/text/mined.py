"""A mined set: windows of real text, and for each the texts that a language model wrote instead, with the law
they were drawn by. Shards on disk (`text.shards`); when read, 4 bytes a token in memory.
"""

from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.errors import LexergyError
from lexergy.core.types import Law
from lexergy.text.ragged import Ragged, Row
from lexergy.text.shards import ShardReader, unpack_rows
from lexergy.text.store import read_windows
from lexergy.text.tokenisers import load_tokenizer

TOKENIZER, WINDOWS, DRAWS = "tokenizer", "windows", "draws"
"""The parts of a mined set: the tokenizer whose ids it holds, the windows of real text, what was written
instead.
"""


class Mined:
    """A mined set, open for reading. Window i owns the negatives i·per_prefix, i·per_prefix + 1, …"""

    def __init__(self, place: str | Path, partial: bool = False) -> None:
        self.place = Path(place)
        if not (self.place / DRAWS).is_dir():
            raise LexergyError(
                f"{place} is no mined set: there is no folder {DRAWS} in it. lexergy mine writes one."
            )
        reader = ShardReader(self.place / DRAWS, partial=partial)
        self.meta = reader.meta
        self.law = Law.from_json(self.meta["law"])
        self.per_prefix: int = self.meta["per_prefix"]
        stored = list(read_windows(self.place / WINDOWS))[: reader.rows]
        contexts = [window.context or self.meta["start"] for window in stored]
        self.groups = [window.group for window in stored]
        self.real = Ragged.of([_row(c, w.continuation) for c, w in zip(contexts, stored, strict=True)])
        negatives: list[Row] = []
        numbers: dict[str, list[Tensor]] = {"log_q": [], "log_p": [], "real_log_p": []}
        for shard in reader:
            for ids in unpack_rows(shard, "negative"):
                negatives.append(_row(contexts[len(negatives) // self.per_prefix], ids))
            for name, parts in numbers.items():
                parts.append(shard[name])
        self.negatives = Ragged.of(negatives)
        self.log_q: Float[Tensor, "windows per_prefix"] = torch.cat(numbers["log_q"])
        self.log_p: Float[Tensor, "windows per_prefix"] = torch.cat(numbers["log_p"])
        self.real_log_p: Float[Tensor, "windows"] = torch.cat(numbers["real_log_p"])

    def __len__(self) -> int:
        return len(self.groups)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the language model that wrote the negatives."""
        return load_tokenizer(self.place / TOKENIZER)


def _row(context: list[int], continuation: list[int]) -> Row:
    return [*context, *continuation], len(context), len(context) + len(continuation)


def read_mined(place: str | Path) -> Mined:
    """The mined set in a folder."""
    return Mined(place)

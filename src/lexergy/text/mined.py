"""A mined set: windows of real text, and for each the texts that a language model wrote instead, with the law
they were drawn by. Shards on disk (`text.shards`); when read, 4 bytes a token in memory.
"""

from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.errors import LexergyError
from lexergy.core.types import Law
from lexergy.text.ragged import Packed, Ragged, chain, stack, take
from lexergy.text.shards import ShardReader, unpack_texts
from lexergy.text.tokenisers import load_tokenizer

TOKENIZER, WINDOWS, DRAWS = "tokenizer", "windows", "draws"
"""The parts of a mined set: the tokenizer whose ids it holds, the windows of real text, what was written
instead.
"""
KIND = "mined"


class Mined:
    """A mined set, open for reading. Window i owns the negatives i·per_prefix, i·per_prefix + 1, …

    `real`, `negatives`: token rows, context given. `log_q`, `log_p` [window, negative]: as `Draws` has them.
    `real_log_p` [window]: log P_LM of the true continuation. `groups`: each window's author or document.
    """

    def __init__(self, place: str | Path) -> None:
        self.place = Path(place)
        if not (self.place / DRAWS).is_dir():
            raise LexergyError(f"{place} is no mined set: there is no folder {DRAWS} in it. lexergy mine writes one.")
        reader = ShardReader(self.place / DRAWS)
        self.meta = reader.meta
        if self.meta.get("kind") != KIND:
            raise LexergyError(f"{place} is no mined set: its shards hold {self.meta.get('kind')!r}.")
        self.law = Law.from_json(self.meta["law"])
        self.per_prefix: int = self.meta["per_prefix"]
        self.vocabulary: int = self.meta.get("vocabulary", 0)
        contexts, continuations, self.groups = self._windows()
        if len(self.groups) != reader.rows:
            raise LexergyError(
                f"{place} holds {len(self.groups)} windows but draws for {reader.rows}: its parts were not made "
                "together. Remove it and mine again."
            )
        self.real = Ragged.continuing(contexts, continuations)
        written: list[Ragged] = []
        numbers: dict[str, list[Tensor]] = {"log_q": [], "log_p": [], "real_log_p": []}
        at = 0
        for number, shard in enumerate(reader):
            window = torch.arange(at, at + reader.rows_of(number)).repeat_interleave(self.per_prefix)
            negatives = shard["negative"], shard["negative.starts"]
            written.append(Ragged.continuing(take(contexts, window), negatives))
            for name, parts in numbers.items():
                parts.append(shard[name])
            at += reader.rows_of(number)
        self.negatives = Ragged.concatenate(written)
        self.log_q = torch.cat(numbers["log_q"])
        self.log_p = torch.cat(numbers["log_p"])
        self.real_log_p = torch.cat(numbers["real_log_p"])

    def __len__(self) -> int:
        return len(self.groups)

    def __repr__(self) -> str:
        return f"Mined({str(self.place)!r}: {len(self)} windows, {self.per_prefix} written texts each; {self.law})"

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of the language model that wrote the negatives."""
        return load_tokenizer(self.place / TOKENIZER)

    def _windows(self) -> tuple[Packed, Packed, list[str]]:
        """Contexts, true continuations and groups. Where a context is empty stands what texts start from."""
        contexts: list[Packed] = []
        continuations: list[Packed] = []
        groups: list[str] = []
        for shard in ShardReader(self.place / WINDOWS):
            contexts.append((shard["context"], shard["context.starts"]))
            continuations.append((shard["continuation"], shard["continuation.starts"]))
            groups += unpack_texts(shard, "group")
        given = stack(contexts)
        empty = (given[1].diff() == 0).long()
        start = torch.tensor(self.meta["start"], dtype=torch.int32)
        begun = start.repeat(int(empty.sum())), torch.cat([empty.new_zeros(1), empty.cumsum(0) * len(start)])
        return chain([begun, given]), stack(continuations), groups


def read_mined(place: str | Path) -> Mined:
    """The mined set in a folder."""
    return Mined(place)
